//! 3.6.2 Causal multi-head attention: listing 3.5
//!
//! Write the whole attention module for one text. A single head can look for only one kind of
//! relation between words. Several heads can look for several kinds at the same time, each in its
//! own part of the features. A final linear layer combines their results.
//!
//! As in exercise 3.1, the weights have the layout of `nn.Linear`. A weight with the shape (out,
//! in) is applied to x as `x @ W.T`. The layers for queries, keys and values have no biases, but
//! the final layer has a bias.
//!
//! You can use your earlier functions. `split_heads` and `join_heads` are `split` and `join` from
//! exercise 3.6 for one text. `causal_weights` is your function from exercise 3.5, which scales the
//! scores, hides the future and applies softmax. Omit dropout.
//!
//! HINT: Each head works as in exercise 3.4, but with a mask. How many features does the key of one
//!   head have?
//! HINT: For each head, context = causal_weights(q @ k^T, head_dim) @ v, where q, k and v are the
//!   head's parts of x @ w_query^T, x @ w_key^T and x @ w_value^T. The result is join_heads(all
//!   contexts) @ w_out^T + b_out.
//! HINT: `split_heads(&queries, heads)` returns a `Vec` that contains an array with the shape (n,
//!   head_dim) for each head. For such an array, `a.ncols()` is head_dim. If you add `b_out` to a
//!   matrix, it is added to each row.

use practice::given::{causal_weights, join_heads, split_heads};
use practice::ndarray::{Array1, Array2};

/// Computes multi-head attention for n words. Returns their context vectors, of shape (n, d_out).
/// `x` contains the words' embeddings, of shape (n, d_in). The weight matrices of the queries, keys
/// and values have the shape (d_out, d_in), and `w_out`, the matrix of the output projection, has
/// the shape (d_out, d_out).
pub fn multi_head(
    x: &Array2<f32>,
    w_query: &Array2<f32>,
    w_key: &Array2<f32>,
    w_value: &Array2<f32>,
    w_out: &Array2<f32>,
    b_out: &Array1<f32>,
    heads: usize,
) -> Array2<f32> {
    // SOLUTION
    let [queries, keys, values] =
        [w_query, w_key, w_value].map(|weight| split_heads(&x.dot(&weight.t()), heads));
    let mut contexts = Vec::new();
    for head in 0..heads {
        let scores = queries[head].dot(&keys[head].t());
        let weights = causal_weights(&scores, keys[head].ncols());
        contexts.push(weights.dot(&values[head]));
    }
    join_heads(&contexts).dot(&w_out.t()) + b_out
    // END
}

// CHECKS

use attention::{AttentionConfig, MultiHeadAttention};
use ndarray::{Axis, s, stack};
use torch_rng::TorchRng;

use super::inputs;
use crate::Report;
use crate::check::{Check, Mistake, random};
use crate::given::softmax_rows;
use crate::reference::{self, wide};

type MultiHead = fn(
    &Array2<f32>,
    &Array2<f32>,
    &Array2<f32>,
    &Array2<f32>,
    &Array2<f32>,
    &Array1<f32>,
    usize,
) -> Array2<f32>;

/// Computes the part of multi-head attention before the final layer, and returns the joined context
/// vectors of all heads. `weigh` receives the scores of a head and the number of features of its
/// keys, and returns the attention weights. A typical mistake can thus be simulated by passing a
/// wrong `weigh`.
fn contexts(
    x: &Array2<f32>,
    projections: [&Array2<f32>; 3],
    heads: usize,
    weigh: impl Fn(&Array2<f32>, usize) -> Array2<f32>,
) -> Array2<f32> {
    let [queries, keys, values] = projections.map(|weight| split_heads(&x.dot(&weight.t()), heads));
    let context = |head: usize| {
        let scores = queries[head].dot(&keys[head].t());
        weigh(&scores, keys[head].ncols()).dot(&values[head])
    };
    join_heads(&(0..heads).map(context).collect::<Vec<_>>())
}

