//! Chapter 4 as the book writes it: LayerNorm (listing 4.2), GELU (4.3), the feed-forward network
//! (4.4), the transformer block (4.6) and the model (4.7), each struct with its `new` and its
//! `forward`.
//!
//! These are the forms to read. `forward` and `forward_train`, in the files named after the
//! structs, give the same numbers faster (`tests/plain.rs` compares them) and have the backward
//! passes.

use std::f32::consts::PI;

use attention::MultiHeadAttention;
use ndarray::{Array, Array1, Array3, ArrayRef, ArrayRef2, ArrayRef3, Dimension};
use tensor_ops::{Dropout, Dtype, Embedding, LayerNorm, Linear};
use torch_rng::TorchRng;

use crate::ids::check_ids;
use crate::{Activation, GptConfig, GptError};

/// Listing 4.2, the plain form of [`LayerNorm`]: (..., emb_dim) -> (..., emb_dim). Brings each
/// token's features to mean 0 and variance 1, then scales and shifts them.
///
/// ```
/// use gpt::{LayerNorm, layer_norm};
/// let out = layer_norm(&LayerNorm::new(2), &ndarray::array![[1.0, 3.0]]);
/// assert!((out[[0, 0]] + 1.0).abs() < 1e-4 && (out[[0, 1]] - 1.0).abs() < 1e-4);
/// ```
#[must_use]
pub fn layer_norm<D: Dimension>(norm: &LayerNorm, x: &ArrayRef<f32, D>) -> Array<f32, D> {
    let mut out = x.to_owned();
    for mut x in out.rows_mut() {
        let mean = x.mean().expect("a token has features");
        let var = x.var(0.0); // unbiased=False
        let norm_x = (&x - mean) / (var + norm.eps).sqrt();
        x.assign(&(&norm.scale * &norm_x + &norm.shift));
    }
    out
}

/// Listing 4.3, `GELU`: each number by itself. The fast form is [`tensor_ops::gelu`].
///
/// ```
/// assert!((gpt::gelu(&ndarray::array![1.0])[0] - 0.841192).abs() < 1e-6);
/// ```
#[must_use]
pub fn gelu<D: Dimension>(x: &ArrayRef<f32, D>) -> Array<f32, D> {
    x.mapv(|x| 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()))
}

/// Listing 4.4, the book's `FeedForward`; also its gradient.
///
/// The parameters are named `layers.0` and `layers.2`, because the book has an `nn.Sequential` with
/// GELU in the middle.
///
/// ```
/// use gpt::{FeedForward, GptConfig, torch_rng::TorchRng};
/// let config = GptConfig { emb_dim: 12, ..GptConfig::GPT2_124M };
/// let ffn = FeedForward::new(config, &mut TorchRng::manual_seed(123))?;
/// let x = ndarray::Array3::ones((2, 3, 12)); // (batch, num_tokens, emb_dim)
/// assert!((ffn.forward(&x) - ffn.forward_plain(&x)).iter().all(|d| d.abs() < 1e-5));
/// # Ok::<(), gpt::GptError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForward {
    /// emb_dim -> hidden_dim, which is 4 emb_dim in the book
    pub expand: Linear,
    /// Between the layers: GELU in the book.
    pub activation: Activation,
    /// hidden_dim -> emb_dim
    pub contract: Linear,
}

impl FeedForward {
    /// Draws the two layers, in order.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn new(cfg: GptConfig, rng: &mut TorchRng) -> Result<Self, GptError> {
        cfg.validate()?;
        let hidden_dim = cfg.feed_forward_dim(); // 4 * emb_dim
        Ok(Self {
            expand: Linear::new(cfg.emb_dim, hidden_dim, true, rng),
            activation: cfg.activation,
            contract: Linear::new(hidden_dim, cfg.emb_dim, true, rng),
        })
    }

    /// (batch, num_tokens, emb_dim) -> (batch, num_tokens, emb_dim)
    ///
    /// # Panics
    /// If the last dimension is not `emb_dim`.
    pub fn forward_plain(&self, x: &ArrayRef3<f32>) -> Array3<f32> {
        let x = self.expand.forward(x); // (batch, num_tokens, hidden_dim)
        let x = match self.activation {
            Activation::GeluTanh => gelu(&x),
            other => other.forward(&x), // not in the book
        };
        self.contract.forward(&x)
    }
}

/// Listing 4.6, the book's `TransformerBlock`; also its gradient.
///
/// ```
/// use gpt::{GptConfig, TransformerBlock, torch_rng::TorchRng};
/// use ndarray::Array3;
///
/// let cfg = GptConfig { emb_dim: 12, n_heads: 3, ..GptConfig::GPT2_124M };
/// let block = TransformerBlock::new(cfg, &mut TorchRng::manual_seed(123))?;
/// let x = Array3::ones((2, 4, 12)); // (batch, num_tokens, emb_dim)
/// assert_eq!(block.forward(&x)?.dim(), x.dim());
/// # Ok::<(), gpt::GptError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerBlock {
    /// Masked multi-head attention.
    pub att: MultiHeadAttention,
    /// The feed-forward network.
    pub ff: FeedForward,
    /// Before `att`.
    pub norm1: LayerNorm,
    /// Before `ff`.
    pub norm2: LayerNorm,
    /// On both branches, in training only.
    pub drop_shortcut: Dropout,
}

