//! Multi-head attention, written exactly as in listing 3.5 of the book. The code processes all
//! heads at once and stores the scores, the mask and the attention weights as whole arrays.
//!
//! `multi_head.rs` contains a fast implementation, `forward`, which computes the same results
//! except for rounding errors but doesn't store the attention weights. `tests/plain.rs` compares
//! the results of both implementations. `multi_head.rs` also contains the backward pass.

use ndarray::{Array3, Array4, ArrayRef3};
use tensor_ops::{Dropout, Linear, matmul_batched};
use torch_rng::TorchRng;

use crate::scores::{mask_future, scaled_softmax};
use crate::{AttentionConfig, AttentionError};

/// A multi-head attention module. It corresponds to the class `MultiHeadAttention` of the book
/// (listing 3.5). Values of this type are also used to store the gradients of a module's weights.
///
/// [`forward_plain`](Self::forward_plain) follows the listing line by line.
/// [`forward`](Self::forward) computes the same result in blocks of queries, which is faster.
///
/// ```
/// use attention::{AttentionConfig, MultiHeadAttention, torch_rng::TorchRng};
/// use ndarray::array;
///
/// let config = AttentionConfig { d_in: 3, d_out: 4, num_heads: 2, ..AttentionConfig::default() };
/// let mha = MultiHeadAttention::new(config, &mut TorchRng::manual_seed(123))?;
/// let batch = array![[[0.43, 0.15, 0.89], [0.55, 0.87, 0.66]]]; // (1, 2, d_in)
/// let (context_vecs, attn_weights) = mha.forward_plain(&batch, None)?;
/// assert_eq!((context_vecs.dim(), attn_weights.dim()), ((1, 2, 4), (1, 2, 2, 2)));
/// assert!((mha.forward(&batch)? - context_vecs).iter().all(|d| d.abs() < 1e-6));
/// # Ok::<(), attention::AttentionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MultiHeadAttention {
    /// Layer that computes the queries of all heads, with `d_in` inputs and `d_out` outputs.
    pub w_query: Linear,
    /// Layer that computes the keys of all heads, with `d_in` inputs and `d_out` outputs.
    pub w_key: Linear,
    /// Layer that computes the values of all heads, with `d_in` inputs and `d_out` outputs.
    pub w_value: Linear,
    /// Output projection, which combines the outputs of all heads. It has `d_out` inputs and
    /// `d_out` outputs. Unlike the other layers, it always has a bias.
    pub out_proj: Linear,
    /// Dropout for the attention weights. It is applied only in training mode.
    pub dropout: Dropout,
    /// Configuration with which the module was created. A layer may be replaced only by one whose
    /// shape matches this configuration.
    pub(crate) config: AttentionConfig,
}

impl MultiHeadAttention {
    /// Creates a module with random weights. As in the book, random numbers are drawn first for the
    /// query layer, followed by the key layer, the value layer and the output projection.
    ///
    /// # Errors
    ///
    /// Returns [`AttentionError::Zero`] if a size is 0, [`AttentionError::HeadsDontDivide`] if
    /// `d_out` isn't divisible by `num_heads`, and [`AttentionError::Dropout`] if the dropout
    /// probability isn't in [0, 1].
    pub fn new(config: AttentionConfig, rng: &mut TorchRng) -> Result<Self, AttentionError> {
        config.check_heads()?;
        let (d_in, d_out, qkv_bias) = (config.d_in, config.d_out, config.qkv_bias);
        Ok(Self {
            w_query: Linear::new(d_in, d_out, qkv_bias, rng),
            w_key: Linear::new(d_in, d_out, qkv_bias, rng),
            w_value: Linear::new(d_in, d_out, qkv_bias, rng),
            out_proj: Linear::new(d_out, d_out, true, rng), // combines the outputs of the heads
            dropout: Dropout { p: config.dropout },
            config,
        })
    }

    /// Computes the output and the attention weights with the code of the book's listing 3.5.
    ///
    /// The input is a batch of sequences, of shape `(batch, num_tokens, d_in)`, and the output has
    /// the shape `(batch, num_tokens, d_out)`. The attention weights have the shape
    /// `(batch, num_heads, num_tokens, num_tokens)` and are returned as they are after dropout.
    ///
    /// If `training` contains a random number generator, the module is in training mode and drops
    /// some of the attention weights. If `training` is `None`, the module is in evaluation mode,
    /// and no weights are dropped.
    ///
    /// # Errors
    ///
    /// Returns [`AttentionError::Features`] if the last dimension of `x` isn't `d_in`,
    /// [`AttentionError::TooLong`] if a sequence has more tokens than the context length, and
    /// [`AttentionError::Field`] if a layer has been replaced by one that [`check`](Self::check)
    /// rejects.
    pub fn forward_plain(
        &self,
        x: &ArrayRef3<f32>,
        training: Option<&mut TorchRng>,
    ) -> Result<(Array3<f32>, Array4<f32>), AttentionError> {
        self.check()?;
        self.config.check_input(x.shape())?;
        let (b, num_tokens, _d_in) = x.dim();
        let (num_heads, d_out) = (self.config.num_heads, self.config.d_out);
        let head_dim = d_out / num_heads;

        let keys = self.w_key.forward(x); // shape: (b, num_tokens, d_out)
        let queries = self.w_query.forward(x);
        let values = self.w_value.forward(x);

        // Split the last dimension into heads, which results in the shape
        // (b, num_tokens, num_heads, head_dim). Then swap the two middle dimensions, which results
        // in the shape (b, num_heads, num_tokens, head_dim).
        let split = |x: Array3<f32>| {
            let x = x.into_shape_with_order((b, num_tokens, num_heads, head_dim));
            let x = x.expect("num_heads * head_dim is d_out");
            x.permuted_axes([0, 2, 1, 3])
        };
        let (keys, queries, values) = (split(keys), split(queries), split(values));

        // In the book, this step is `queries @ keys.transpose(2, 3)`. The scores have the shape
        // (b, num_heads, num_tokens, num_tokens).
        let attn_scores = matmul_batched(&queries, &keys.permuted_axes([0, 1, 3, 2]));
        let attn_scores = mask_future(&attn_scores);
        let attn_weights = scaled_softmax(&attn_scores, head_dim);
        let attn_weights = self.dropout.forward(attn_weights, training);

        // The context vectors have the shape (b, num_heads, num_tokens, head_dim). Swapping the two
        // middle dimensions results in the shape (b, num_tokens, num_heads, head_dim).
        let context_vec = matmul_batched(&attn_weights, &values);
        let context_vec = context_vec.permuted_axes([0, 2, 1, 3]);
        // Merge the last two dimensions, so that the features of all heads form the last dimension
        // of an array of shape (b, num_tokens, d_out). In the book, this step is
        // `.contiguous().view(...)`.
        let context_vec = context_vec.to_shape((b, num_tokens, d_out));
        let context_vec = context_vec.expect("num_heads * head_dim is d_out");
        Ok((self.out_proj.forward(&context_vec), attn_weights))
    }
}
