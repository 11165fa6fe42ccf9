//! Self-attention with trainable weights, `softmax(Q K^T / sqrt(d_k)) V`, without a mask (book section 3.4, exercise 3.1).
//!
//! Every token sees every token, so this is not yet fit for a language model.

use ndarray::{
    Array, Array2, Array3, ArrayRef, ArrayRef2, ArrayRef3, ArrayViewD, ArrayViewMutD, Dimension,
};
use tensor_ops::{Linear, Parameters, matmul, matmul_batched};
use torch_rng::TorchRng;

use crate::AttentionError;
use crate::config::check_features;
use crate::scores::scaled_softmax;

/// How [`SelfAttentionV1`] draws its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightInit {
    /// `torch.rand`, uniform in [0, 1): the book.
    Rand,
    /// `torch.randn`, standard normal: the exercise solutions and the course worksheet.
    Randn,
}

/// The book's `SelfAttention_v1`: weights as bare matrices (listing 3.1).
#[derive(Clone, Debug, PartialEq)]
pub struct SelfAttentionV1 {
    /// (d_in, d_out)
    pub w_query: Array2<f32>,
    /// (d_in, d_out)
    pub w_key: Array2<f32>,
    /// (d_in, d_out)
    pub w_value: Array2<f32>,
}

impl SelfAttentionV1 {
    /// Draws query, key and value weights, in this order.
    pub fn new(d_in: usize, d_out: usize, init: WeightInit, rng: &mut TorchRng) -> Self {
        let mut draw = || {
            let values = match init {
                WeightInit::Rand => rng.rand(d_in * d_out),
                WeightInit::Randn => rng.randn(d_in * d_out),
            };
            Array2::from_shape_vec((d_in, d_out), values).expect("d_in * d_out values")
        };
        Self {
            w_query: draw(),
            w_key: draw(),
            w_value: draw(),
        }
    }

    /// Exercise 3.1: takes over the weights of a [`SelfAttentionV2`], which holds them transposed; its biases have no place here and must be absent.
    ///
    /// Returns `None` if there are biases.
    pub fn from_v2(v2: &SelfAttentionV2) -> Option<Self> {
        let weight = |linear: &Linear| match linear.bias {
            None => Some(linear.weight.t().to_owned()),
            Some(_) => None,
        };
        Some(Self {
            w_query: weight(&v2.w_query)?,
            w_key: weight(&v2.w_key)?,
            w_value: weight(&v2.w_value)?,
        })
    }

    /// (num_tokens, d_in) -> (num_tokens, d_out)
    ///
    /// # Errors
    /// If the input does not have `d_in` features.
    pub fn forward(&self, x: &ArrayRef2<f32>) -> Result<Array2<f32>, AttentionError> {
        Ok(self.forward_with_weights(x)?.0)
    }

    /// As [`forward`](Self::forward), with the attention weights (num_tokens, num_tokens) that it used.
    ///
    /// # Errors
    /// If the input does not have `d_in` features.
    pub fn forward_with_weights(
        &self,
        x: &ArrayRef2<f32>,
    ) -> Result<(Array2<f32>, Array2<f32>), AttentionError> {
        check_features(x.shape(), self.w_query.nrows())?;
        let queries = matmul(x, &self.w_query); // (num_tokens, d_out)
        let keys = matmul(x, &self.w_key);
        let values = matmul(x, &self.w_value);
        let attn_weights = scaled_softmax(&matmul(&queries, &keys.t()), keys.ncols());
        Ok((matmul(&attn_weights, &values), attn_weights))
    }
}

impl Parameters for SelfAttentionV1 {
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>)) {
        visit(format!("{prefix}W_query"), self.w_query.view().into_dyn());
        visit(format!("{prefix}W_key"), self.w_key.view().into_dyn());
        visit(format!("{prefix}W_value"), self.w_value.view().into_dyn());
    }

    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    ) {
        visit(
            format!("{prefix}W_query"),
            self.w_query.view_mut().into_dyn(),
        );
        visit(format!("{prefix}W_key"), self.w_key.view_mut().into_dyn());
        visit(
            format!("{prefix}W_value"),
            self.w_value.view_mut().into_dyn(),
        );
    }
}

/// The book's `SelfAttention_v2`: the projections are [`Linear`] layers (listing 3.2).
#[derive(Clone, Debug, PartialEq)]
pub struct SelfAttentionV2 {
    /// d_in -> d_out
    pub w_query: Linear,
    /// d_in -> d_out
    pub w_key: Linear,
    /// d_in -> d_out
    pub w_value: Linear,
}

impl SelfAttentionV2 {
    /// Draws query, key and value layers, in this order. The book has no bias, the course worksheet has one.
    pub fn new(d_in: usize, d_out: usize, qkv_bias: bool, rng: &mut TorchRng) -> Self {
        Self {
            w_query: Linear::new(d_in, d_out, qkv_bias, rng),
            w_key: Linear::new(d_in, d_out, qkv_bias, rng),
            w_value: Linear::new(d_in, d_out, qkv_bias, rng),
        }
    }

    /// (num_tokens, d_in) -> (num_tokens, d_out)
    ///
    /// # Errors
    /// If the input does not have `d_in` features.
    pub fn forward(&self, x: &ArrayRef2<f32>) -> Result<Array2<f32>, AttentionError> {
        Ok(self.forward_with_weights(x)?.0)
    }

    /// As [`forward`](Self::forward), with the attention weights (num_tokens, num_tokens) that it used.
    ///
    /// # Errors
    /// If the input does not have `d_in` features.
    pub fn forward_with_weights(
        &self,
        x: &ArrayRef2<f32>,
    ) -> Result<(Array2<f32>, Array2<f32>), AttentionError> {
        let (queries, keys, values) = self.project(x)?; // (num_tokens, d_out) each
        let attn_weights = scaled_softmax(&matmul(&queries, &keys.t()), keys.ncols());
        Ok((matmul(&attn_weights, &values), attn_weights))
    }

    /// (batch, num_tokens, d_in) -> (batch, num_tokens, d_out): worksheet exercise 2.
    ///
    /// # Errors
    /// If the input does not have `d_in` features.
    pub fn forward_batch(&self, x: &ArrayRef3<f32>) -> Result<Array3<f32>, AttentionError> {
        let (queries, keys, values) = self.project(x)?; // (batch, num_tokens, d_out) each
        let scores = matmul_batched(&queries, &keys.view().permuted_axes([0, 2, 1])); // (batch, num_tokens, num_tokens)
        let attn_weights = scaled_softmax(&scores, self.w_key.out_features());
        Ok(matmul_batched(&attn_weights, &values))
    }

    /// Queries, keys and values.
    #[expect(clippy::type_complexity, reason = "three arrays of the input's rank")]
    fn project<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<(Array<f32, D>, Array<f32, D>, Array<f32, D>), AttentionError> {
        check_features(x.shape(), self.w_query.in_features())?;
        Ok((
            self.w_query.forward(x),
            self.w_key.forward(x),
            self.w_value.forward(x),
        ))
    }
}

impl Parameters for SelfAttentionV2 {
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>)) {
        self.w_query.visit(&format!("{prefix}W_query."), visit);
        self.w_key.visit(&format!("{prefix}W_key."), visit);
        self.w_value.visit(&format!("{prefix}W_value."), visit);
    }

    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    ) {
        self.w_query.visit_mut(&format!("{prefix}W_query."), visit);
        self.w_key.visit_mut(&format!("{prefix}W_key."), visit);
        self.w_value.visit_mut(&format!("{prefix}W_value."), visit);
    }
}
