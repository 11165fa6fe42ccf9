//! `gpt inspect`: what a model does with a text: each token's loss, what it expected next, and where each head looked.

mod page;
mod terminal;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use atomic_file::write_atomically;
use clap::Args;
use generate::softmax_with_temperature;
use gpt::GptModel;
use ndarray::{Array2, Array4, ArrayRef1, Axis};
use serde::Serialize;
use tensor_ops::cross_entropy_rows;

use crate::failure::Usage;
use crate::ids::TextArgs;
use crate::model::ModelArgs;
use crate::output::{print_coloured, print_json};
use crate::threads::ThreadArgs;
use crate::vocabulary::Vocabulary;

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    text: TextArgs,
    /// How many candidates to show for each token
    #[arg(long, value_name = "N", default_value_t = 3)]
    top: usize,
    /// The layer whose attention is shown in the terminal, counted from 0 as in the files [default: the last]
    #[arg(long, value_name = "N")]
    layer: Option<usize>,
    /// One head of it, counted from 0, with its weights as numbers [default: all]
    #[arg(long, value_name = "N")]
    head: Option<usize>,
    /// Write one page with all layers and heads instead
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print one JSON object with all layers and heads instead
    #[arg(long, conflicts_with = "html")]
    json: bool,
    #[command(flatten)]
    threads: ThreadArgs,
}

/// What the model does with a text.
pub(crate) struct Inspection {
    tokens: Vec<Token>,
    /// A layer each, (1, num_heads, num_tokens, num_tokens)
    attention: Vec<Array4<f32>>,
}

/// A token, and what the model expects behind it.
#[derive(Serialize)]
struct Token {
    id: u32,
    text: String,
    /// The cross-entropy of its prediction; none of the first
    loss: Option<f32>,
    /// The likeliest next tokens
    next: Vec<Candidate>,
}

#[derive(Serialize)]
struct Candidate {
    id: u32,
    text: String,
    probability: f32,
}

/// What `--json` prints: an f32 read back from it is the same f32.
#[derive(Serialize)]
struct Report<'a> {
    tokens: &'a [Token],
    /// \[layer\]\[head\]\[query\]\[key\]
    attention: Vec<Vec<Vec<Vec<f32>>>>,
}

pub(crate) fn run(args: &InspectArgs) -> Result<()> {
    args.threads.apply()?;
    let given = args.text.given()?;
    let found = args.model.find()?;
    let ids = found.vocabulary.ids(given)?;
    let model = found.load()?;
    let (layers, heads) = (model.config().n_layers, model.config().n_heads);
    for (flag, value, count) in [("layer", args.layer, layers), ("head", args.head, heads)] {
        if let Some(value) = value
            && value >= count
        {
            let message = format!("--{flag} {value}: expected 0 to {}", count - 1);
            return Err(Usage(message).into());
        }
    }
    let inspection = Inspection::of(&model, &found.vocabulary, &ids, args.top)?;
    if args.json {
        return print_json(&inspection.report());
    }
    found.name.tell();
    if let Some(path) = &args.html {
        let page = page::page(&inspection)?;
        write_atomically(path, |file| file.write_all(page.as_bytes()))?;
        return Ok(());
    }
    let layer = args.layer.unwrap_or(layers - 1);
    Ok(print_coloured(&terminal::text(
        &inspection,
        layer,
        args.head,
    ))?)
}

impl Inspection {
    fn of(model: &GptModel, vocabulary: &Vocabulary, ids: &[u32], top: usize) -> Result<Self> {
        let input = Array2::from_shape_vec((1, ids.len()), ids.to_vec())?;
        let logits = model.forward(&input)?.remove_axis(Axis(0)); // (num_tokens, vocab_size)
        let predicted = cross_entropy_rows(
            &logits.slice_axis(Axis(0), (..ids.len() - 1).into()),
            &ids[1..],
        );
        let losses = [None].into_iter().chain(predicted.into_iter().map(Some));
        let mut tokens = Vec::with_capacity(ids.len());
        for ((&id, loss), logits) in ids.iter().zip(losses).zip(logits.outer_iter()) {
            let probabilities = softmax_with_temperature(&logits, 1.0)?; // (vocab_size)
            let likeliest = likeliest(&probabilities, top).into_iter();
            let next = likeliest.map(|next| Candidate {
                id: next,
                text: vocabulary.text_of(&[next]),
                probability: probabilities[next as usize],
            });
            tokens.push(Token {
                id,
                text: vocabulary.text_of(&[id]),
                loss,
                next: next.collect(),
            });
        }
        let blocks = model.trace(&input)?;
        let attention = blocks
            .map(|block| Ok(block?.attention))
            .collect::<Result<_>>()?;
        Ok(Self { tokens, attention })
    }

