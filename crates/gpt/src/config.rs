//! The configuration of a GPT model. Its fields have the same names as the keys of the book's
//! `GPT_CONFIG_124M`, with a few additions, and its constants contain the configurations of the
//! GPT-2 models.

use attention::AttentionConfig;
use tensor_ops::LayerNorm;

use crate::{Activation, GptError};

/// The dropout rates of the three kinds of values to which a model applies dropout: the embeddings,
/// the attention weights, and the outputs that are added to the shortcuts.
///
/// The book's model has a single `drop_rate` for all three kinds. Exercise 4.3 replaces it with
/// separate rates.
///
/// ```
/// use gpt::DropRates;
/// let rates = DropRates { attention: 0.0, ..DropRates::all(0.1) };
/// assert_eq!((rates.shortcut, rates.common()), (0.1, None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct DropRates {
    /// Dropout rate of the sum of the token and position embeddings, from 0 to 1.
    pub emb: f64,
    /// Dropout rate of the attention weights, from 0 to 1.
    pub attention: f64,
    /// Dropout rate of the outputs of attention and of the feed-forward network before they are
    /// added to the shortcut, from 0 to 1.
    pub shortcut: f64,
}

impl DropRates {
    /// Returns dropout rates that are all equal to `rate`, like the book's `drop_rate`.
    #[must_use]
    pub const fn all(rate: f64) -> Self {
        Self {
            emb: rate,
            attention: rate,
            shortcut: rate,
        }
    }

    /// Returns the common rate if all three rates are equal, or `None` if they differ.
    pub fn common(&self) -> Option<f64> {
        (*self == Self::all(self.emb)).then_some(self.emb)
    }
}

/// All rates are 0.1 by default, as in the book.
impl Default for DropRates {
    fn default() -> Self {
        Self::all(0.1)
    }
}

/// The configuration of a [`GptModel`](crate::GptModel) (section 4.1 of the book).
///
/// ```
/// use gpt::GptConfig;
/// let config = GptConfig { context_length: 256, tied: true, ..GptConfig::GPT2_124M };
/// config.validate()?;
/// let wrong = GptConfig { n_heads: 7, ..config }.validate().unwrap_err();
/// assert!(wrong.to_string().contains("emb_dim is 768 and n_heads is 7"));
/// # Ok::<(), gpt::GptError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct GptConfig {
    /// Number of tokens in the vocabulary. Token IDs are less than this number.
    pub vocab_size: usize,
    /// Largest number of tokens that a sequence can have.
    pub context_length: usize,
    /// Number of features in the embedding of a token.
    pub emb_dim: usize,
    /// Number of attention heads. It must be a divisor of `emb_dim`.
    pub n_heads: usize,
    /// Number of transformer blocks.
    pub n_layers: usize,
    /// Dropout rates of the embeddings, the attention weights and the shortcuts. The book uses a
    /// single `drop_rate` for all of them.
    pub drop_rates: DropRates,
    /// Whether the query, key and value projections have biases. In the book's model, they don't,
    /// but OpenAI's weights for GPT-2 include biases.
    pub qkv_bias: bool,
    /// Whether the output head uses the weight matrix of the token embedding (weight tying). The
    /// book's model has a separate output head, but the head of OpenAI's GPT-2 is tied.
    pub tied: bool,
    /// Number of features between the two layers of the feed-forward network. If it is `None`, the
    /// number is four times `emb_dim`, as in the book and in GPT-2.
    pub hidden_dim: Option<usize>,
    /// Small number that layer normalization adds to the variance, so that it never divides by 0.
    pub norm_eps: f32,
    /// Activation function between the two layers of the feed-forward network.
    pub activation: Activation,
}

/// The configuration of the smallest GPT-2 model, [`GPT2_124M`](GptConfig::GPT2_124M).
impl Default for GptConfig {
    fn default() -> Self {
        Self::GPT2_124M
    }
}

