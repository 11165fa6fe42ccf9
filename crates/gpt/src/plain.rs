//! The model of chapter 4, written as in the book's listings: layer normalization (listing 4.2),
//! GELU (4.3), the feed-forward network (4.4), the transformer block (4.6) and the whole model
//! (4.7). Each struct has the same constructor and the same forward pass as in the book.
//!
//! If you are new to this crate, read this file first. The methods `forward` and `forward_train` of
//! the same structs compute the same outputs faster. These methods and the backward passes are in
//! the files `feed_forward.rs`, `transformer_block.rs`, `model.rs` and `model_train.rs`.
//! `tests/plain.rs` checks that the results are the same.

use std::f32::consts::PI;

use attention::MultiHeadAttention;
use ndarray::{Array, Array1, Array3, ArrayRef, ArrayRef2, ArrayRef3, Dimension};
use tensor_ops::{Dropout, Dtype, Embedding, LayerNorm, Linear};
use torch_rng::TorchRng;

use crate::ids::check_ids;
use crate::{Activation, GptConfig, GptError};

/// Normalizes the features of each token to mean 0 and variance 1, and then applies the learned
/// scale and shift (listing 4.2). The input and the result have the shape (..., emb_dim).
///
/// [`LayerNorm::forward`] computes the same result faster.
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
        let var = x.var(0.0); // 0.0 means unbiased=False
        let norm_x = (&x - mean) / (var + norm.eps).sqrt();
        x.assign(&(&norm.scale * &norm_x + &norm.shift));
    }
    out
}

/// Applies the tanh approximation of GELU to each element of an array (listing 4.3).
/// [`tensor_ops::gelu`] computes the same result faster.
///
/// ```
/// assert!((gpt::gelu(&ndarray::array![1.0])[0] - 0.841192).abs() < 1e-6);
/// ```
#[must_use]
pub fn gelu<D: Dimension>(x: &ArrayRef<f32, D>) -> Array<f32, D> {
    x.mapv(|x| 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()))
}

/// The feed-forward network of a transformer block. It corresponds to the class `FeedForward` of
/// the book (listing 4.4). Values of this type are also used to store the gradients of a network's
/// weights.
///
/// The parameters of the first layer are named `layers.0.weight` and `layers.0.bias`, and those of
/// the second layer are named `layers.2.weight` and `layers.2.bias`. The number 1 is missing
/// because the book stores the layers in an `nn.Sequential` whose element 1 is GELU.
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
    /// First layer, which maps `emb_dim` features to `hidden_dim` features. In the book,
    /// `hidden_dim` is `4 * emb_dim`.
    pub expand: Linear,
    /// Activation function between the layers, which is GELU in the book.
    pub activation: Activation,
    /// Second layer, which maps `hidden_dim` features to `emb_dim` features.
    pub contract: Linear,
}

impl FeedForward {
    /// Creates a network with random weights. The weights of the first layer are drawn before the
    /// weights of the second layer.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration isn't valid.
    pub fn new(cfg: GptConfig, rng: &mut TorchRng) -> Result<Self, GptError> {
        cfg.validate()?;
        let hidden_dim = cfg.feed_forward_dim(); // 4 * emb_dim in the book
        Ok(Self {
            expand: Linear::new(cfg.emb_dim, hidden_dim, true, rng),
            activation: cfg.activation,
            contract: Linear::new(hidden_dim, cfg.emb_dim, true, rng),
        })
    }

    /// Applies the network to `x` with the code of the book's listing 4.4. The input and the output
    /// have the shape (batch, num_tokens, emb_dim).
    ///
    /// # Panics
    ///
    /// Panics if the last dimension of `x` isn't `emb_dim`.
    pub fn forward_plain(&self, x: &ArrayRef3<f32>) -> Array3<f32> {
        let x = self.expand.forward(x); // shape: (batch, num_tokens, hidden_dim)
        let x = match self.activation {
            Activation::GeluTanh => gelu(&x),
            other => other.forward(&x), // not in the book
        };
        self.contract.forward(&x)
    }
}

/// A transformer block, which consists of multi-head attention and a feed-forward network. It
/// corresponds to the class `TransformerBlock` of the book (listing 4.6). Values of this type are
/// also used to store the gradients of a block's weights.
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
    /// Multi-head attention with a causal mask.
    pub att: MultiHeadAttention,
    /// Feed-forward network.
    pub ff: FeedForward,
    /// Layer normalization before attention.
    pub norm1: LayerNorm,
    /// Layer normalization before the feed-forward network.
    pub norm2: LayerNorm,
    /// Dropout for the output of attention and for the output of the feed-forward network. It is
    /// applied only during training.
    pub drop_shortcut: Dropout,
}

impl TransformerBlock {
    /// Creates a block with random weights. The weights of the attention module are drawn before
    /// those of the feed-forward network. The layer normalizations don't need random numbers,
    /// because they start with a scale of 1 and a shift of 0.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration isn't valid.
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

