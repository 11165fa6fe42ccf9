//! 5.3 Temperature and top-k
//!
//! A model that always chooses the most probable token generates dull and repetitive texts. A model
//! that samples each token with its probability sometimes generates nonsense. Write two functions
//! that control how tokens are sampled.
//!
//! `with_temperature` returns the probabilities of the tokens. A temperature of 1 leaves the
//! predicted probabilities unchanged. A lower temperature makes probable tokens even more probable,
//! and a higher temperature makes all tokens more equally probable.
//!
//! `top_k` keeps only the k most probable tokens. It returns the logits, but softmax must give a
//! probability of 0 to all other tokens. If several logits are equal to the k-th largest logit, all
//! of them are kept.
//!
//! HINT: Both functions change the logits before softmax is applied. Which logit leads to a
//!   probability of 0?
//! HINT: with_temperature returns softmax(logits / temperature). top_k replaces each logit that is
//!   smaller than the k-th largest logit with minus infinity.
//! HINT: `sorted.sort_by(|a, b| b.total_cmp(a))` sorts a copy of the logits in descending order.
//!   The k-th largest logit is then `sorted[k - 1]`.

use practice::ndarray::Array1;

/// Returns the probability of each token. The logits and the probabilities both have the shape
/// (vocabulary).
pub fn with_temperature(logits: &Array1<f32>, temperature: f32) -> Array1<f32> {
    // SOLUTION
    let scaled = logits / temperature;
    let largest = scaled.fold(f32::NEG_INFINITY, |most, &x| most.max(x));
    let exponentials = scaled.mapv(|x| (x - largest).exp());
    &exponentials / exponentials.sum()
    // END
}

/// Returns a copy of the logits in which all logits except the k largest are minus infinity. The
/// input and the result both have the shape (vocabulary).
pub fn top_k(logits: &Array1<f32>, k: usize) -> Array1<f32> {
    // SOLUTION
    let mut sorted = logits.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let least = sorted[k - 1];
    logits.mapv(|x| if x < least { f32::NEG_INFINITY } else { x })
    // END
}

// CHECKS

use ndarray::array;

use crate::Report;
use crate::check::{Check, Mistake, random, sum_is_1};
use crate::reference::{self, wide};

type WithTemperature = fn(&Array1<f32>, f32) -> Array1<f32>;
type TopK = fn(&Array1<f32>, usize) -> Array1<f32>;

/// Returns a copy of the logits in which some logits are replaced with `other`. A logit is kept if
/// `stays` returns true for its rank (0 for the largest logit, 1 for the second largest, and so
/// on). The check of this exercise compares a learner's `top_k` with typical incorrect versions,
/// which call this function to keep the wrong logits.
fn by_rank(logits: &Array1<f32>, other: f32, stays: impl Fn(usize) -> bool) -> Array1<f32> {
    let mut places: Vec<usize> = (0..logits.len()).collect();
    places.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let mut left = Array1::from_elem(logits.len(), other);
    for (rank, place) in places.into_iter().enumerate() {
        if stays(rank) {
            left[place] = logits[place];
        }
    }
    left
}

const GONE: f32 = f32::NEG_INFINITY;

pub(crate) const MISTAKES: &[Mistake<(WithTemperature, TopK)>] = &[
    (
        "the logits are multiplied by the temperature; divide them by it",
        (
            |logits, temperature| with_temperature(logits, 1.0 / temperature),
            top_k,
        ),
    ),
    (
        "the probabilities are divided by the temperature; divide the logits by it",
        (
            |logits, temperature| with_temperature(logits, 1.0) / temperature,
            top_k,
        ),
    ),
    (
        "softmax is missing; apply it to the divided logits",
        (|logits, temperature| logits / temperature, top_k),
    ),
    (
        "the temperature has no effect; divide the logits by it",
        (|logits, _| with_temperature(logits, 1.0), top_k),
    ),
    (
        "a small temperature makes exponentials overflow; subtract the largest logit first",
        (
            |logits, temperature| {
                let exponentials = (logits / temperature).mapv(f32::exp);
                &exponentials / exponentials.sum()
            },
            top_k,
        ),
    ),
    (
        "the other logits are 0, which leads to a probability; use minus infinity",
        (with_temperature, |logits, k| {
            by_rank(logits, 0.0, |rank| rank < k)
        }),
    ),
    (
        "the smallest logits are kept; keep the largest",
        (with_temperature, |logits, k| {
            by_rank(logits, GONE, |rank| rank >= logits.len() - k)
        }),
    ),
    (
        "k + 1 logits are kept; keep k",
        (with_temperature, |logits, k| {
            by_rank(logits, GONE, |rank| rank <= k)
        }),
    ),
    (
        "k - 1 logits are kept; keep k",
        (with_temperature, |logits, k| {
            by_rank(logits, GONE, |rank| rank + 1 < k)
        }),
    ),
    (
        "some logits equal to the k-th largest are removed; keep all of them",
        (with_temperature, |logits, k| {
            by_rank(logits, GONE, |rank| rank < k)
        }),
    ),
];

/// Checks the learner's `with_temperature` and `top_k`.
pub fn check(with_temperature: WithTemperature, top_k: TopK) -> Report {
    let mut check = Check::new((with_temperature, top_k), MISTAKES);
    #[expect(
        clippy::approx_constant,
        reason = "6.28 is a logit of the book's nine words"
    )]
    let words = array![4.51, 0.89, -1.90, 6.75, 1.63, -1.62, -1.89, 6.28, 1.79];
    check.printed(
        "top 3 of the book's words, In [38]",
        ("ch05", "In [38]", 0),
        |(_, top_k)| top_k(&words, 3),
    );
    check.printed(
        "their probabilities, In [39]",
        ("ch05", "In [39]", 0),
        |(yours, _)| {
            let top_3 = words.mapv(|x| if x > 4.0 { x } else { f32::NEG_INFINITY });
            yours(&top_3, 1.0)
        },
    );
    let logits = random(1, 6, 7).row(0).to_owned();
    for temperature in [0.5, 2.0, 0.001] {
        let expected = reference::softmax(&(wide(&logits) / f64::from(temperature)));
        let label = format!("temperature {temperature} (seed 7)");
        check.equals(&label, expected, |(yours, _)| yours(&logits, temperature));
    }
    check.holds("the probabilities sum to 1", |(yours, _)| {
        sum_is_1("the probabilities", yours(&logits, 3.0).sum())
    });
    let ties = array![1.0, 3.0, 2.0, 2.0, 0.0];
    check.equals(
        "top 2 of 1, 3, 2, 2, 0",
        array![GONE, 3.0, 2.0, 2.0, GONE],
        |(_, top_k)| top_k(&ties, 2),
    );
    check.equals("top 5 of 5 logits", ties.clone(), |(_, top_k)| {
        top_k(&ties, 5)
    });
    check.report()
}
