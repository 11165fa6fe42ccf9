//! 5.3.3 Generation with temperature and top-k
//!
//! Generate text as in exercise 4.7, but sample each token instead of choosing the most probable
//! one. Keep the k largest logits, convert them to probabilities with the temperature, and sample a
//! token with these probabilities. If the temperature is 0, choose the most probable token, because
//! a division by 0 isn't possible.
//!
//! To sample a token, call `random()` once. It returns a number that is at least 0 and less than 1.
//! Imagine a line of length 1 that is divided into sections. Each ID has a section whose length is
//! its probability, and the sections are in the order of the IDs. The sampled token is the one
//! whose section contains the random number.
//!
//! `with_temperature` and `top_k` are your functions from exercise 5.3. As in exercise 4.7, the
//! model can read at most `context_size` tokens.
//!
//! HINT: Where does the section of an ID end? Because of rounding, the last section can end
//!   slightly below 1. Which token do you choose if the random number lies beyond this end?
//! HINT: The sampled token is the first ID for which p_0 + p_1 + ... + p_ID > random(), where p =
//!   with_temperature(top_k(logits, k), temperature). If there is no such ID, it is the last ID
//!   with p > 0.
//! HINT: Subtract each probability from the random number in a loop, and stop at the first ID at
//!   which the number becomes negative.

use practice::given::{top_k, with_temperature};
use practice::ndarray::Array1;

/// Generates a text with a language model by sampling `max_new_tokens` tokens. Returns `ids`, which
/// is the prompt, followed by the new tokens. `model` receives the IDs of a text and returns the
/// logits of its next token.
pub fn generate(
    model: &dyn Fn(&[u32]) -> Array1<f32>,
    ids: Vec<u32>,
    max_new_tokens: usize,
    context_size: usize,
    temperature: f32,
    k: usize,
    random: &mut dyn FnMut() -> f32,
) -> Vec<u32> {
    // SOLUTION
    let mut ids = ids;
    for _ in 0..max_new_tokens {
        let logits = model(&ids[ids.len().saturating_sub(context_size)..]);
        // A temperature of 0 means that the most probable token must be chosen. To achieve this
        // without a division by 0, use k = 1: if only the largest logit is kept, its token has a
        // probability of 1.
        let (k, temperature) = match temperature == 0.0 {
            true => (1, 1.0),
            false => (k, temperature),
        };
        let probabilities = with_temperature(&top_k(&logits, k), temperature);
        let (mut left, mut drawn) = (random(), 0);
        for (id, &probability) in probabilities.iter().enumerate() {
            if probability > 0.0 {
                drawn = id;
                left -= probability;
                if left < 0.0 {
                    break;
                }
            }
        }
        ids.push(drawn as u32);
    }
    ids
    // END
}

// CHECKS

use ndarray::array;
use torch_rng::TorchRng;

use crate::Report;
use crate::check::{Check, Mistake};
use crate::reference::{self, wide};

/// A model, which maps the IDs of a text to the logits of the next token.
type Model<'a> = &'a dyn Fn(&[u32]) -> Array1<f32>;
/// A function that returns the next random number.
type Random<'a> = &'a mut dyn FnMut() -> f32;
type Generate = fn(Model<'_>, Vec<u32>, usize, usize, f32, usize, Random<'_>) -> Vec<u32>;

/// Returns the ID whose section contains `number`.
fn drawn(probabilities: &Array1<f32>, number: f32) -> u32 {
    let mut sum = 0.0;
    let is_it = |&probability: &f32| {
        sum += probability;
        sum > number
    };
    let found = probabilities.iter().position(is_it);
    found.unwrap_or(probabilities.len() - 1) as u32
}

