//! The configuration of a GPT model. Most fields have the same names as the keys of the book's
//! `GPT_CONFIG_124M`, and some fields don't exist in the book. Constants contain the configurations
//! of the GPT-2 models.

use attention::AttentionConfig;
use tensor_ops::LayerNorm;

use crate::{Activation, GptError};

/// The rates of a model's three kinds of dropout, which are applied to the embeddings, to the
/// attention weights, and to the outputs that are added to the shortcut connections.
///
/// The book's model uses a single `drop_rate` for all three kinds of dropout. Exercise 4.3 of the
/// book introduces three separate rates.
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
    /// Dropout rate for the sum of the token and position embeddings, from 0 to 1.
    pub emb: f64,
    /// Dropout rate for the attention weights, from 0 to 1.
    pub attention: f64,
    /// Dropout rate for the outputs of attention and of the feed-forward network, from 0 to 1.
    /// Dropout is applied to these outputs before they are added to the shortcut connections.
    pub shortcut: f64,
}

impl DropRates {
    /// Returns dropout rates that are all equal to `rate`, like those of the book's model with a
    /// single `drop_rate`.
    #[must_use]
    pub const fn all(rate: f64) -> Self {
        Self {
            emb: rate,
            attention: rate,
            shortcut: rate,
        }
    }

    /// Returns the dropout rate if the embeddings, the attention weights and the shortcut
    /// connections all have the same rate, as in the book's model. Returns `None` if the rates
    /// differ.
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
    /// Number of tokens in the vocabulary. All token IDs must be less than this number.
    pub vocab_size: usize,
    /// Largest number of tokens that a sequence can have.
    pub context_length: usize,
    /// Number of features in the embedding of a token.
    pub emb_dim: usize,
    /// Number of attention heads. It must be a divisor of `emb_dim`.
    pub n_heads: usize,
    /// Number of transformer blocks.
    pub n_layers: usize,
    /// Dropout rates for the embeddings, the attention weights and the shortcut connections. The
    /// book uses a single rate, `drop_rate`, for all of them.
    pub drop_rates: DropRates,
    /// Whether the query, key and value layers have biases. They don't in the model that the book
    /// trains, but they do in the GPT-2 models published by OpenAI.
    pub qkv_bias: bool,
    /// Whether the output head shares its weight matrix with the token embedding (weight tying).
    /// The book's model has a separate output head, but the head of OpenAI's GPT-2 is tied.
    pub tied: bool,
    /// Number of features between the two layers of the feed-forward network. `None` means four
    /// times `emb_dim`, as in the book and in GPT-2.
    pub hidden_dim: Option<usize>,
    /// Small constant that layer normalization adds to the variance to avoid dividing by 0.
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
    /// Configuration of GPT-2 "small", which the book calls `GPT_CONFIG_124M`.
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

    /// Configuration of GPT-2 "medium", which has 355 million parameters with a tied output head
    /// (exercise 4.2 of the book).
    pub const GPT2_MEDIUM: Self = Self {
        emb_dim: 1024,
        n_heads: 16,
        n_layers: 24,
        ..Self::GPT2_124M
    };

    /// Configuration of GPT-2 "large", which has 774 million parameters with a tied output head
    /// (exercise 4.2 of the book).
    pub const GPT2_LARGE: Self = Self {
        emb_dim: 1280,
        n_heads: 20,
        n_layers: 36,
        ..Self::GPT2_124M
    };

    /// Configuration of GPT-2 "xl", which has 1.6 billion parameters with a tied output head
    /// (exercise 4.2 of the book).
    pub const GPT2_XL: Self = Self {
        emb_dim: 1600,
        n_heads: 25,
        n_layers: 48,
        ..Self::GPT2_124M
    };

    /// Checks that a model can be created from this configuration.
    ///
    /// A valid configuration must meet these conditions: All sizes are at least 1, `n_heads` is a
    /// divisor of `emb_dim`, the dropout rates are from 0 to 1, `norm_eps` is finite and not
    /// negative, and the weights of the model fit in the address space.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration isn't valid. The error describes the first problem
    /// found, including the name and the value of the invalid field.
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

    /// Returns the number of features between the two layers of the feed-forward network. It is
    /// `hidden_dim` if this field is set, and `4 * emb_dim` otherwise.
    pub fn feed_forward_dim(&self) -> usize {
        self.hidden_dim.unwrap_or(self.emb_dim.saturating_mul(4))
    }

    /// Creates a layer normalization for `emb_dim` features, with a scale of 1, a shift of 0, and
    /// the epsilon of this configuration.
    pub(crate) fn norm(&self) -> LayerNorm {
        LayerNorm {
            eps: self.norm_eps,
            ..LayerNorm::new(self.emb_dim)
        }
    }

    /// Creates a layer normalization whose scale and shift are 0. Use it to accumulate the
    /// gradients of a layer that was created by [`norm`](Self::norm).
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
