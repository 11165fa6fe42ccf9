//! A small GPT that is made of your functions. It is trained on a short story and then writes a
//! sentence.
//!
//! The functions that you wrote compute the forward pass, the loss, the gradients of the last
//! layer, the optimizer step, the training loop and the text generation. The library `practice`
//! draws the initial weights and provides the backward passes of all other layers, because they
//! aren't exercises.

use std::cell::RefCell;
use std::time::Instant;

use practice::gpt::{DropRates, GptConfig, GptModel, TransformerBlock};
use practice::ndarray::{Array1, Array2, Axis, concatenate, s};
use practice::tensor_ops::{LayerNorm, Linear, Parameters};
use practice::torch_rng::TorchRng;
use practice::{STORY, Training, tokenizer};

use super::s2_3::{decode, encode};
use super::s2_6::windows;
use super::s3_5_2::dropout;
use super::s3_6_2::multi_head;
use super::s4_2::layer_norm;
use super::s4_3b::feed_forward;
use super::s4_5::block;
use super::s4_6::forward;
use super::s5_1::cross_entropy;
use super::s5_2a::{cross_entropy_gradient, linear_backward};
use super::s5_2b::adamw;
use super::s5_2c::train;
use super::s5_3_3::generate;

const CONTEXT: usize = 32;
const FEATURES: usize = 64;
const HEADS: usize = 4;
const BLOCKS: usize = 2;
const BATCH: usize = 8;
const DROPPED: f32 = 0.1;
const LEARNING_RATE: f32 = 2e-3;
const WEIGHT_DECAY: f32 = 0.1;
const PROMPT: &str = "The bell";

/// Trains a GPT for a number of epochs on the short story that is included in the library
/// `practice`. Returns a sentence or two that the trained GPT generates.
///
/// # Errors
///
/// Returns an error if `encode` fails or if the model can't be created.
pub fn run(epochs: usize) -> Result<String, String> {
    let began = Instant::now();
    let words = tokenizer::preprocess(STORY);
    let mut tokens: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    tokens.sort();
    tokens.dedup();
    let vocabulary = tokens.iter().cloned().zip(0..).collect();
    let ids = encode(&vocabulary, &words)?;
    let mut gpt = MyGpt::new(&ids, tokens.len())?;
    println!(
        "the story has {} words, {} of which are distinct\n\
         the model has {} weights, and an epoch has {} batches of {BATCH} windows",
        ids.len(),
        tokens.len(),
        gpt.model.num_parameters(),
        gpt.batches.len()
    );

    let batches = gpt.batches.len();
    let losses = train(&mut gpt, batches, epochs, batches);
    if let (Some((_, first)), Some((steps, last))) = (losses.first(), losses.last()) {
        let seconds = began.elapsed().as_secs();
        println!(
            "{steps} steps took {seconds} s; the validation loss changed from {first:.3} to {last:.3}"
        );
    }

    let prompt = encode(&vocabulary, &tokenizer::preprocess(PROMPT))?;
    let next = |ids: &[u32]| {
        let logits = gpt.logits(ids);
        logits.row(logits.nrows() - 1).to_owned()
    };
    let mut rng = TorchRng::manual_seed(123);
    let mut random = || rng.rand(1)[0];
    let written = generate(&next, prompt, 40, CONTEXT, 0.8, 10, &mut random);
    let text = decode(&tokens, &written);
    // Return only the beginning of the generated text, up to the first full stop that comes after
    // more than ten words. Earlier full stops are ignored because the model may generate one after
    // a few words.
    let mut ends = text.match_indices('.').map(|(end, _)| end);
    Ok(
        match ends.find(|&end| text[..end].split_whitespace().count() > 10) {
            Some(end) => text[..=end].to_owned(),
            None => text,
        },
    )
}

/// A part of the model, which maps an array with the shape (tokens, features) to an array of the
/// same shape.
type Part<'a> = &'a dyn Fn(&Array2<f32>) -> Array2<f32>;
type OwnedPart<'a> = Box<dyn Fn(&Array2<f32>) -> Array2<f32> + 'a>;

/// Inputs and targets, which have the same length.
type Window = (Vec<u32>, Vec<u32>);

