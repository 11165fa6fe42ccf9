//! 4.6 GPTModel: from IDs to logits
//!
//! You have written all parts of the model, so its forward pass is short. The token and position
//! embeddings convert a text to vectors. The blocks change these vectors, one block after another.
//! The shortcut connections add something to the vectors in every block, so the vectors can become
//! large, and a final normalization brings them to a common size. Finally, a linear layer without a
//! bias computes a logit for each token of the vocabulary, at each position of the text.
//!
//! As in exercise 4.5, your function receives the blocks and the normalization as functions.
//! `embed` is your function from exercise 2.8. The weight of the final layer, `head`, has the
//! layout of `nn.Linear`, so its shape is (vocabulary, features).
//!
//! HINT: The output of each block is the input of the next block. Which part receives the output of
//!   the last block?
//! HINT: x = embed(ids, tokens, positions), then x = block(x) for each block, and finally logits =
//!   final_norm(x) @ head^T.
//! HINT: Call a block as `block(&x)`. You need only `let mut x = ...;` and a loop over `blocks`.

use practice::given::embed;
use practice::ndarray::Array2;

/// A part of the model, which maps an array with the shape (tokens, features) to an array of the
/// same shape.
type Part<'a> = &'a dyn Fn(&Array2<f32>) -> Array2<f32>;

/// Returns the logits of a text, with the shape (ids, vocabulary).
pub fn forward(
    ids: &[u32],
    tokens: &Array2<f32>,
    positions: &Array2<f32>,
    blocks: &[Part<'_>],
    final_norm: Part<'_>,
    head: &Array2<f32>,
) -> Array2<f32> {
    // SOLUTION
    let mut x = embed(ids, tokens, positions);
    for block in blocks {
        x = block(&x);
    }
    final_norm(&x).dot(&head.t())
    // END
}

// CHECKS

use gpt::{DropRates, GptConfig, GptModel};
use ndarray::{Axis, s};
use torch_rng::TorchRng;

use crate::Report;
use crate::check::{Check, Mistake, random};
use crate::given::softmax_rows;
use crate::reference::wide;

type Forward =
    fn(&[u32], &Array2<f32>, &Array2<f32>, &[Part<'_>], Part<'_>, &Array2<f32>) -> Array2<f32>;

/// Returns the output of the last block for the input `x`.
fn behind(x: Array2<f32>, blocks: &[Part<'_>]) -> Array2<f32> {
    blocks.iter().fold(x, |x, block| block(&x))
}

pub(crate) const MISTAKES: &[Mistake<Forward>] = &[
    (
        "the final normalization is missing; apply it to the output of the last block",
        |ids, tokens, positions, blocks, _, head| {
            behind(embed(ids, tokens, positions), blocks).dot(&head.t())
        },
    ),
    (
        "the final normalization is applied before the blocks; apply it after them",
        |ids, tokens, positions, blocks, norm, head| {
            behind(norm(&embed(ids, tokens, positions)), blocks).dot(&head.t())
        },
    ),
    (
        "the normalization is applied after each block; apply it only after the last one",
        |ids, tokens, positions, blocks, norm, head| {
            let x = embed(ids, tokens, positions);
            let x = blocks.iter().fold(x, |x, block| norm(&block(&x)));
            x.dot(&head.t())
        },
    ),
    (
        "only the first block is used; pass x through all blocks",
        |ids, tokens, positions, blocks, norm, head| {
            let first = &blocks[..blocks.len().min(1)];
            forward(ids, tokens, positions, first, norm, head)
        },
    ),
    (
        "each block gets the embeddings; pass it the output of the previous block",
        |ids, tokens, positions, blocks, norm, head| {
            let x = embed(ids, tokens, positions);
            let last = blocks.last().map_or(x.clone(), |block| block(&x));
            norm(&last).dot(&head.t())
        },
    ),
    (
        "the blocks are called in reverse order; begin with the first block",
        |ids, tokens, positions, blocks, norm, head| {
            let blocks: Vec<Part<'_>> = blocks.iter().rev().copied().collect();
            forward(ids, tokens, positions, &blocks, norm, head)
        },
    ),
    (
        "the input of each block is added to its output; omit it, because the block adds it",
        |ids, tokens, positions, blocks, norm, head| {
            let x = embed(ids, tokens, positions);
            let x = blocks.iter().fold(x, |x, block| block(&x) + &x);
            norm(&x).dot(&head.t())
        },
    ),
    (
        "the results are probabilities; return the logits without applying softmax",
        |ids, tokens, positions, blocks, norm, head| {
            softmax_rows(forward(ids, tokens, positions, blocks, norm, head))
        },
    ),
    (
        "only the logits of the last position are returned; return those of all positions",
        |ids, tokens, positions, blocks, norm, head| {
            let logits = forward(ids, tokens, positions, blocks, norm, head);
            logits.slice(s![logits.nrows() - 1.., ..]).to_owned()
        },
    ),
];

/// Checks the learner's `forward`.
pub fn check(forward: Forward) -> Report {
    let mut check = Check::new(forward, MISTAKES);
    let (tokens, positions, head) = (random(5, 3, 7), random(4, 3, 8), random(5, 3, 9));
    let square = |x: &Array2<f32>| x.mapv(|x| x * x);
    let plus_1 = |x: &Array2<f32>| x + 1.0;
    let half = |x: &Array2<f32>| x * 0.5;
    let ids = [4, 0, 4];
    let expected = |blocks: &dyn Fn(f64) -> f64| {
        let mut x = wide(&tokens).select(Axis(0), &[4, 0, 4]);
        x += &wide(&positions).slice(s![..3, ..]);
        x.mapv(|x| 0.5 * blocks(x)).dot(&wide(&head).t())
    };
    check.equals(
        "simple functions as parts",
        expected(&|x| x * x + 1.0),
        |yours| yours(&ids, &tokens, &positions, &[&square, &plus_1], &half, &head),
    );
    check.equals("a model without blocks", expected(&|x| x), |yours| {
        yours(&ids, &tokens, &positions, &[], &half, &head)
    });
    let config = GptConfig {
        vocab_size: 20,
        context_length: 8,
        emb_dim: 12,
        n_heads: 3,
        n_layers: 2,
        drop_rates: DropRates::all(0.0),
        ..GptConfig::GPT2_124M
    };
    let model = GptModel::new(config, &mut TorchRng::manual_seed(123)).expect("a valid model");
    let ids = [3, 14, 15, 9, 2, 6];
    let batch = Array2::from_shape_vec((1, 6), ids.to_vec()).expect("six IDs");
    let logits = model.forward(&batch).expect("six tokens");
    check.equals(
        "listing 4.7 with 2 blocks (seed 123)",
        logits.index_axis_move(Axis(0), 0),
        |yours| {
            let blocks = model.trf_blocks.iter().map(|block| {
                move |x: &Array2<f32>| {
                    let x = x.clone().insert_axis(Axis(0));
                    let out = block.forward(&x).expect("as many features");
                    out.index_axis_move(Axis(0), 0)
                }
            });
            let blocks: Vec<_> = blocks.collect();
            let blocks: Vec<Part<'_>> = blocks.iter().map(|block| block as Part<'_>).collect();
            let norm = |x: &Array2<f32>| model.final_norm.forward(x);
            let (tokens, positions) = (&model.tok_emb.weight, &model.pos_emb.weight);
            yours(&ids, tokens, positions, &blocks, &norm, model.head_weight())
        },
    );
    check.report()
}
