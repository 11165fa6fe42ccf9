//! From logits to the next token: repetition penalty, temperature, top-k, top-p, min-p, then the
//! draw, in the order of transformers' logits processors.
//!
//! The draw is `torch.multinomial` with PyTorch's own random numbers; at temperature 0 the largest
//! logit is taken and nothing is drawn.

use std::borrow::BorrowMut;

use ndarray::{Array1, ArrayRef1, ArrayView1, Axis};
use tensor_ops::softmax;
use torch_rng::TorchRng;

use crate::GenerateError;
use crate::filters::{
    check_logits, divide_by_temperature, greedy_id, keep_min_p, keep_top_k, keep_top_p, penalize,
};

/// The settings of the choice of a token. The default is greedy: each setting does nothing until it
/// is set.
///
/// ```
/// use generate::Sampling;
/// use ndarray::array;
/// use torch_rng::TorchRng;
///
/// // Book section 5.3.1.
/// let logits = array![4.51, 0.89, -1.90, 6.75, 1.63, -1.62, -1.89, 6.28, 1.79];
/// let mut rng = TorchRng::manual_seed(123);
/// assert_eq!(Sampling::GREEDY.choose(&logits, &mut rng)?, 3);
/// let top_3 = Sampling { temperature: 1.0, top_k: Some(3), ..Sampling::GREEDY };
/// let p = top_3.probabilities(&logits)?;
/// for (id, printed) in [(0, 0.0615), (3, 0.5775), (7, 0.3610)] {
///     assert!((p[id] - printed).abs() < 5e-5); // section 5.3.2
/// }
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Sampling {
    /// The logits are divided by it; below 1 sharper, above 1 flatter, 0 greedy.
    ///
    /// transformers' `TemperatureLogitsWarper`, which has no 0: there greedy is `do_sample=False`.
    pub temperature: f32,
    /// Only the `top_k` largest logits can be drawn, and those that tie with the last of them;
    /// `None` keeps all, as 0 does, and more than there are.
    ///
    /// transformers' `TopKLogitsWarper`, and the book's filter.
    pub top_k: Option<usize>,
    /// Only the most probable tokens can be drawn whose probabilities together first reach `top_p`,
    /// at least one; 1 keeps all.
    ///
    /// transformers' `TopPLogitsWarper` ("nucleus sampling", Holtzman et al., 2019).
    pub top_p: f32,
    /// Only tokens can be drawn whose probability is at least `min_p` times the highest; 0 keeps
    /// all.
    ///
    /// transformers' `MinPLogitsWarper`.
    pub min_p: f32,
    /// The logits of tokens that the text has already are divided by this if they are above 0, and
    /// multiplied otherwise; 1 changes nothing.
    ///
    /// transformers' `RepetitionPenaltyLogitsProcessor` (CTRL, Keskar et al., 2019), which looks at
    /// the whole text, the prompt included; llama.cpp looks at the last 64 tokens.
    pub repetition_penalty: f32,
}