/// Your GPT, its data, and the state that training needs.
struct MyGpt {
    model: GptModel,
    gradients: GptModel,
    /// AdamW's two running means for each weight.
    moments: Vec<[f32; 2]>,
    steps: i32,
    rng: TorchRng,
    batches: Vec<Vec<Window>>,
    validation: Vec<Window>,
    last_loss: f32,
    /// Results of the forward pass for each window of the last batch, which `backward` needs.
    passes: Vec<Pass>,
    /// Logits of the last batch.
    logits: Array2<f32>,
    /// Targets of the last batch.
    targets: Vec<u32>,
}

/// Results of the forward pass for one window that the backward pass needs.
struct Pass {
    ids: Vec<u32>,
    /// Dropout mask, which is 0 for dropped features and contains the scaling factor for all
    /// others.
    mask: Array2<f32>,
    /// Inputs of all transformer blocks, in order, followed by the input and the output of the
    /// final normalization. The backward pass computes the gradients of these layers from them.
    arrays: Vec<Array2<f32>>,
}

impl MyGpt {
    fn new(ids: &[u32], vocabulary: usize) -> Result<Self, String> {
        let config = GptConfig {
            vocab_size: vocabulary,
            context_length: CONTEXT,
            emb_dim: FEATURES,
            n_heads: HEADS,
            n_layers: BLOCKS,
            // The model's own dropout is switched off, because this program calls your function
            // `dropout` instead.
            drop_rates: DropRates::all(0.0),
            ..GptConfig::GPT2_124M
        };
        let mut rng = TorchRng::manual_seed(123);
        let model = GptModel::new(config, &mut rng).map_err(|error| error.to_string())?;
        let gradients = GptModel::zeros(config).map_err(|error| error.to_string())?;
        let (to_train, to_validate) = ids.split_at(ids.len() * 9 / 10);
        let all = windows(to_train, CONTEXT, CONTEXT);
        Ok(Self {
            moments: vec![[0.0; 2]; model.num_parameters()],
            model,
            gradients,
            steps: 0,
            rng,
            batches: all.chunks_exact(BATCH).map(<[Window]>::to_vec).collect(),
            validation: windows(to_validate, CONTEXT, CONTEXT),
            last_loss: f32::NAN,
            passes: Vec::new(),
            logits: Array2::zeros((0, vocabulary)),
            targets: Vec::new(),
        })
    }

    /// Returns the logits of a text, with the shape (ids, vocabulary). Dropout isn't applied.
    fn logits(&self, ids: &[u32]) -> Array2<f32> {
        self.pass(ids, Array2::ones((ids.len(), FEATURES))).0
    }

    /// Computes the forward pass of a text, in which the embeddings are multiplied by `mask`.
    /// Returns the logits and the results that the backward pass needs.
    fn pass(&self, ids: &[u32], mask: Array2<f32>) -> (Array2<f32>, Pass) {
        let arrays = RefCell::new(Vec::new());
        let note = |x: &Array2<f32>| arrays.borrow_mut().push(x.clone());
        let mut parts: Vec<OwnedPart<'_>> = vec![Box::new(|x| x * &mask)];
        for weights in &self.model.trf_blocks {
            parts.push(Box::new(move |x| {
                note(x);
                block_forward(weights, x)
            }));
        }
        let final_norm = |x: &Array2<f32>| {
            note(x);
            let normed = norm(&self.model.final_norm, x);
            note(&normed);
            normed
        };
        let blocks: Vec<_> = parts.iter().map(|part| &**part).collect();
        let logits = forward(
            ids,
            &self.model.tok_emb.weight,
            &self.model.pos_emb.weight,
            &blocks,
            &final_norm,
            self.model.head_weight(),
        );
        drop(parts);
        let (ids, arrays) = (ids.to_vec(), arrays.into_inner());
        (logits, Pass { ids, mask, arrays })
    }
}

fn norm(weights: &LayerNorm, x: &Array2<f32>) -> Array2<f32> {
    layer_norm(x, &weights.scale, &weights.shift, weights.eps)
}

fn bias(layer: &Linear) -> Array1<f32> {
    layer.bias.clone().unwrap_or_default()
}