    /// Applies the block to `x` with the code of the book's listing 4.6. The input and the output
    /// have the shape (batch, num_tokens, emb_dim).
    ///
    /// If `training` contains a random number generator, dropout is applied. If `training` is
    /// `None`, the computation is in evaluation mode, and dropout isn't applied.
    ///
    /// # Errors
    ///
    /// Returns an error if a sequence has more tokens than the context length, or if a layer of the
    /// attention module has been replaced by one that is incompatible with the module's
    /// configuration.
    ///
    /// # Panics
    ///
    /// Panics if the last dimension of `x` isn't `emb_dim`.
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

/// A GPT model. It corresponds to the class `GPTModel` of the book (listing 4.7). Values of this
/// type are also used to store the gradients of a model's weights and the moments of an optimizer.
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
///
/// # Names of the parameters
///
/// The methods of the trait [`Parameters`](tensor_ops::Parameters) use the names in the following
/// table, which are the same as in the book's `state_dict`. `N` is the index of a block, from 0 to
/// `n_layers` - 1, and `hidden_dim` is `4 * emb_dim` by default. [`GptConfig::parameters`] returns
/// the names and shapes of a configuration in this order.
///
/// | name | shape | |
/// |---|---|---|
/// | `tok_emb.weight` | (vocab_size, emb_dim) | token embedding |
/// | `pos_emb.weight` | (context_length, emb_dim) | position embedding |
/// | `trf_blocks.N.att.W_query.weight` | (emb_dim, emb_dim) | queries |
/// | `trf_blocks.N.att.W_query.bias` | (emb_dim) | only if `qkv_bias` is true |
/// | `trf_blocks.N.att.W_key.weight` | (emb_dim, emb_dim) | keys |
/// | `trf_blocks.N.att.W_key.bias` | (emb_dim) | only if `qkv_bias` is true |
/// | `trf_blocks.N.att.W_value.weight` | (emb_dim, emb_dim) | values |
/// | `trf_blocks.N.att.W_value.bias` | (emb_dim) | only if `qkv_bias` is true |
/// | `trf_blocks.N.att.out_proj.weight` | (emb_dim, emb_dim) | output of attention |
/// | `trf_blocks.N.att.out_proj.bias` | (emb_dim) | |
/// | `trf_blocks.N.ff.layers.0.weight` | (hidden_dim, emb_dim) | first feed-forward layer |
/// | `trf_blocks.N.ff.layers.0.bias` | (hidden_dim) | |
/// | `trf_blocks.N.ff.layers.2.weight` | (emb_dim, hidden_dim) | second feed-forward layer |
/// | `trf_blocks.N.ff.layers.2.bias` | (emb_dim) | |
/// | `trf_blocks.N.norm1.scale` | (emb_dim) | normalization before attention |
/// | `trf_blocks.N.norm1.shift` | (emb_dim) | |
/// | `trf_blocks.N.norm2.scale` | (emb_dim) | normalization before the feed-forward network |
/// | `trf_blocks.N.norm2.shift` | (emb_dim) | |
/// | `final_norm.scale` | (emb_dim) | normalization before the output head |
/// | `final_norm.shift` | (emb_dim) | |
/// | `out_head.weight` | (vocab_size, emb_dim) | only if `tied` is false |
#[derive(Clone, Debug, PartialEq)]
pub struct GptModel {
    /// Token embedding, of shape (vocab_size, emb_dim).
    pub tok_emb: Embedding,
    /// Position embedding, of shape (context_length, emb_dim).
    pub pos_emb: Embedding,
    /// Dropout for the sum of the embeddings. It is applied only during training.
    pub drop_emb: Dropout,
    /// The `n_layers` transformer blocks.
    pub trf_blocks: Vec<TransformerBlock>,
    /// Layer normalization before the output head.
    pub final_norm: LayerNorm,
    /// Output head without bias, which maps `emb_dim` features to `vocab_size` logits. `None` means
    /// that the output head is tied, that is, it uses the weights of `tok_emb`.
    pub out_head: Option<Linear>,
    /// Configuration with which the model was created. A caller may replace the weights, but their
    /// shapes must still match this configuration.
    pub(crate) config: GptConfig,
    /// Number format to which the operands of the output head's matrix product are rounded if the
    /// head is tied. A separate output head stores its number format in its `Linear` layer instead.
    pub(crate) tied_head_dtype: Dtype,
}

impl GptModel {
    /// Creates a model with random weights. They are drawn in the same order as in the book: the
    /// token embedding, the position embedding, the transformer blocks one after the other, and
    /// finally the output head.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration isn't valid.
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

    /// Computes the logits for each token of the input with the code of the book's listing 4.7.
    /// `in_idx` contains token IDs and has the shape (batch, num_tokens). The result has the shape
    /// (batch, num_tokens, vocab_size).
    ///
    /// If `training` contains a random number generator, dropout is applied. If `training` is
    /// `None`, the computation is in evaluation mode, and dropout isn't applied.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`forward`](Self::forward).
    pub fn forward_plain(
        &self,
        in_idx: &ArrayRef2<u32>,
        mut training: Option<&mut TorchRng>,
    ) -> Result<Array3<f32>, GptError> {
        self.check()?;
        check_ids(in_idx, &self.tok_emb, &self.pos_emb)?;
        let (_batch_size, seq_len) = in_idx.dim();
        let tok_embeds = self.tok_emb.forward(in_idx); // shape: (batch, seq_len, emb_dim)
        let positions: Array1<u32> = (0..seq_len as u32).collect(); // torch.arange(seq_len)
        let pos_embeds = self.pos_emb.forward(&positions); // shape: (seq_len, emb_dim)
        let x = tok_embeds + pos_embeds; // broadcast over the batch
        let mut x = self.drop_emb.forward(x, training.as_deref_mut());
        for block in &self.trf_blocks {
            x = block.forward_plain(&x, training.as_deref_mut())?;
        }
        let x = layer_norm(&self.final_norm, &x);
        Ok(self.logits(&x)) // self.out_head(x)
    }
}
