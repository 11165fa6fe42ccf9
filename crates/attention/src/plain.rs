//! Listing 3.5, `MultiHeadAttention`, line by line as the book has it: every head's scores, mask,
//! weights and dropout as whole arrays.
//!
//! `forward` in `multi_head.rs` gives the same numbers and stores no weights (`tests/plain.rs`
//! shows that both agree); the backward pass is there too.

use ndarray::{Array3, Array4, ArrayRef3};
use tensor_ops::{Dropout, Linear, matmul_batched};
use torch_rng::TorchRng;

use crate::scores::{mask_future, scaled_softmax};
use crate::{AttentionConfig, AttentionError};

/// The book's `MultiHeadAttention`; also its gradient.
///
/// [`forward_plain`](Self::forward_plain) is the listing line by line; [`forward`](Self::forward)
/// computes the same by blocks of queries.
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
    /// d_in -> d_out
    pub w_query: Linear,
    /// d_in -> d_out
    pub w_key: Linear,
    /// d_in -> d_out
    pub w_value: Linear,
    /// d_out -> d_out, with a bias: combines the heads' outputs
    pub out_proj: Linear,
    /// On the attention weights, in training only.
    pub dropout: Dropout,
    /// The configuration it was built from. New weights must have the shapes of this configuration.
    pub(crate) config: AttentionConfig,
}

impl MultiHeadAttention {
    /// Draws query, key, value and output layers, in this order.
    ///
    /// # Errors
    /// If a size is 0, `num_heads` does not divide `d_out`, or the dropout rate is not within
    /// [0, 1].
    pub fn new(config: AttentionConfig, rng: &mut TorchRng) -> Result<Self, AttentionError> {
        config.check_heads()?;
        let (d_in, d_out, qkv_bias) = (config.d_in, config.d_out, config.qkv_bias);
        Ok(Self {
            w_query: Linear::new(d_in, d_out, qkv_bias, rng),
            w_key: Linear::new(d_in, d_out, qkv_bias, rng),
            w_value: Linear::new(d_in, d_out, qkv_bias, rng),
            out_proj: Linear::new(d_out, d_out, true, rng), // to combine head outputs
            dropout: Dropout { p: config.dropout },
            config,
        })
    }

    /// (batch, num_tokens, d_in) -> (batch, num_tokens, d_out), and the attention weights (batch,
    /// num_heads, num_tokens, num_tokens), after dropout.
    ///
    /// With a generator it is in training and drops weights, without it is in evaluation.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
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

        let keys = self.w_key.forward(x); // (b, num_tokens, d_out)
        let queries = self.w_query.forward(x);
        let values = self.w_value.forward(x);

        // Split the last dimension: (b, num_tokens, d_out) -> (b, num_tokens, num_heads, head_dim),
        // and transpose it: -> (b, num_heads, num_tokens, head_dim)
        let split = |x: Array3<f32>| {
            let x = x.into_shape_with_order((b, num_tokens, num_heads, head_dim));
            let x = x.expect("num_heads * head_dim is d_out");
            x.permuted_axes([0, 2, 1, 3])
        };
        let (keys, queries, values) = (split(keys), split(queries), split(values));

        // queries @ keys.transpose(2, 3): (b, num_heads, num_tokens, num_tokens)
        let attn_scores = matmul_batched(&queries, &keys.permuted_axes([0, 1, 3, 2]));
        let attn_scores = mask_future(&attn_scores);
        let attn_weights = scaled_softmax(&attn_scores, head_dim);
        let attn_weights = self.dropout.forward(attn_weights, training);

        // (b, num_heads, num_tokens, head_dim) -> (b, num_tokens, num_heads, head_dim)
        let context_vec = matmul_batched(&attn_weights, &values);
        let context_vec = context_vec.permuted_axes([0, 2, 1, 3]);
        // Combine the heads: self.d_out = self.num_heads * self.head_dim
        let context_vec = context_vec.to_shape((b, num_tokens, d_out)); // .contiguous().view(..)
        let context_vec = context_vec.expect("num_heads * head_dim is d_out");
        Ok((self.out_proj.forward(&context_vec), attn_weights))
    }
}