fn block_forward(weights: &TransformerBlock, x: &Array2<f32>) -> Array2<f32> {
    let attention = |x: &Array2<f32>| {
        let it = &weights.att;
        let [q, k, v, out] = [&it.w_query, &it.w_key, &it.w_value, &it.out_proj];
        multi_head(
            x,
            &q.weight,
            &k.weight,
            &v.weight,
            &out.weight,
            &bias(out),
            HEADS,
        )
    };
    let network = |x: &Array2<f32>| {
        let (first, second) = (&weights.ff.expand, &weights.ff.contract);
        feed_forward(
            x,
            &first.weight,
            &bias(first),
            &second.weight,
            &bias(second),
        )
    };
    let norms: [Part<'_>; 2] = [&|x| norm(&weights.norm1, x), &|x| norm(&weights.norm2, x)];
    block(x, norms, &attention, &network)
}

impl Training for MyGpt {
    fn zero_grad(&mut self) {
        for (_, mut gradient) in self.gradients.named_parameters_mut() {
            gradient.fill(0.0);
        }
    }

    fn loss(&mut self, batch: usize) -> f32 {
        let (mut passes, mut logits, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for (ids, following) in &self.batches[batch] {
            let ones = Array2::ones((ids.len(), FEATURES));
            let mask = dropout(&ones, DROPPED, &mut || self.rng.rand(1)[0]);
            let (of_window, pass) = self.pass(ids, mask);
            passes.push(pass);
            logits.push(of_window);
            targets.extend_from_slice(following);
        }
        let logits: Vec<_> = logits.iter().map(|array| array.view()).collect();
        self.logits = concatenate(Axis(0), &logits).unwrap_or_default();
        (self.passes, self.targets) = (passes, targets);
        self.last_loss = cross_entropy(&self.logits, &self.targets);
        self.last_loss
    }

    fn backward(&mut self) {
        let (model, gradients) = (&self.model, &mut self.gradients);
        let d_logits = cross_entropy_gradient(&self.logits, &self.targets);
        let mut first = 0;
        for pass in &self.passes {
            let rows = s![first..first + pass.ids.len(), ..];
            first += pass.ids.len();
            let [inputs @ .., last, normed] = &pass.arrays[..] else {
                // The inputs of the layers are recorded when your function `forward` calls these
                // layers. If it doesn't call all blocks and the final normalization, no gradients
                // can be computed for this window.
                continue;
            };
            let d_logits = d_logits.slice(rows).to_owned();
            let (d_x, d_head, _) = linear_backward(normed, model.head_weight(), &d_logits);
            if let Some(head) = &mut gradients.out_head {
                head.weight += &d_head;
            }
            // Your function `linear_backward` has computed the gradients of the last layer. The
            // library computes the gradients of all other layers. To do so, it first repeats the
            // forward pass of each layer.
            let (_, cache) = model.final_norm.forward_train(last);
            let norm = &mut gradients.final_norm;
            let d_x = model.final_norm.backward(cache, &d_x, norm);
            let mut d_x = d_x.insert_axis(Axis(0));
            let blocks = model.trf_blocks.iter().zip(&mut gradients.trf_blocks);
            for ((block, gradients), x) in blocks.zip(inputs).rev() {
                let x = x.clone().insert_axis(Axis(0));
                let pass = block.forward_train(x, &mut self.rng);
                let (_, cache) = pass.expect("the shapes of the forward pass");
                d_x = block.backward(cache, d_x, gradients);
            }
            let d_x = d_x.index_axis_move(Axis(0), 0) * &pass.mask;
            let ids = Array1::from_vec(pass.ids.clone());
            model.tok_emb.backward(&ids, &d_x, &mut gradients.tok_emb);
            let mut positions = gradients.pos_emb.weight.slice_mut(s![..ids.len(), ..]);
            positions += &d_x;
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        let mut moments = self.moments.iter_mut();
        let gradients = self.gradients.named_parameters();
        for ((_, mut weights), (_, gradients)) in
            self.model.named_parameters_mut().into_iter().zip(gradients)
        {
            let weights = weights.iter_mut().zip(&gradients);
            for ((weight, gradient), moments) in weights.zip(&mut moments) {
                let (rate, decay) = (LEARNING_RATE, WEIGHT_DECAY);
                *weight = adamw(*weight, *gradient, moments, self.steps, rate, decay);
            }
        }
    }

    fn validation_loss(&self) -> f32 {
        let losses = self.validation.iter();
        let losses = losses.map(|(ids, targets)| cross_entropy(&self.logits(ids), targets));
        let loss = losses.sum::<f32>() / self.validation.len() as f32;
        let (steps, last) = (self.steps, self.last_loss);
        println!("step {steps:>3}: training loss {last:.3}, validation loss {loss:.3}");
        loss
    }
}