impl Sampling {
    /// The largest logit, always.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: None,
        top_p: 1.0,
        min_p: 0.0,
        repetition_penalty: 1.0,
    };

    /// Checks every setting against its range.
    ///
    /// # Errors
    /// Names the first setting outside its range, and its value.
    pub fn check(&self) -> Result<(), GenerateError> {
        for (name, expected, value, fits) in [
            (
                "temperature",
                "a finite number of at least 0",
                self.temperature,
                self.temperature.is_finite() && self.temperature >= 0.0,
            ),
            (
                "top_p",
                "a number above 0 and at most 1",
                self.top_p,
                self.top_p > 0.0 && self.top_p <= 1.0,
            ),
            (
                "min_p",
                "a number from 0 to 1",
                self.min_p,
                (0.0..=1.0).contains(&self.min_p),
            ),
            (
                "repetition_penalty",
                "a finite number above 0",
                self.repetition_penalty,
                self.repetition_penalty.is_finite() && self.repetition_penalty > 0.0,
            ),
        ] {
            if !fits {
                return Err(GenerateError::Setting {
                    name,
                    expected,
                    value,
                });
            }
        }
        Ok(())
    }

    /// The probability of each token to be chosen (vocab_size).
    ///
    /// # Errors
    /// As [`check`](Self::check), or if a logit is NaN or plus infinity, or all are minus infinity.
    pub fn probabilities(&self, logits: &ArrayRef1<f32>) -> Result<Array1<f32>, GenerateError> {
        self.check()?;
        check_logits(logits)?;
        if self.temperature == 0.0 {
            let mut p = Array1::zeros(logits.len());
            p[greedy_id(logits)? as usize] = 1.0;
            return Ok(p);
        }
        let mut logits = logits.to_vec();
        divide_by_temperature(&mut logits, self.temperature);
        if let Some(top_k) = self.top_k {
            keep_top_k(&mut logits, top_k);
        }
        if self.top_p < 1.0 {
            keep_top_p(&mut logits, self.top_p);
        }
        if self.min_p > 0.0 {
            keep_min_p(&mut logits, self.min_p);
        }
        Ok(softmax(&ArrayView1::from(&logits), Axis(0)))
    }

    /// Chooses the next token of a text, whose `tokens` the repetition penalty looks at.
    ///
    /// # Errors
    /// As [`probabilities`](Self::probabilities).
    pub fn choose_after(
        &self,
        tokens: &[u32],
        logits: &ArrayRef1<f32>,
        rng: &mut TorchRng,
    ) -> Result<u32, GenerateError> {
        if self.repetition_penalty == 1.0 {
            return self.choose(logits, rng);
        }
        self.check()?;
        let mut logits = logits.to_owned();
        penalize(&mut logits, tokens, self.repetition_penalty);
        self.choose(&logits, rng)
    }

    /// Chooses the next token from its logits alone; draws once for each token of the vocabulary
    /// unless the temperature is 0.
    ///
    /// # Errors
    /// As [`probabilities`](Self::probabilities).
    pub fn choose(
        &self,
        logits: &ArrayRef1<f32>,
        rng: &mut TorchRng,
    ) -> Result<u32, GenerateError> {
        if self.temperature == 0.0 {
            self.check()?;
            return greedy_id(logits);
        }
        let p = self.probabilities(logits)?;
        let p = p.as_slice().expect("a fresh array is contiguous");
        Ok(rng.try_multinomial(p)? as u32)
    }
}

/// Chooses the tokens of a text: a closure, or a [`RandomSampler`].
pub trait Sampler {
    /// The error of a choice, which can also be an error of the decoder.
    type Error: From<GenerateError>;

    /// Chooses the next token from all tokens so far and the logits (vocab_size).
    ///
    /// # Errors
    /// If no token can be chosen. The text ends then.
    fn choose(&mut self, text: &[u32], logits: ArrayView1<f32>) -> Result<u32, Self::Error>;
}

impl<F, E> Sampler for F
where
    F: FnMut(&[u32], ArrayView1<f32>) -> Result<u32, E>,
    E: From<GenerateError>,
{
    type Error = E;

    fn choose(&mut self, text: &[u32], logits: ArrayView1<f32>) -> Result<u32, E> {
        self(text, logits)
    }
}

/// Chooses tokens as its settings say, with the random numbers of a generator: a [`TorchRng`] or a
/// `&mut TorchRng`.
#[derive(Clone, Debug)]
pub struct RandomSampler<R> {
    /// The settings.
    pub sampling: Sampling,
    /// The generator.
    pub rng: R,
}

impl<R: BorrowMut<TorchRng>> Sampler for RandomSampler<R> {
    type Error = GenerateError;

    fn choose(&mut self, text: &[u32], logits: ArrayView1<f32>) -> Result<u32, GenerateError> {
        let rng = self.rng.borrow_mut();
        self.sampling.choose_after(text, &logits, rng)
    }
}

/// Greedy.
impl Default for Sampling {
    fn default() -> Self {
        Self::GREEDY
    }
}