impl GptConfig {
    /// Configuration of GPT-2 "small", the book's `GPT_CONFIG_124M`.
    pub const GPT2_124M: Self = Self {
        vocab_size: 50257,
        context_length: 1024,
        emb_dim: 768,
        n_heads: 12,
        n_layers: 12,
        drop_rates: DropRates::all(0.1),
        qkv_bias: false,
        tied: false,
        hidden_dim: None,
        norm_eps: 1e-5,
        activation: Activation::GeluTanh,
    };

    /// Configuration of GPT-2 "medium", which has 355 million parameters if the head is tied
    /// (exercise 4.2).
    pub const GPT2_MEDIUM: Self = Self {
        emb_dim: 1024,
        n_heads: 16,
        n_layers: 24,
        ..Self::GPT2_124M
    };

    /// Configuration of GPT-2 "large", which has 774 million parameters if the head is tied
    /// (exercise 4.2).
    pub const GPT2_LARGE: Self = Self {
        emb_dim: 1280,
        n_heads: 20,
        n_layers: 36,
        ..Self::GPT2_124M
    };

    /// Configuration of GPT-2 "xl", which has 1.6 billion parameters if the head is tied (exercise
    /// 4.2).
    pub const GPT2_XL: Self = Self {
        emb_dim: 1600,
        n_heads: 25,
        n_layers: 48,
        ..Self::GPT2_124M
    };

    /// Checks that a model can be created from this configuration.
    ///
    /// All sizes must be at least 1, `n_heads` must be a divisor of `emb_dim`, the dropout rates
    /// must be in the range from 0 to 1, `norm_eps` must be finite and not negative, and the
    /// weights must fit in the address space.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first invalid field and its value.
    pub fn validate(&self) -> Result<(), GptError> {
        check_sizes(&[
            ("vocab_size", self.vocab_size),
            ("context_length", self.context_length),
            ("emb_dim", self.emb_dim),
            ("n_heads", self.n_heads),
            ("n_layers", self.n_layers),
            ("hidden_dim", self.hidden_dim.unwrap_or(1)),
        ])?;
        let DropRates {
            emb,
            attention,
            shortcut,
        } = self.drop_rates;
        for (name, value) in [
            ("drop_rates.emb", emb),
            ("drop_rates.attention", attention),
            ("drop_rates.shortcut", shortcut),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(GptError::DropRate { name, value });
            }
        }
        if !(self.norm_eps.is_finite() && self.norm_eps >= 0.0) {
            return Err(GptError::NormEps(self.norm_eps));
        }
        if !self.emb_dim.is_multiple_of(self.n_heads) {
            let Self {
                emb_dim, n_heads, ..
            } = *self;
            return Err(GptError::HeadsDontDivide { emb_dim, n_heads });
        }
        self.size().map(|_| ())
    }

    /// Returns the number of features between the two layers of the feed-forward network. This is
    /// `hidden_dim` if it is set, and `4 * emb_dim` otherwise.
    pub fn feed_forward_dim(&self) -> usize {
        self.hidden_dim.unwrap_or(self.emb_dim.saturating_mul(4))
    }

    /// Returns a layer normalization of `emb_dim` features with the epsilon of this configuration,
    /// a scale of 1 and a shift of 0.
    pub(crate) fn norm(&self) -> LayerNorm {
        LayerNorm {
            eps: self.norm_eps,
            ..LayerNorm::new(self.emb_dim)
        }
    }

    /// Returns a layer normalization whose scale and shift are 0. It can store the gradients of a
    /// [`norm`](Self::norm).
    pub(crate) fn zero_norm(&self) -> LayerNorm {
        LayerNorm {
            eps: self.norm_eps,
            ..LayerNorm::zeros(self.emb_dim)
        }
    }

    /// Returns the configuration of the multi-head attention in each transformer block.
    pub fn attention(&self) -> AttentionConfig {
        AttentionConfig {
            d_in: self.emb_dim,
            d_out: self.emb_dim,
            context_length: self.context_length,
            dropout: self.drop_rates.attention,
            num_heads: self.n_heads,
            qkv_bias: self.qkv_bias,
        }
    }
}

/// Checks that none of the named sizes is 0.
pub(crate) fn check_sizes(sizes: &[(&'static str, usize)]) -> Result<(), GptError> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some(&(name, _)) => Err(GptError::Zero { name }),
        None => Ok(()),
    }
}