    fn report(&self) -> Report<'_> {
        let rows = |weights: &Array4<f32>| -> Vec<Vec<Vec<f32>>> {
            let heads = weights.index_axis(Axis(0), 0);
            let of_head = |head: ndarray::ArrayView2<f32>| {
                head.outer_iter().map(|row| row.to_vec()).collect()
            };
            heads.outer_iter().map(of_head).collect()
        };
        Report {
            tokens: &self.tokens,
            attention: self.attention.iter().map(rows).collect(),
        }
    }
}

/// The ids of the `top` largest, the largest first, and of equal ones the lower id.
pub(crate) fn likeliest(scores: &ArrayRef1<f32>, top: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..scores.len() as u32).collect();
    let larger = |a: &u32, b: &u32| {
        let by_score = scores[*b as usize].total_cmp(&scores[*a as usize]);
        by_score.then(a.cmp(b))
    };
    if top < order.len() {
        order.select_nth_unstable_by(top, larger);
        order.truncate(top);
    }
    order.sort_unstable_by(larger);
    order
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn the_likeliest_come_first() {
        let probabilities = array![0.1, 0.4, 0.2, 0.3];
        assert_eq!(likeliest(&probabilities, 2), [1, 3]);
        assert_eq!(likeliest(&probabilities, 9), [1, 3, 2, 0]);
        assert!(likeliest(&probabilities, 0).is_empty());
        assert_eq!(likeliest(&array![0.5, 1.0, 0.5, 1.0, 0.5], 3), [1, 3, 0]);
    }

    #[test]
    fn weights_losses_and_candidates_are_those_of_the_library() {
        let config = gpt::GptConfig {
            vocab_size: 30,
            context_length: 9,
            emb_dim: 8,
            n_heads: 2,
            n_layers: 2,
            ..gpt::GptConfig::GPT2_124M
        };
        let model = GptModel::new(config, &mut torch_rng::TorchRng::manual_seed(5)).unwrap();
        let ids = [3, 14, 15, 9, 2, 6, 5];
        let no_tokenizer = tempfile::tempdir().unwrap();
        let vocabulary = Vocabulary::of_folder(no_tokenizer.path(), 30);
        let inspection = Inspection::of(&model, &vocabulary, &ids, 3).unwrap();
        let input = Array2::from_shape_vec((1, 7), ids.to_vec()).unwrap();

        // The first block's input is the sum of both embeddings, the second's the first's output.
        let mut x = model.tok_emb.forward(&input);
        x += &model.pos_emb.weight.slice_axis(Axis(0), (..7).into());
        for (block, shown) in model.trf_blocks.iter().zip(&inspection.attention) {
            let weights = block
                .att
                .attention_weights(&block.norm1.forward(&x))
                .unwrap();
            assert_eq!(shown, &weights);
            for sum in shown.sum_axis(Axis(3)) {
                assert!((sum - 1.0).abs() < 1e-6, "{sum}");
            }
            x = block.forward(&x).unwrap();
        }
        assert_eq!(inspection.attention.len(), 2);

        let inputs = input.slice_axis(Axis(1), (..6).into());
        let targets = input.slice_axis(Axis(1), (1..).into());
        let losses = model.token_losses(&inputs, &targets).unwrap();
        let shown: Vec<f32> = inspection
            .tokens
            .iter()
            .filter_map(|token| token.loss)
            .collect();
        for (shown, loss) in shown.iter().zip(&losses) {
            assert!((shown - loss).abs() < 1e-5, "{shown} {loss}");
        }
        assert_eq!(shown.len(), 6);
        let next = &inspection.tokens[6].next;
        assert!(next[0].probability >= next[1].probability && next.len() == 3);
    }
}
