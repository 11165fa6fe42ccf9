//! 3.6 Splitting features among heads
//!
//! Multi-head attention computes the queries of all heads with a single matrix product, and
//! likewise the keys and the values. Therefore, the features of a token contain the features of all
//! heads, one head after another. Attention itself processes one head at a time, so the features
//! must be split among the heads before attention and joined afterwards. Write both steps.
//!
//! `split` divides the features of each token among the heads. Head 0 gets the first `head_dim`
//! features, head 1 gets the next `head_dim` features, and so on. It also moves the dimension of
//! the heads before the dimension of the tokens. `join` reverses both steps. In PyTorch, `split`
//! corresponds to `view` followed by `transpose(1, 2)`. A `view` alone would mix tokens and heads.
//!
//! HINT: The numbers themselves don't change, only their positions do. At which index of x is
//!   feature f of head h of token t?
//! HINT: For `split`, out[b, h, t, f] = x[b, t, h * head_dim + f]. For `join`, out[b, t, h *
//!   head_dim + f] = x[b, h, t, f].
//! HINT: `Array4::from_shape_fn(shape, |(b, h, t, f)| ...)` creates an array from a closure that
//!   returns the number at each index. In `join`, the operators `/` and `%` compute the head and
//!   the feature in this head.

use practice::ndarray::{Array3, Array4};

/// Converts an array with the shape (b, tokens, d_out) to the shape (b, heads, tokens, head_dim).
pub fn split(x: &Array3<f32>, heads: usize) -> Array4<f32> {
    // SOLUTION
    let (b, tokens, d_out) = x.dim();
    let head_dim = d_out / heads;
    Array4::from_shape_fn((b, heads, tokens, head_dim), |(b, h, t, f)| {
        x[[b, t, h * head_dim + f]]
    })
    // END
}

/// Converts an array with the shape (b, heads, tokens, head_dim) to the shape (b, tokens, d_out).
pub fn join(x: &Array4<f32>) -> Array3<f32> {
    // SOLUTION
    let (b, heads, tokens, head_dim) = x.dim();
    Array3::from_shape_fn((b, tokens, heads * head_dim), |(b, t, f)| {
        x[[b, f / head_dim, t, f % head_dim]]
    })
    // END
}

// CHECKS

use ndarray::Array;

use crate::Report;
use crate::check::{Check, Mistake};

type Split = fn(&Array3<f32>, usize) -> Array4<f32>;
type Join = fn(&Array4<f32>) -> Array3<f32>;

/// Returns an array that contains the same numbers in the same order, but has a different shape.
fn viewed<D: ndarray::Dimension, S: ndarray::ShapeArg>(
    x: &Array<f32, D>,
    shape: S,
) -> Array<f32, S::Dim> {
    let numbers = Array::from_iter(x.iter().copied());
    numbers
        .into_shape_with_order(shape)
        .expect("as many numbers")
}

pub(crate) const MISTAKES: &[Mistake<(Split, Join)>] = &[
    (
        "`split` only changes the shape, which mixes tokens and heads; also move the heads",
        (
            |x, heads| {
                let (b, tokens, d_out) = x.dim();
                viewed(x, (b, heads, tokens, d_out / heads))
            },
            join,
        ),
    ),
    (
        "`split` doesn't move the heads; put their dimension before that of the tokens",
        (
            |x, heads| {
                let (b, tokens, d_out) = x.dim();
                viewed(x, (b, tokens, heads, d_out / heads))
            },
            join,
        ),
    ),
    (
        "`split` interleaves the heads; give each head neighboring features",
        (
            |x, heads| {
                let (b, tokens, d_out) = x.dim();
                Array4::from_shape_fn((b, heads, tokens, d_out / heads), |(b, h, t, f)| {
                    x[[b, t, f * heads + h]]
                })
            },
            join,
        ),
    ),
    (
        "`split` gives all heads the first features; begin at h * head_dim for head h",
        (
            |x, heads| {
                let (b, tokens, d_out) = x.dim();
                Array4::from_shape_fn((b, heads, tokens, d_out / heads), |(b, _, t, f)| {
                    x[[b, t, f]]
                })
            },
            join,
        ),
    ),
    (
        "`join` only changes the shape, which mixes tokens and heads; move the heads first",
        (split, |x| {
            let (b, heads, tokens, head_dim) = x.dim();
            viewed(x, (b, tokens, heads * head_dim))
        }),
    ),
    (
        "`join` interleaves the heads; keep the features of each head together",
        (split, |x| {
            let (b, heads, tokens, head_dim) = x.dim();
            Array3::from_shape_fn((b, tokens, heads * head_dim), |(b, t, f)| {
                x[[b, f % heads, t, f / heads]]
            })
        }),
    ),
];

/// Checks the learner's `split` and `join`.
pub fn check(split: Split, join: Join) -> Report {
    let mut check = Check::new((split, join), MISTAKES);
    // The digits of each number in the test arrays are its indices (batch, token and feature). If
    // `split` or `join` moves a number to the wrong place, the result shows where the number came
    // from.
    let x = Array3::from_shape_fn((2, 3, 6), |(b, t, f)| (100 * b + 10 * t + f) as f32);
    let two = Array4::from_shape_fn((2, 2, 3, 3), |(b, h, t, f)| {
        (100 * b + 10 * t + 3 * h + f) as f32
    });
    let three = Array4::from_shape_fn((2, 3, 3, 2), |(b, h, t, f)| {
        (100 * b + 10 * t + 2 * h + f) as f32
    });
    check.equals("split (2, 3, 6) into 2 heads", two.clone(), |(split, _)| {
        split(&x, 2)
    });
    check.equals(
        "split (2, 3, 6) into 3 heads",
        three.clone(),
        |(split, _)| split(&x, 3),
    );
    check.equals("join 2 heads", x.clone(), |(_, join)| join(&two));
    check.equals("join 3 heads", x.clone(), |(_, join)| join(&three));
    check.holds("join inverts split", |(split, join)| {
        match join(&split(&x, 2)) == x {
            true => Ok(()),
            false => Err("join(split(x)) differs from x, but it should be equal".to_owned()),
        }
    });
    check.report()
}
