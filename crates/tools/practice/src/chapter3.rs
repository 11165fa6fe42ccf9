//! The checks of chapter 3.

use attention::{SelfAttentionV1, SelfAttentionV2, WeightInit, mask_future, scaled_softmax};
use ndarray::{Array, Array1, Array2, Array3, Array4, Axis, array};
use torch_rng::TorchRng;

use crate::check::{Check, Report, ToAnswer, random, sum_is_1};

/// The six words of the chapter: (num_tokens, d_in) = (6, 3).
fn inputs() -> Array2<f32> {
    array![
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]
}

/// Checks that each row of a matrix sums to 1.
fn rows_sum_to_1(weights: &Array2<f32>) -> Result<(), String> {
    (weights.rows().into_iter()).try_for_each(|row| sum_is_1(row.sum()))
}

/// Exercise 3.3.1.
pub fn softmax(yours: fn(&Array1<f32>) -> Array1<f32>) -> Report {
    let mut check = Check::default();
    let inputs = inputs();
    let scores: Array1<f32> = inputs.outer_iter().map(|x| x.dot(&inputs.row(1))).collect();
    check.printed(("ch03", "In [7]", 0), || yours(&scores));
    let second = random(1, 5, 7).row(0).to_owned();
    let exponentials = second.mapv(f32::exp);
    check.second(
        "a second input (seed 7)",
        || yours(&second),
        tensor_ops::softmax(&second, Axis(0)).answer(),
        vec![
            ("the division by the sum is missing", exponentials.answer()),
            (
                "divided by the sum of the scores",
                (&second / second.sum()).answer(),
            ),
            (
                "divided by the largest exponential",
                (&exponentials / exponentials.fold(0.0, |a: f32, &b| a.max(b))).answer(),
            ),
        ],
    );
    check.property("the weights sum to 1", || sum_is_1(yours(&second).sum()));
    check.property("scores of 1000 don't overflow", || {
        let weights = yours(&array![1000.0, 1000.0]);
        match weights == array![0.5, 0.5] {
            true => Ok(()),
            false => Err(format!(
                "{weights} instead of [0.5, 0.5]: subtract the largest score first"
            )),
        }
    });
    check.end()
}

/// Exercise 3.3.2.
pub fn context_vectors(yours: fn(&Array2<f32>) -> Array2<f32>) -> Report {
    let mut check = Check::default();
    check.printed(("ch03", "In [13]", 0), || yours(&inputs()));
    let second = random(4, 3, 7);
    let weights = |axis| tensor_ops::softmax(&second.dot(&second.t()), Axis(axis));
    check.second(
        "a second input (seed 7)",
        || yours(&second),
        weights(1).dot(&second).answer(),
        vec![
            (
                "softmax runs over the columns, not the rows",
                weights(0).dot(&second).answer(),
            ),
            (
                "the weights are not the softmax of the scores",
                second.dot(&second.t()).dot(&second).answer(),
            ),
        ],
    );
    check.property("equal words have equal vectors", || {
        let twice = yours(&array![[1.0, 2.0], [1.0, 2.0]]);
        match twice.row(0) == twice.row(1) {
            true => Ok(()),
            false => Err(format!("{} and {}", twice.row(0), twice.row(1))),
        }
    });
    check.end()
}

/// Attention of `x` with three matrices.
type WithWeights = fn(&Array2<f32>, &Array2<f32>, &Array2<f32>, &Array2<f32>) -> Array2<f32>;

/// Exercise 3.4.
pub fn attention_with_weights(yours: WithWeights) -> Report {
    let mut check = Check::default();
    let v1 = SelfAttentionV1::new(3, 2, WeightInit::Rand, &mut TorchRng::manual_seed(123));
    let of = |x: &Array2<f32>, v1: &SelfAttentionV1| yours(x, &v1.w_query, &v1.w_key, &v1.w_value);
    check.printed(("ch03", "In [23]", 0), || of(&inputs(), &v1));
    let x = random(5, 3, 7);
    let other = SelfAttentionV1::new(3, 4, WeightInit::Randn, &mut TorchRng::manual_seed(7));
    let (q, k, v) = (
        x.dot(&other.w_query),
        x.dot(&other.w_key),
        x.dot(&other.w_value),
    );
    let with = |scores: Array2<f32>, axis: usize| {
        tensor_ops::softmax(&scores, Axis(axis)).dot(&v).answer()
    };
    let root = 2.0; // of 4 features
    check.second(
        "a second input (seed 7)",
        || of(&x, &other),
        scaled_softmax(&q.dot(&k.t()), 4).dot(&v).answer(),
        vec![
            (
                "the scores are not divided by the root of d_k",
                with(q.dot(&k.t()), 1),
            ),
            (
                "the scores are divided by d_k, not by its root",
                with(q.dot(&k.t()) / 4.0, 1),
            ),
            (
                "keys and queries are exchanged",
                with(k.dot(&q.t()) / root, 1),
            ),
            (
                "softmax runs over the columns",
                with(q.dot(&k.t()) / root, 0),
            ),
        ],
    );
    check.property("a vector for each word, of d_out features", || {
        match of(&x, &other).dim() {
            (5, 4) => Ok(()),
            dim => Err(format!("{dim:?} instead of (5, 4)")),
        }
    });
    check.end()
}

