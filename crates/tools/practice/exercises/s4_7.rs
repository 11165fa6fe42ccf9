//! 4.7 Greedy generation
//!
//! A language model predicts only the next token. To generate a text, append the predicted token to
//! the text and call the model again.
//!
//! Append `max_new_tokens` tokens to `ids` in this way, and choose the token with the largest logit
//! each time. The model can read at most `context_size` tokens. If the text is longer, pass only
//! its end to the model. Return the whole text, which consists of the prompt and the new tokens.
//!
//! HINT: Each new token becomes part of the text from which the next token is predicted.
//! HINT: Repeat the following max_new_tokens times: compute logits = model(the last context_size
//!   IDs, or all IDs if there are fewer), and append the index of the largest logit.
//! HINT: `&ids[ids.len().saturating_sub(n)..]` contains the last n IDs. To find the largest logit,
//!   go through `logits.iter().enumerate()` and remember the best index so far.

use practice::ndarray::Array1;

/// Generates a text with a language model by appending the most probable token `max_new_tokens`
/// times. Returns `ids`, which is the prompt, followed by the new tokens. `model` receives the IDs
/// of a text and returns the logits of its next token.
pub fn generate(
    model: &dyn Fn(&[u32]) -> Array1<f32>,
    ids: Vec<u32>,
    max_new_tokens: usize,
    context_size: usize,
) -> Vec<u32> {
    // SOLUTION
    let mut ids = ids;
    for _ in 0..max_new_tokens {
        let seen = &ids[ids.len().saturating_sub(context_size)..];
        let logits = model(seen);
        let mut best = 0;
        for (id, logit) in logits.iter().enumerate() {
            if *logit > logits[best] {
                best = id;
            }
        }
        ids.push(best as u32);
    }
    ids
    // END
}

// CHECKS

use ndarray::array;

use crate::Report;
use crate::check::{Check, Mistake};

/// A model, which maps the IDs of a text to the logits of the next token.
type Model<'a> = &'a dyn Fn(&[u32]) -> Array1<f32>;
type Generate = fn(Model<'_>, Vec<u32>, usize, usize) -> Vec<u32>;

fn largest(logits: &Array1<f32>) -> u32 {
    let mut places: Vec<usize> = (0..logits.len()).collect();
    places.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    places[0] as u32
}

/// Appends `n` tokens to `ids`. Each token is chosen by `next`, which receives all IDs of the text
/// so far and returns the ID of the next token. Most of the incorrect versions of `generate` that
/// the check recognizes call this function with a `next` that chooses the token incorrectly.
fn continued(mut ids: Vec<u32>, n: usize, next: impl Fn(&[u32]) -> u32) -> Vec<u32> {
    for _ in 0..n {
        ids.push(next(&ids));
    }
    ids
}

pub(crate) const MISTAKES: &[Mistake<Generate>] = &[
    (
        "the text isn't cropped; pass at most `context_size` tokens to the model",
        |model, ids, n, _| continued(ids, n, |ids| largest(&model(ids))),
    ),
    (
        "the model gets the beginning of the text; pass its end",
        |model, ids, n, context| {
            continued(ids, n, |ids| {
                largest(&model(&ids[..ids.len().min(context)]))
            })
        },
    ),
    (
        "the model gets one token too few; pass the last `context_size` tokens",
        |model, ids, n, context| {
            continued(ids, n, |ids| {
                largest(&model(&ids[ids.len().saturating_sub(context - 1)..]))
            })
        },
    ),
    (
        "only the new tokens are returned; return the prompt and the new tokens",
        |model, ids, n, context| {
            let prompt = ids.len();
            generate(model, ids, n, context)[prompt..].to_vec()
        },
    ),
    (
        "the model doesn't read the new tokens; append each token before the next call",
        |model, ids, n, context| {
            let next = largest(&model(&ids[ids.len().saturating_sub(context)..]));
            continued(ids, n, |_| next)
        },
    ),
    (
        "the token with the smallest logit is chosen; choose the largest logit",
        |model, ids, n, context| {
            continued(ids, n, |ids| {
                largest(&-model(&ids[ids.len().saturating_sub(context)..]))
            })
        },
    ),
    (
        "the search begins with a logit of 0, but all can be negative; begin with the first",
        |model, ids, n, context| {
            continued(ids, n, |ids| {
                let logits = model(&ids[ids.len().saturating_sub(context)..]);
                let (mut best, mut most) = (0, 0.0);
                for (id, &logit) in logits.iter().enumerate() {
                    if logit > most {
                        (best, most) = (id as u32, logit);
                    }
                }
                best
            })
        },
    ),
];

/// Checks the learner's `generate`.
pub fn check(generate: Generate) -> Report {
    let mut check = Check::new(generate, MISTAKES);
    // Instead of a trained model, the checks use this simple one: its largest logit belongs to the
    // ID that is the sum of all token IDs it receives, modulo 10.
    let model = |ids: &[u32]| {
        let next = ids.iter().sum::<u32>() as usize % 10;
        Array1::from_shape_fn(10, |id| match id {
            id if id == next => -1.0,
            id => -2.0 - (id as f32 - 4.5).abs(),
        })
    };
    // How to compute the expected text by hand: The prompt is 3, 1, 4, and the model can read at
    // most four tokens. The first new token is 3 + 1 + 4 = 8, and the second one is (3 + 1 + 4 + 8)
    // mod 10 = 6. From then on, the model receives only the last four tokens, so the third new
    // token is (1 + 4 + 8 + 6) mod 10 = 9.
    let expected = vec![3, 1, 4, 8, 6, 9, 7, 0, 2];
    check.equals("six tokens, a context of 4", expected, |generate| {
        generate(&model, vec![3, 1, 4], 6, 4)
    });
    check.equals("no new token", vec![7, 7], |generate| {
        generate(&model, vec![7, 7], 0, 4)
    });
    check.holds("the model never gets too many tokens", |generate| {
        let strict = |ids: &[u32]| {
            let n = ids.len();
            assert!(
                n <= 2,
                "the model got {n} tokens, but it can read only 2; crop the text"
            );
            array![0.0, 1.0]
        };
        generate(&strict, vec![1, 0, 1], 3, 2);
        Ok(())
    });
    check.report()
}
