//! Shows how to look inside a model: its hidden states, the logit lens, the attention weights, and
//! the effect of switching off single attention heads. Run this example with
//! `cargo run --release -p gpt --example inspection`.
//!
//! First, a small model is trained to continue sequences in which two tokens alternate. For
//! example, it learns that `3 7 3` is followed by `7`. To make such predictions, at least one
//! attention head must attend to earlier tokens.

use gpt::ndarray::{Array2, ArrayView1, array, s};
use gpt::tensor_ops::IGNORE_INDEX;
use gpt::torch_rng::TorchRng;
use gpt::{DropRates, GptConfig, GptError, GptModel, Parameters};

/// Trains the model with 500 steps of gradient descent and returns the loss of the last step.
fn learn_to_repeat(model: &mut GptModel, rng: &mut TorchRng) -> Result<f32, GptError> {
    let mut grads = GptModel::zeros(model.config())?;
    // The batch contains 100 sequences, one for each pair of the ten tokens. Each sequence consists
    // of four repetitions of its pair.
    let inputs = Array2::from_shape_fn((100, 8), |(i, j)| [i / 10, i % 10][j % 2] as u32);
    let mut targets = Array2::from_shape_fn((100, 8), |(i, j)| inputs[[i, (j + 1) % 8]]);
    targets.column_mut(0).fill(IGNORE_INDEX); // nothing predicts the second token
    let mut loss = f32::NAN;
    for _ in 0..500 {
        loss = model.loss_and_grads(&inputs, &targets, 1.0, rng, &mut grads)?;
        let weights = model.named_parameters_mut().into_iter();
        for ((_, mut weight), (_, gradient)) in weights.zip(grads.named_parameters()) {
            weight.scaled_add(-0.3, &gradient);
        }
        grads.fill_zero();
    }
    Ok(loss)
}

/// Returns the ID with the largest logit.
fn likeliest(logits: ArrayView1<f32>) -> usize {
    let ids = 0..logits.len();
    let best = ids.max_by(|&one, &other| logits[one].total_cmp(&logits[other]));
    best.expect("a vocabulary has tokens")
}

fn main() -> Result<(), GptError> {
    let config = GptConfig {
        vocab_size: 10,
        context_length: 8,
        emb_dim: 16,
        n_heads: 2,
        n_layers: 2,
        drop_rates: DropRates::all(0.0),
        ..GptConfig::GPT2_124M
    };
    let rng = &mut TorchRng::manual_seed(123);
    let mut model = GptModel::new(config, rng)?;
    println!(
        "trained to a loss of {:.3}",
        learn_to_repeat(&mut model, rng)?
    );
    let ids = array![[3, 7, 3, 7, 3]];

    // The logit lens shows what the model would predict if it ended after each of its blocks.
    for (blocks, state) in model.hidden_states(&ids)?.iter().enumerate() {
        let last: ArrayView1<f32> = state.slice(s![0, -1, ..]); // shape: (emb_dim)
        let logits = model.logits(&model.final_norm.forward(&last));
        let (norm, next) = (last.dot(&last).sqrt(), likeliest(logits.view()));
        println!(
            "after {blocks} blocks, the state of the last token has the norm {norm:.2} and predicts the token {next}"
        );
    }

    // The last row of each head's attention weights shows how strongly the last token attends to
    // each token.
    for (i, block) in model.trace(&ids)?.enumerate() {
        let attention = block?.attention; // shape: (batch, num_heads, num_tokens, num_tokens)
        for head in 0..config.n_heads {
            let weights = attention.slice(s![0, head, -1, ..]);
            println!(
                "in block {i}, head {head}, the last token attends to the tokens with weights {weights:.2}"
            );
        }
    }

    // Measure how important each attention head is: switch off one head at a time and compute the
    // loss. To switch off a head, set those columns of the weight of `out_proj` to 0 that are
    // multiplied by the head's output.
    let targets = array![[IGNORE_INDEX, 3, 7, 3, 7]];
    println!(
        "the loss of the model with all heads is {:.3}",
        model.loss(&ids, &targets)?
    );
    let head_dim = config.emb_dim / config.n_heads;
    for (block, head) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut ablated = model.clone();
        let columns = s![.., head * head_dim..(head + 1) * head_dim];
        let out_proj = &mut ablated.trf_blocks[block].att.out_proj;
        out_proj.weight.slice_mut(columns).fill(0.0);
        let loss = ablated.loss(&ids, &targets)?;
        println!("without head {head} of block {block}, the loss is {loss:.3}");
    }
    Ok(())
}
