//! 2.8 Embeddings with positions
//!
//! A model computes with vectors, so each token is replaced with a vector whose numbers are
//! learned. This vector is the token's row in an embedding table. Attention without a mask can't
//! see the order of the tokens, and a mask only hides later tokens. Therefore, a second table
//! contains a vector for each position in the text. The vector of a token and the vector of its
//! position are combined into one vector of the same length.
//!
//! Return the combined vectors of a text, one row per token.
//!
//! HINT: If a token occurs at two positions, it must get two different vectors. What selects the
//!   row of the first table, and what selects the row of the second table?
//! HINT: out[i] = tokens[ids[i]] + positions[i]
//! HINT: `Array2::from_shape_fn((rows, columns), |(i, feature)| ...)` creates an array from a
//!   closure that returns the number at each index.

use practice::ndarray::Array2;

/// Returns the embeddings of a text, with the shape (ids, features). The table `tokens` has the
/// shape (vocabulary, features), and `positions` has the shape (context, features).
pub fn embed(ids: &[u32], tokens: &Array2<f32>, positions: &Array2<f32>) -> Array2<f32> {
    // SOLUTION
    Array2::from_shape_fn((ids.len(), tokens.ncols()), |(i, feature)| {
        tokens[[ids[i] as usize, feature]] + positions[[i, feature]]
    })
    // END
}

// CHECKS

use crate::Report;
use crate::check::{Check, Mistake, random};

type Embed = fn(&[u32], &Array2<f32>, &Array2<f32>) -> Array2<f32>;

/// Computes the embeddings of a text with a typical mistake, so that the check can recognize this
/// mistake in a learner's function. The result has one row per ID. `number` receives the position
/// of the ID, the ID, and the index of a feature, and returns this element of the result.
fn rows(ids: &[u32], features: usize, number: impl Fn(usize, usize, usize) -> f32) -> Array2<f32> {
    Array2::from_shape_fn((ids.len(), features), |(i, feature)| {
        number(i, ids[i] as usize, feature)
    })
}

pub(crate) const MISTAKES: &[Mistake<Embed>] = &[
    (
        "the position vectors are missing; add them to the token vectors",
        |ids, tokens, _| rows(ids, tokens.ncols(), |_, id, feature| tokens[[id, feature]]),
    ),
    (
        "the ID selects the row of `positions`; use the position in the text",
        |ids, tokens, positions| {
            rows(ids, tokens.ncols(), |_, id, feature| {
                tokens[[id, feature]] + positions[[id % positions.nrows(), feature]]
            })
        },
    ),
    (
        "the position selects the row of `tokens`; use the ID",
        |ids, tokens, positions| {
            rows(ids, tokens.ncols(), |i, _, feature| {
                tokens[[i, feature]] + positions[[i, feature]]
            })
        },
    ),
    (
        "all tokens get the vector of the first position; use the position of each token",
        |ids, tokens, positions| {
            rows(ids, tokens.ncols(), |_, id, feature| {
                tokens[[id, feature]] + positions[[0, feature]]
            })
        },
    ),
    (
        "the positions are counted from 1; count them from 0",
        |ids, tokens, positions| {
            rows(ids, tokens.ncols(), |i, id, feature| {
                tokens[[id, feature]] + positions[[(i + 1) % positions.nrows(), feature]]
            })
        },
    ),
    (
        "the two vectors are multiplied; add them",
        |ids, tokens, positions| {
            rows(ids, tokens.ncols(), |i, id, feature| {
                tokens[[id, feature]] * positions[[i, feature]]
            })
        },
    ),
];

/// Checks the learner's `embed`.
pub fn check(embed: Embed) -> Report {
    let mut check = Check::new(embed, MISTAKES);
    // The numbers in both tables are chosen so that the expected embeddings are easy to verify: the
    // three digits of each number are its position (counted from 1), its ID and the index of its
    // feature.
    let tokens = Array2::from_shape_fn((6, 3), |(id, feature)| (10 * id + feature) as f32);
    let positions = Array2::from_shape_fn((4, 3), |(i, _)| (100 * (i + 1)) as f32);
    let expected = |ids: &[u32]| {
        let mut out = Array2::<f32>::zeros((ids.len(), 3));
        for (i, &id) in ids.iter().enumerate() {
            let sum = &tokens.row(id as usize) + &positions.row(i);
            out.row_mut(i).assign(&sum);
        }
        out
    };
    for (label, ids) in [
        ("the IDs 5, 1 and 2", vec![5, 1, 2]),
        ("the IDs 3, 3, 3 and 3", vec![3; 4]),
        ("a single ID", vec![4]),
        ("an empty text", vec![]),
    ] {
        check.equals(label, expected(&ids), |embed| {
            embed(&ids, &tokens, &positions)
        });
    }
    let (tokens, positions) = (random(5, 4, 7), random(3, 4, 8));
    let sum = |i: usize, id: usize| &tokens.row(id) + &positions.row(i);
    check.equals("a second input (seed 7)", sum(1, 4), |embed| {
        embed(&[0, 4, 2], &tokens, &positions).row(1).to_owned()
    });
    check.report()
}