/// Appends `n` tokens to `ids`. Each token is chosen by `next`, which receives the logits that the
/// model returns for the text so far and a random number, and returns the ID of the next token.
/// Some of the incorrect versions of `generate` that the check recognizes call this function with a
/// `next` that chooses the token incorrectly.
fn continued(
    (model, mut ids, n, context): (Model<'_>, Vec<u32>, usize, usize),
    random: Random<'_>,
    next: impl Fn(&Array1<f32>, f32) -> u32,
) -> Vec<u32> {
    for _ in 0..n {
        let logits = model(&ids[ids.len().saturating_sub(context)..]);
        ids.push(next(&logits, random()));
    }
    ids
}

pub(crate) const MISTAKES: &[Mistake<Generate>] = &[
    (
        "the most probable token is always chosen; sample the tokens",
        |model, ids, n, context, _, k, random| generate(model, ids, n, context, 0.0, k, random),
    ),
    (
        "every token can be sampled; keep only the k largest logits",
        |model, ids, n, context, t, _, random| {
            let all = model(&ids[ids.len().saturating_sub(context)..]).len();
            generate(model, ids, n, context, t, all, random)
        },
    ),
    (
        "the temperature has no effect; pass it to `with_temperature`",
        |model, ids, n, context, t, k, random| {
            let t = if t == 0.0 { 0.0 } else { 1.0 };
            generate(model, ids, n, context, t, k, random)
        },
    ),
    (
        "a temperature of 0 leads to a division by 0; choose the most probable token",
        |model, ids, n, context, t, k, random| {
            continued((model, ids, n, context), random, |logits, number| {
                drawn(&with_temperature(&top_k(logits, k), t), number)
            })
        },
    ),
    (
        "the k largest probabilities don't sum to 1; apply `top_k` to the logits first",
        |model, ids, n, context, t, k, random| {
            if t == 0.0 {
                return generate(model, ids, n, context, t, k, random);
            }
            continued((model, ids, n, context), random, |logits, number| {
                let kept = top_k(logits, k);
                let mut probabilities = with_temperature(logits, t);
                probabilities.zip_mut_with(&kept, |probability, &logit| {
                    if logit == f32::NEG_INFINITY {
                        *probability = 0.0;
                    }
                });
                drawn(&probabilities, number)
            })
        },
    ),
    (
        "the previous token is chosen; stop at the first sum greater than the random number",
        |model, ids, n, context, t, k, random| {
            if t == 0.0 {
                return generate(model, ids, n, context, t, k, random);
            }
            continued((model, ids, n, context), random, |logits, number| {
                drawn(&with_temperature(&top_k(logits, k), t), number).saturating_sub(1)
            })
        },
    ),
    (
        "one random number is used for all tokens; call `random()` for each token",
        |model, ids, n, context, t, k, random| {
            let number = random();
            generate(model, ids, n, context, t, k, &mut || number)
        },
    ),
    (
        "the text isn't cropped; pass at most `context_size` tokens to the model",
        |model, ids, n, _, t, k, random| generate(model, ids, n, usize::MAX, t, k, random),
    ),
    (
        "only the new tokens are returned; return the prompt and the new tokens",
        |model, ids, n, context, t, k, random| {
            let prompt = ids.len();
            generate(model, ids, n, context, t, k, random)[prompt..].to_vec()
        },
    ),
];

/// Checks the learner's `generate`.
pub fn check(generate: Generate) -> Report {
    let mut check = Check::new(generate, MISTAKES);
    // The logits depend on all tokens that the model sees.
    let model = |ids: &[u32]| {
        let sum: u32 = ids.iter().sum();
        Array1::from_shape_fn(8, |id| ((sum as usize * 3 + id * 5) % 8) as f32 * 0.5 - 2.0)
    };
    let expected = |n: usize, temperature: f64, k: usize, seed: u64| {
        let (mut rng, mut ids) = (TorchRng::manual_seed(seed), vec![3, 1, 4]);
        for _ in 0..n {
            let logits = wide(&model(&ids[ids.len().saturating_sub(4)..]));
            let mut order: Vec<usize> = (0..8).collect();
            order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
            let mut kept = Array1::from_elem(8, f64::NEG_INFINITY);
            order[..k].iter().for_each(|&id| kept[id] = logits[id]);
            let weights = reference::softmax(&(kept / temperature));
            let (mut left, mut next) = (f64::from(rng.rand(1)[0]), 0);
            while left >= weights[next] {
                left -= weights[next];
                next += 1;
            }
            ids.push(next as u32);
        }
        ids
    };
    let text = |generate: Generate, n: usize, temperature: f32, k: usize, seed: u64| {
        let mut rng = TorchRng::manual_seed(seed);
        let random: Random<'_> = &mut || rng.rand(1)[0];
        generate(&model, vec![3, 1, 4], n, 4, temperature, k, random)
    };
    for (temperature, k) in [(1.0, 8), (1.0, 3), (3.0, 5), (0.5, 5)] {
        let label = format!("temperature {temperature}, k = {k} (seed 123)");
        let expected = expected(20, f64::from(temperature), k, 123);
        check.equals(&label, expected, |generate| {
            text(generate, 20, temperature, k, 123)
        });
    }
    let greedy = expected(10, 1.0, 1, 0);
    check.equals("temperature 0, k = 3", greedy, |generate| {
        text(generate, 10, 0.0, 3, 123)
    });
    check.equals("no new token", vec![3, 1, 4], |generate| {
        text(generate, 0, 1.0, 3, 123)
    });
    // If two tokens are equally probable, random numbers below 0.5 select token 0, and all others
    // select token 1. This check therefore passes random numbers close to 0.5.
    let equal = |_: &[u32]| array![0.0, 0.0];
    check.equals(
        "two equal tokens, drawn 0, 0.49, 0.5, 0.99",
        vec![1, 0, 0, 1, 1],
        |generate| {
            let mut numbers = [0.0, 0.49, 0.5, 0.99].into_iter().cycle();
            generate(&equal, vec![1], 4, 4, 1.0, 2, &mut || {
                numbers.next().unwrap_or_default()
            })
        },
    );
    check.report()
}