pub(crate) const MISTAKES: &[Mistake<MultiHead>] = &[
    (
        "no score is masked, so words see the future; use `causal_weights`",
        |x, q, k, v, out, b, heads| {
            let weigh =
                |scores: &Array2<f32>, d_k: usize| softmax_rows(scores / (d_k as f32).sqrt());
            contexts(x, [q, k, v], heads, weigh).dot(&out.t()) + b
        },
    ),
    (
        "the scores are divided by the square root of d_out; use that of head_dim",
        |x, q, k, v, out, b, heads| {
            let weigh = |scores: &Array2<f32>, _| causal_weights(scores, q.nrows());
            contexts(x, [q, k, v], heads, weigh).dot(&out.t()) + b
        },
    ),
    (
        "there is only one head with all features; split the features among the heads",
        |x, q, k, v, out, b, _| multi_head(x, q, k, v, out, b, 1),
    ),
    (
        "the final layer is missing; multiply by w_out^T and add b_out",
        |x, q, k, v, _, _, heads| contexts(x, [q, k, v], heads, causal_weights),
    ),
    (
        "the bias of the final layer is missing; add b_out",
        |x, q, k, v, out, _, heads| contexts(x, [q, k, v], heads, causal_weights).dot(&out.t()),
    ),
    (
        "the weight of the final layer isn't transposed; multiply by w_out^T",
        |x, q, k, v, out, b, heads| contexts(x, [q, k, v], heads, causal_weights).dot(out) + b,
    ),
    (
        "the keys are used as values; compute the values with `w_value`",
        |x, q, k, _, out, b, heads| multi_head(x, q, k, k, out, b, heads),
    ),
    (
        "queries and keys are exchanged; the rows of the scores belong to the queries",
        |x, q, k, v, out, b, heads| multi_head(x, k, q, v, out, b, heads),
    ),
    (
        "all heads use the weights of the first head; compute the weights of each head",
        |x, q, k, v, out, b, heads| {
            let [queries, keys, values] =
                [q, k, v].map(|weight| split_heads(&x.dot(&weight.t()), heads));
            let weights = causal_weights(&queries[0].dot(&keys[0].t()), keys[0].ncols());
            let contexts: Vec<_> = values.iter().map(|values| weights.dot(values)).collect();
            join_heads(&contexts).dot(&out.t()) + b
        },
    ),
];

/// Checks the learner's `multi_head`.
pub fn check(multi_head: MultiHead) -> Report {
    let mut check = Check::new(multi_head, MISTAKES);
    let config = AttentionConfig {
        num_heads: 2,
        ..AttentionConfig::default()
    };
    let book = MultiHeadAttention::new(config, &mut TorchRng::manual_seed(123));
    let book = book.expect("a valid configuration");
    let bias = book.out_proj.bias.clone().unwrap_or_default();
    check.printed(
        "listing 3.5 with the book's weights, In [36]",
        ("ch03", "In [36]", 0),
        |yours| {
            let [q, k, v, out] = [&book.w_query, &book.w_key, &book.w_value, &book.out_proj]
                .map(|layer| &layer.weight);
            let of_text = yours(&inputs(), q, k, v, out, &bias, 2);
            // The book's batch contains the same text twice.
            stack(Axis(0), &[of_text.view(), of_text.view()]).unwrap_or_default()
        },
    );
    let x = random(4, 3, 7);
    let [q, k, v] = [8, 9, 10].map(|seed| random(6, 3, seed));
    let (out, bias) = (random(6, 6, 11), random(1, 6, 12).row(0).to_owned());
    for heads in [1, 2, 3] {
        // The result of the learner's function is compared with a result that is computed in `f64`
        // and without matrices of scores, one word and one head at a time.
        let [queries, keys, values] = [&q, &k, &v].map(|weight| wide(&x).dot(&wide(weight).t()));
        let head_dim = 6 / heads;
        let mut joined = Array2::<f64>::zeros((4, 6));
        for (word, head) in (0..4).flat_map(|word| (0..heads).map(move |head| (word, head))) {
            let part = s![head * head_dim..(head + 1) * head_dim];
            let query = queries.row(word);
            let score = |other: usize| {
                query.slice(part).dot(&keys.row(other).slice(part)) / (head_dim as f64).sqrt()
            };
            let weights = reference::softmax(&(0..=word).map(score).collect());
            for (other, weight) in weights.iter().enumerate() {
                let value = values.row(other).slice(part).to_owned() * *weight;
                let mut sum = joined.row_mut(word);
                let mut sum = sum.slice_mut(part);
                sum += &value;
            }
        }
        let expected = joined.dot(&wide(&out).t()) + wide(&bias);
        let label = format!("4 words, d_out = 6, heads = {heads}");
        check.equals(&label, expected, |yours| {
            yours(&x, &q, &k, &v, &out, &bias, heads)
        });
    }
    check.holds("the future doesn't change the past", |yours| {
        let mut changed = x.clone();
        changed.row_mut(3).fill(5.0);
        let [before, after] = [&x, &changed].map(|x| yours(x, &q, &k, &v, &out, &bias, 2));
        match (0..3).all(|row| before.row(row) == after.row(row)) {
            true => Ok(()),
            false => {
                Err("the last word affects earlier rows; mask the scores with j > i".to_owned())
            }
        }
    });
    check.report()
}
