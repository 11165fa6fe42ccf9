//! 5.3.3 Generation with temperature and top-k
//!
//! Now generate text as in 4.7, but draw each token instead of taking the most probable one. Keep
//! the k largest logits, turn them into probabilities with the temperature, and draw a token with
//! these probabilities. A temperature of 0 means no draw: take the most probable token, because
//! nothing can be divided by 0.
//!
//! To draw, take one random number per token by calling `random()`, which returns numbers from 0 up
//! to 1, without 1 itself. Imagine the probabilities side by side, in the order of the IDs, as
//! sections of a line of length 1. The drawn token is the one in whose section the number lies.
//!
//! `with_temperature` and `top_k` are your functions of 5.3. As in 4.7, the model can read no more
//! than `context_size` tokens.
//!
//! HINT: Where does the section of an ID end? Rounding can make the last section end a little below
//!   1; which token is drawn if the number lies beyond it?
//! HINT: The drawn token is the first ID for which p_0 + p_1 + ... + p_ID > random(), where p =
//!   with_temperature(top_k(logits, k), temperature); if there is none, the last ID with p > 0.
//! HINT: Subtract each probability from the number in a loop, and stop at the first ID at which the
//!   number becomes negative.

use practice::given::{top_k, with_temperature};
use practice::ndarray::Array1;

/// Returns `ids` and the new tokens. `model` returns the logits of the next token.
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
        // With the one largest logit left, the draw is certain.
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

/// A model: IDs to the logits of the next token.
type Model<'a> = &'a dyn Fn(&[u32]) -> Array1<f32>;
/// Returns the next random number.
type Random<'a> = &'a mut dyn FnMut() -> f32;
type Generate = fn(Model<'_>, Vec<u32>, usize, usize, f32, usize, Random<'_>) -> Vec<u32>;

/// The ID in whose section a number lies.
fn drawn(probabilities: &Array1<f32>, number: f32) -> u32 {
    let mut sum = 0.0;
    let is_it = |&probability: &f32| {
        sum += probability;
        sum > number
    };
    let found = probabilities.iter().position(is_it);
    found.unwrap_or(probabilities.len() - 1) as u32
}

/// Appends n tokens that `next` chooses from logits; it gets a random number, too.
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
        "nothing is drawn: the most probable token is always taken",
        |model, ids, n, context, _, k, random| generate(model, ids, n, context, 0.0, k, random),
    ),
    (
        "top-k is missing: every token can be drawn",
        |model, ids, n, context, t, _, random| {
            let all = model(&ids[ids.len().saturating_sub(context)..]).len();
            generate(model, ids, n, context, t, all, random)
        },
    ),
    (
        "the temperature is missing",
        |model, ids, n, context, t, k, random| {
            let t = if t == 0.0 { 0.0 } else { 1.0 };
            generate(model, ids, n, context, t, k, random)
        },
    ),
    (
        "a temperature of 0 leads to a division by 0",
        |model, ids, n, context, t, k, random| {
            continued((model, ids, n, context), random, |logits, number| {
                drawn(&with_temperature(&top_k(logits, k), t), number)
            })
        },
    ),
    (
        "the k largest probabilities are kept, but they no longer sum to 1",
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
        "the token before the right one is drawn: its section ends at the sum that includes it",
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
        "one random number is used for all tokens; each needs its own",
        |model, ids, n, context, t, k, random| {
            let number = random();
            generate(model, ids, n, context, t, k, &mut || number)
        },
    ),
    (
        "the text is not cropped to the context",
        |model, ids, n, _, t, k, random| generate(model, ids, n, usize::MAX, t, k, random),
    ),
    (
        "only the new tokens are returned",
        |model, ids, n, context, t, k, random| {
            let prompt = ids.len();
            generate(model, ids, n, context, t, k, random)[prompt..].to_vec()
        },
    ),
];

/// Checks an answer to this exercise.
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
    // Of two equal tokens, the second begins at one half.
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
