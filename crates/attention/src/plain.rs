//! Listing 3.5's `forward`, line by line as the book has it: every head's scores, mask, weights and dropout as whole arrays.
//!
//! `MultiHeadAttention::forward` gives the same numbers from `blockwise.rs`, which stores no weights; `tests/plain.rs` shows that both agree.

use ndarray::{Array3, Array4, ArrayRef3};
use tensor_ops::matmul_batched;
use torch_rng::TorchRng;

use crate::scores::{mask_future, scaled_softmax};
use crate::{AttentionError, MultiHeadAttention};

impl MultiHeadAttention {
    /// (batch, num_tokens, d_in) -> (batch, num_tokens, d_out), and the attention weights (batch, num_heads, num_tokens, num_tokens), after dropout.
    ///
    /// With a generator it is in training and drops weights, without it is in evaluation.
    /// This is the listing to read; [`forward`](Self::forward) and [`forward_train`](Self::forward_train) are the fast forms to use.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    pub fn forward_plain(
        &self,
        x: &ArrayRef3<f32>,
        training: Option<&mut TorchRng>,
    ) -> Result<(Array3<f32>, Array4<f32>), AttentionError> {
        self.config().check_input(x.shape())?;
        let (b, num_tokens, _d_in) = x.dim();
        let (num_heads, d_out) = (self.config().num_heads, self.config().d_out);
        let head_dim = d_out / num_heads;

        let keys = self.w_key.forward(x); // (b, num_tokens, d_out)
        let mut queries = self.w_query.forward(x);
        self.scale_queries(&mut queries);
        let values = self.w_value.forward(x);

        // Split the last dimension: (b, num_tokens, d_out) -> (b, num_tokens, num_heads, head_dim),
        // and transpose it: -> (b, num_heads, num_tokens, head_dim)
        let split = |x: Array3<f32>| {
            let x = x.into_shape_with_order((b, num_tokens, num_heads, head_dim));
            let x = x.expect("num_heads * head_dim is d_out");
            x.permuted_axes([0, 2, 1, 3])
        };
        let (keys, queries, values) = (split(keys), split(queries), split(values));

        // queries @ keys.transpose(2, 3)
        let attn_scores = matmul_batched(&queries, &keys.permuted_axes([0, 1, 3, 2])); // (b, num_heads, num_tokens, num_tokens)
        let attn_scores = mask_future(&attn_scores);
        let mut attn_weights = scaled_softmax(&attn_scores, head_dim);
        if let Some(rng) = training {
            attn_weights = self.dropout.forward_train(attn_weights, rng).0;
        }

        let context_vec = matmul_batched(&attn_weights, &values); // (b, num_heads, num_tokens, head_dim)
        let context_vec = context_vec.permuted_axes([0, 2, 1, 3]); // (b, num_tokens, num_heads, head_dim)
        let context_vec = context_vec.to_shape((b, num_tokens, d_out)); // .contiguous().view(b, num_tokens, d_out)
        let context_vec = context_vec.expect("num_heads * head_dim is d_out");
        Ok((self.out_proj.forward(&context_vec), attn_weights))
    }

    /// The attention weights (batch, num_heads, num_tokens, num_tokens) of [`forward_plain`](Self::forward_plain) in evaluation: each row sums to 1 and is 0 above the diagonal.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    pub fn attention_weights(&self, x: &ArrayRef3<f32>) -> Result<Array4<f32>, AttentionError> {
        Ok(self.forward_plain(x, None)?.1)
    }
}
