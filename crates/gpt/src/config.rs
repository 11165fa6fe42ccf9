//! The book's `GPT_CONFIG_124M` and the larger models, as a struct with the same keys.

use attention::AttentionConfig;
use tensor_ops::LayerNorm;

use crate::{Activation, GptError};

/// Dropout rates by site (exercise 4.3); the book's `drop_rate` sets all three.
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
    /// On the sum of token and position embeddings.
    pub emb: f64,
    /// On the attention weights.
    pub attention: f64,
    /// On each branch before it is added to its shortcut.
    pub shortcut: f64,
}

impl DropRates {
    /// One rate at all sites: the book's `drop_rate`.
    #[must_use]
    pub const fn all(rate: f64) -> Self {
        Self {
            emb: rate,
            attention: rate,
            shortcut: rate,
        }
    }

    /// The rate of all sites; `None` if they differ.
    pub fn common(&self) -> Option<f64> {
        (*self == Self::all(self.emb)).then_some(self.emb)
    }
}

/// The book's 0.1.
impl Default for DropRates {
    fn default() -> Self {
        Self::all(0.1)
    }
}

/// The configuration of a [`GptModel`](crate::GptModel) (book section 4.1).
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
    /// Token ids are below this.
    pub vocab_size: usize,
    /// The most tokens a sequence may have.
    pub context_length: usize,
    /// Features of a token.
    pub emb_dim: usize,
    /// Attention heads; they divide `emb_dim`.
    pub n_heads: usize,
    /// Transformer blocks.
    pub n_layers: usize,
    /// The book's `drop_rate`, by site.
    pub drop_rates: DropRates,
    /// True if query, key and value projections have a bias: not in the book, but in OpenAI's
    /// weights.
    pub qkv_bias: bool,
    /// True if the output head is the token embedding ("weight tying"): not in the book, but in
    /// OpenAI's GPT-2.
    pub tied: bool,
    /// Features inside the feed-forward network; `None` is the book's and GPT-2's 4 `emb_dim`.
    pub hidden_dim: Option<usize>,
    /// The epsilon that the norms add to the variance.
    pub norm_eps: f32,
    /// Between the layers of the feed-forward network.
    pub activation: Activation,
}

/// GPT-2 "small", as the book has it.
impl Default for GptConfig {
    fn default() -> Self {
        Self::GPT2_124M
    }
}

impl GptConfig {
    /// `GPT_CONFIG_124M`: GPT-2 "small".
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

    /// GPT-2 "medium", 355M parameters when tied (exercise 4.2).
    pub const GPT2_MEDIUM: Self = Self {
        emb_dim: 1024,
        n_heads: 16,
        n_layers: 24,
        ..Self::GPT2_124M
    };

    /// GPT-2 "large", 774M parameters when tied (exercise 4.2).
    pub const GPT2_LARGE: Self = Self {
        emb_dim: 1280,
        n_heads: 20,
        n_layers: 36,
        ..Self::GPT2_124M
    };

    /// GPT-2 "xl", 1.6B parameters when tied (exercise 4.2).
    pub const GPT2_XL: Self = Self {
        emb_dim: 1600,
        n_heads: 25,
        n_layers: 48,
        ..Self::GPT2_124M
    };

    /// Checks what the types can't: sizes of at least 1, heads that divide, rates from 0 to 1, a
    /// finite epsilon, a size that can be counted.
    ///
    /// # Errors
    /// Names the first key that is wrong, and its value.
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
            ("drop_rate of the embeddings", emb),
            ("drop_rate of the attention weights", attention),
            ("drop_rate of the shortcuts", shortcut),
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

    /// Features inside the feed-forward network: `hidden_dim`, or 4 `emb_dim`.
    pub fn feed_forward_dim(&self) -> usize {
        self.hidden_dim.unwrap_or(self.emb_dim.saturating_mul(4))
    }

    /// `LayerNorm::new(emb_dim)`, with the configuration's epsilon.
    pub(crate) fn norm(&self) -> LayerNorm {
        LayerNorm {
            eps: self.norm_eps,
            ..LayerNorm::new(self.emb_dim)
        }
    }

    /// The gradient of such a norm.
    pub(crate) fn zero_norm(&self) -> LayerNorm {
        LayerNorm {
            eps: self.norm_eps,
            ..LayerNorm::zeros(self.emb_dim)
        }
    }

    /// The part of the configuration that a block's attention is built from.
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

/// That no size is 0.
pub(crate) fn check_sizes(sizes: &[(&'static str, usize)]) -> Result<(), GptError> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some(&(name, _)) => Err(GptError::Zero { name }),
        None => Ok(()),
    }
}