impl TransformerBlock {
    /// Draws attention, then the feed-forward network; the norms draw nothing.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn new(cfg: GptConfig, rng: &mut TorchRng) -> Result<Self, GptError> {
        cfg.validate()?;
        Ok(Self {
            att: MultiHeadAttention::new(cfg.attention(), rng)?,
            ff: FeedForward::new(cfg, rng)?,
            norm1: cfg.norm(),
            norm2: cfg.norm(),
            drop_shortcut: Dropout {
                p: cfg.drop_rates.shortcut,
            },
        })
    }

    /// (batch, num_tokens, emb_dim) -> (batch, num_tokens, emb_dim); with a generator it is in
    /// training and drops, without it is in evaluation.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `emb_dim` features.
    pub fn forward_plain(
        &self,
        x: &ArrayRef3<f32>,
        mut training: Option<&mut TorchRng>,
    ) -> Result<Array3<f32>, GptError> {
        // Shortcut connection for the attention block
        let shortcut = x;
        let x = layer_norm(&self.norm1, x);
        let (x, _) = self.att.forward_plain(&x, training.as_deref_mut())?;
        let x = self.drop_shortcut.forward(x, training.as_deref_mut());
        let x = x + shortcut; // add the original input back

        // Shortcut connection for the feed-forward block
        let shortcut = &x;
        let x = layer_norm(&self.norm2, shortcut);
        let x = self.ff.forward_plain(&x);
        let x = self.drop_shortcut.forward(x, training);
        Ok(x + shortcut)
    }
}

/// Listing 4.7, the book's `GPTModel`; also its gradient, and the optimizer's moments of it.
///
/// ```
/// use gpt::{GptConfig, GptModel, torch_rng::TorchRng};
/// use ndarray::array;
///
/// let cfg = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 2, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(cfg, &mut TorchRng::manual_seed(123))?;
/// let in_idx = array![[1, 2, 3]];
/// let logits = model.forward(&in_idx)?; // (batch, num_tokens, vocab_size)
/// assert_eq!(logits.dim(), (1, 3, 50));
/// assert!((logits - model.forward_plain(&in_idx, None)?).iter().all(|d| d.abs() < 1e-5));
/// # Ok::<(), gpt::GptError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GptModel {
    /// (vocab_size, emb_dim)
    pub tok_emb: Embedding,
    /// (context_length, emb_dim)
    pub pos_emb: Embedding,
    /// On the sum of the embeddings, in training only.
    pub drop_emb: Dropout,
    /// `n_layers` of them
    pub trf_blocks: Vec<TransformerBlock>,
    /// Before the head.
    pub final_norm: LayerNorm,
    /// emb_dim -> vocab_size, without bias; `None` if the head is tied to `tok_emb`
    pub out_head: Option<Linear>,
    /// The configuration it was built from. New weights must have the shapes of this configuration.
    pub(crate) config: GptConfig,
    /// The format of the operands of a tied head, which isn't a `Linear`.
    pub(crate) tied_head_dtype: Dtype,
}

impl GptModel {
    /// Draws token embeddings, position embeddings, block after block, and the output head.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn new(cfg: GptConfig, rng: &mut TorchRng) -> Result<Self, GptError> {
        cfg.validate()?;
        Ok(Self {
            tok_emb: Embedding::new(cfg.vocab_size, cfg.emb_dim, rng),
            pos_emb: Embedding::new(cfg.context_length, cfg.emb_dim, rng),
            drop_emb: Dropout {
                p: cfg.drop_rates.emb,
            },
            trf_blocks: (0..cfg.n_layers)
                .map(|_| TransformerBlock::new(cfg, rng))
                .collect::<Result<_, _>>()?,
            final_norm: cfg.norm(),
            out_head: (!cfg.tied).then(|| Linear::new(cfg.emb_dim, cfg.vocab_size, false, rng)),
            config: cfg,
            tied_head_dtype: Dtype::Float32,
        })
    }

    /// Token ids (batch, num_tokens) -> logits (batch, num_tokens, vocab_size); with a generator it
    /// is in training and drops, without it is in evaluation.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_plain(
        &self,
        in_idx: &ArrayRef2<u32>,
        mut training: Option<&mut TorchRng>,
    ) -> Result<Array3<f32>, GptError> {
        self.check()?;
        check_ids(in_idx, &self.tok_emb, &self.pos_emb)?;
        let (_batch_size, seq_len) = in_idx.dim();
        let tok_embeds = self.tok_emb.forward(in_idx); // (batch, seq_len, emb_dim)
        let positions: Array1<u32> = (0..seq_len as u32).collect(); // torch.arange(seq_len)
        let pos_embeds = self.pos_emb.forward(&positions); // (seq_len, emb_dim)
        let x = tok_embeds + pos_embeds; // the same positions for each sequence
        let mut x = self.drop_emb.forward(x, training.as_deref_mut());
        for block in &self.trf_blocks {
            x = block.forward_plain(&x, training.as_deref_mut())?;
        }
        let x = layer_norm(&self.final_norm, &x);
        Ok(self.logits(&x)) // self.out_head(x)
    }
}