/// Exercise 3.5.
pub fn causal_weights(yours: fn(&Array2<f32>, usize) -> Array2<f32>) -> Report {
    let mut check = Check::default();
    let v2 = SelfAttentionV2::new(3, 2, false, &mut TorchRng::manual_seed(789));
    let (queries, keys) = (v2.w_query.forward(&inputs()), v2.w_key.forward(&inputs()));
    check.printed(("ch03", "In [30]", 0), || yours(&queries.dot(&keys.t()), 2));
    let scores = random(4, 4, 7);
    let masked = |first: usize| {
        let mut masked = scores.clone();
        masked.indexed_iter_mut().for_each(|((i, j), x)| {
            if j >= i + first {
                *x = f32::NEG_INFINITY;
            }
        });
        masked
    };
    let after = |scores: &Array2<f32>| {
        let mut weights = scaled_softmax(scores, 9);
        weights.indexed_iter_mut().for_each(|((i, j), x)| {
            if j > i {
                *x = 0.0;
            }
        });
        weights
    };
    let transposed = mask_future(&scores.t().to_owned()).t().to_owned();
    check.second(
        "a second input (seed 7)",
        || yours(&scores, 9),
        scaled_softmax(&mask_future(&scores), 9).answer(),
        vec![
            (
                "each word sees one word of the future",
                scaled_softmax(&masked(2), 9).answer(),
            ),
            (
                "masked after softmax: the rows no longer sum to 1",
                after(&scores).answer(),
            ),
            (
                "the past is masked, not the future",
                scaled_softmax(&transposed, 9).answer(),
            ),
            (
                "the scores are not divided by the root of d_k",
                scaled_softmax(&mask_future(&scores), 1).answer(),
            ),
            ("nothing is masked", scaled_softmax(&scores, 9).answer()),
        ],
    );
    check.property("each row sums to 1", || rows_sum_to_1(&yours(&scores, 9)));
    check.property("the future doesn't change the past", || {
        let mut changed = scores.clone();
        changed.column_mut(3).fill(50.0);
        let (before, after) = (yours(&scores, 9), yours(&changed, 9));
        match (0..3).all(|row| before.row(row) == after.row(row)) {
            true => Ok(()),
            false => Err("a score of the last word changed the rows before it".to_owned()),
        }
    });
    check.end()
}

/// Features to heads, and back.
type Split = fn(&Array3<f32>, usize) -> Array4<f32>;
type Join = fn(&Array4<f32>) -> Array3<f32>;

/// Exercise 3.6.
pub fn heads(split: Split, join: Join) -> Report {
    let mut check = Check::default();
    let x = Array3::from_shape_fn((2, 3, 4), |(b, t, f)| (100 * b + 10 * t + f) as f32);
    let plain = Array4::from_shape_fn((2, 2, 3, 2), |(b, h, t, f)| x[[b, t, 2 * h + f]]);
    let reshaped = |shape| Array::from_iter(x.iter().copied()).into_shape_with_order(shape);
    let without = reshaped((2, 2, 3, 2)).expect("as many");
    let not_moved = reshaped((2, 3, 2, 2)).expect("as many");
    let strided = Array4::from_shape_fn((2, 2, 3, 2), |(b, h, t, f)| x[[b, t, 2 * f + h]]);
    check.second(
        "(2, 3, 4) to two heads",
        || split(&x, 2),
        plain.answer(),
        vec![
            (
                "reshaped to (b, heads, tokens, head_dim) at once: tokens and heads are mixed",
                without.answer(),
            ),
            ("heads and tokens are not exchanged", not_moved.answer()),
            (
                "the features of a head are not next to each other",
                strided.answer(),
            ),
        ],
    );
    check.second(
        "and side by side again",
        || join(&plain),
        x.answer(),
        Vec::new(),
    );
    check.property("join inverts split, with four heads", || {
        match join(&split(&x, 4)) == x {
            true => Ok(()),
            false => Err("other numbers came back".to_owned()),
        }
    });
    check.property("one head is all features", || match split(&x, 1).dim() {
        (2, 1, 3, 4) => Ok(()),
        dim => Err(format!("{dim:?} instead of (2, 1, 3, 4)")),
    });
    check.end()
}

/// Exercise 3.1 of the book.
pub fn weights_of_linear(yours: fn(&Array2<f32>) -> Array2<f32>) -> Report {
    let mut check = Check::default();
    let v2 = SelfAttentionV2::new(3, 2, false, &mut TorchRng::manual_seed(123));
    let v1 = || {
        let [q, k, v] = [&v2.w_query, &v2.w_key, &v2.w_value].map(|linear| yours(&linear.weight));
        let x = inputs();
        let (q, k, v) = (x.dot(&q), x.dot(&k), x.dot(&v));
        scaled_softmax(&q.dot(&k.t()), 2).dot(&v)
    };
    check.printed(("ch03_exercises", "In [14]", 0), v1);
    let square = random(3, 3, 7);
    check.second(
        "a square matrix (seed 7)",
        || yours(&square),
        square.t().to_owned().answer(),
        vec![("the weight is not transposed", square.answer())],
    );
    check.property("twice is the matrix itself", || {
        match yours(&yours(&square)) == square {
            true => Ok(()),
            false => Err("another matrix came back".to_owned()),
        }
    });
    check.end()
}
