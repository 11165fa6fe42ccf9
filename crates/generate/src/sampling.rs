//! The choice of the next token from its logits.
//!
//! The settings are applied in the same order as in the transformers library: repetition penalty,
//! temperature, top-k, top-p and min-p. The token is then drawn from the resulting probabilities
//! with the algorithm of `torch.multinomial`. The random numbers are also the same as in PyTorch
//! for the same seed. If the temperature is 0, the token with the largest logit is chosen instead,
//! and no random numbers are used.

use std::borrow::BorrowMut;

use ndarray::{Array1, ArrayRef1, ArrayView1, Axis};
use tensor_ops::softmax;
use torch_rng::TorchRng;

use crate::GenerateError;
use crate::filters::{
    check_logits, divide_by_temperature, greedy_id, keep_min_p, keep_top_k, keep_top_p, penalize,
};

/// Settings that determine how the next token is chosen. The default is greedy decoding: the
/// temperature is 0, and all other settings are turned off.
///
/// ```
/// use generate::Sampling;
/// use ndarray::array;
/// use torch_rng::TorchRng;
///
/// // These are the logits of section 5.3.1 of the book.
/// let logits = array![4.51, 0.89, -1.90, 6.75, 1.63, -1.62, -1.89, 6.28, 1.79];
/// let mut rng = TorchRng::manual_seed(123);
/// assert_eq!(Sampling::GREEDY.choose(&logits, &mut rng)?, 3);
/// let top_3 = Sampling { temperature: 1.0, top_k: Some(3), ..Sampling::GREEDY };
/// let p = top_3.probabilities(&logits)?;
/// for (id, printed) in [(0, 0.0615), (3, 0.5775), (7, 0.3610)] {
///     assert!((p[id] - printed).abs() < 5e-5); // as in section 5.3.2
/// }
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Sampling {
    /// Temperature by which the logits are divided, a finite number of at least 0. A value below 1
    /// makes likely tokens even more likely, and a value above 1 makes the probabilities more
    /// similar. If the value is 0, which is the default, the token with the largest logit is always
    /// chosen (greedy decoding).
    ///
    /// The transformers library implements this setting as `TemperatureLogitsWarper`, which
    /// requires a value above 0. For greedy decoding, that library has the option `do_sample=False`
    /// instead.
    pub temperature: f32,
    /// Number of tokens that can be drawn, which are the tokens with the largest logits. If several
    /// tokens tie for last place among them, all of these can be drawn. If the value is `None`, 0
    /// or larger than the vocabulary, all tokens can be drawn. The default is `None`.
    ///
    /// The transformers library implements this filter as `TopKLogitsWarper`. The book uses it in
    /// section 5.3.2.
    pub top_k: Option<usize>,
    /// Minimum total probability of the tokens that can be drawn, above 0 and at most 1. The filter
    /// keeps the smallest set of most probable tokens whose probabilities add up to at least
    /// `top_p`. If the value is 1, which is the default, all tokens can be drawn.
    ///
    /// This filter is known as nucleus sampling (Holtzman et al., 2019). The transformers library
    /// implements it as `TopPLogitsWarper`.
    pub top_p: f32,
    /// Minimum probability of the tokens that can be drawn, relative to the probability of the most
    /// probable token. The value is between 0 and 1. For example, 0.1 keeps the tokens that are at
    /// least a tenth as probable as the most probable token. If the value is 0, which is the
    /// default, all tokens can be drawn.
    ///
    /// The transformers library implements this filter as `MinPLogitsWarper`.
    pub min_p: f32,
    /// Penalty for tokens that already occur in the text, a finite number above 0. If the logit of
    /// such a token is positive, it is divided by the penalty. If the logit is negative, it is
    /// multiplied by the penalty. A value above 1 makes repetitions less likely. The value 1, which
    /// is the default, has no effect.
    ///
    /// The transformers library implements this setting as `RepetitionPenaltyLogitsProcessor`
    /// (Keskar et al., 2019, "CTRL"). The penalty applies to all tokens of the text that is passed
    /// to [`choose_after`](Self::choose_after), including the prompt, as in the transformers
    /// library. By contrast, llama.cpp penalizes only the last 64 tokens.
    pub repetition_penalty: f32,
}

impl Sampling {
    /// Settings for greedy decoding, which always chooses the token with the largest logit.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: None,
        top_p: 1.0,
        min_p: 0.0,
        repetition_penalty: 1.0,
    };

    /// Checks that each setting is in its valid range.
    ///
    /// # Errors
    ///
    /// Returns an error that contains the name and the value of the first setting that is out of
    /// range.
    pub fn check(&self) -> Result<(), GenerateError> {
        for (name, expected, value, fits) in [
            (
                "temperature",
                "a finite number that is at least 0",
                self.temperature,
                self.temperature.is_finite() && self.temperature >= 0.0,
            ),
            (
                "top_p",
                "a number greater than 0 and at most 1",
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
                "a finite number greater than 0",
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

    /// Returns the probability of each token of the vocabulary, as an array of shape (vocab_size).
    /// All settings are taken into account except for the repetition penalty.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is out of range ([`check`](Self::check)), if a logit is NaN or
    /// plus infinity, or if all logits are minus infinity.
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

    /// Chooses the next token of a text and returns its ID. `tokens` must contain the IDs of all
    /// tokens of the text so far, because the repetition penalty applies to them. `logits` has the
    /// shape (vocab_size).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`choose`](Self::choose).
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

    /// Chooses the next token and returns its ID. `logits` has the shape (vocab_size). The
    /// repetition penalty isn't applied, because this method doesn't know the text.
    ///
    /// This method draws one random number for each token of the vocabulary, or none if the
    /// temperature is 0.
    ///
    /// # Errors
    ///
    /// Returns an error if [`probabilities`](Self::probabilities) would return one, or if no token
    /// can be drawn from the probabilities.
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

/// A rule that chooses the next token of a text. Both [`RandomSampler`] and every closure of type
/// `FnMut(&[u32], ArrayView1<f32>) -> Result<u32, E>` implement this trait.
pub trait Sampler {
    /// Error type of [`choose`](Self::choose). The errors of the decoder must be convertible to
    /// this type.
    type Error: From<GenerateError>;

    /// Chooses the next token and returns its ID. `text` contains all tokens of the text so far,
    /// and `logits` contains the logits of the next token, of shape (vocab_size).
    ///
    /// # Errors
    ///
    /// Returns an error if no token can be chosen. The generation then ends with this error.
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

/// A [`Sampler`] that draws tokens according to the given settings, with the given random number
/// generator. The generator type `R` is either [`TorchRng`] or `&mut TorchRng`.
#[derive(Clone, Debug)]
pub struct RandomSampler<R> {
    /// Settings that determine how the tokens are chosen.
    pub sampling: Sampling,
    /// Random number generator.
    pub rng: R,
}

impl<R: BorrowMut<TorchRng>> Sampler for RandomSampler<R> {
    type Error = GenerateError;

    fn choose(&mut self, text: &[u32], logits: ArrayView1<f32>) -> Result<u32, GenerateError> {
        let rng = self.rng.borrow_mut();
        self.sampling.choose_after(text, &logits, rng)
    }
}

/// Returns [`Sampling::GREEDY`].
impl Default for Sampling {
    fn default() -> Self {
        Self::GREEDY
    }
}
