//! Self-attention with trainable weights, `softmax(Q K^T / sqrt(d_k)) V`, without a mask (book
//! section 3.4, exercise 3.1).
//!
//! Every token sees every token, so this is not yet fit for a language model.

use ndarray::{Array, Array2, ArrayRef, Dimension};
use tensor_ops::{Linear, matmul_batched, parameters};
use torch_rng::TorchRng;

use crate::AttentionError;
use crate::config::check_features;
use crate::scores::{dot_products, scaled_softmax};

/// The distribution that [`SelfAttentionV1`] draws its weights from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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

    /// (..., num_tokens, d_in) -> (..., num_tokens, d_out), a sequence or a batch of them.
    ///
    /// # Errors
    /// If the input does not have `d_in` features.
    ///
    /// # Panics
    /// If the input has one dimension.
    pub fn forward<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        check_features(x.shape(), self.w_query.nrows())?;
        let times = |weight: &Array2<f32>| {
            let mut shape = x.raw_dim();
            shape[x.ndim() - 2] = weight.nrows();
            shape[x.ndim() - 1] = weight.ncols();
            let weight = weight.broadcast(shape).expect("its own shape, repeated");
            matmul_batched(x, &weight) // (..., num_tokens, d_out)
        };
        let queries = times(&self.w_query);
        let keys = times(&self.w_key);
        let attn_scores = dot_products(&queries, &keys); // (..., num_tokens, num_tokens)
        let attn_weights = scaled_softmax(&attn_scores, self.w_key.ncols());
        Ok(matmul_batched(&attn_weights, &times(&self.w_value)))
    }
}

/// Exercise 3.1: takes over the weights of a [`SelfAttentionV2`], which holds them transposed; its
/// biases have no place here and must be absent.
impl TryFrom<&SelfAttentionV2> for SelfAttentionV1 {
    type Error = AttentionError;

    fn try_from(v2: &SelfAttentionV2) -> Result<Self, AttentionError> {
        let weight = |linear: &Linear| match linear.bias {
            None => Ok(linear.weight.t().to_owned()),
            Some(_) => Err(AttentionError::Biased),
        };
        Ok(Self {
            w_query: weight(&v2.w_query)?,
            w_key: weight(&v2.w_key)?,
            w_value: weight(&v2.w_value)?,
        })
    }
}

parameters!(SelfAttentionV1 { "W_query" w_query, "W_key" w_key, "W_value" w_value });

/// The book's `SelfAttention_v2`: the projections are [`Linear`] layers (listing 3.2).
///
/// ```
/// use attention::{SelfAttentionV2, torch_rng::TorchRng};
/// use ndarray::array;
///
/// let sa_v2 = SelfAttentionV2::new(3, 2, false, &mut TorchRng::manual_seed(789));
/// let context_vecs = sa_v2.forward(&array![[0.43, 0.15, 0.89], [0.55, 0.87, 0.66]])?;
/// assert_eq!(context_vecs.dim(), (2, 2)); // (num_tokens, d_out)
/// # Ok::<(), attention::AttentionError>(())
/// ```
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
    /// Draws query, key and value layers, in this order. The book has no bias, the course worksheet
    /// has one.
    pub fn new(d_in: usize, d_out: usize, qkv_bias: bool, rng: &mut TorchRng) -> Self {
        Self {
            w_query: Linear::new(d_in, d_out, qkv_bias, rng),
            w_key: Linear::new(d_in, d_out, qkv_bias, rng),
            w_value: Linear::new(d_in, d_out, qkv_bias, rng),
        }
    }

    /// (..., num_tokens, d_in) -> (..., num_tokens, d_out), a sequence or a batch of them
    /// (worksheet exercise 2).
    ///
    /// # Errors
    /// If the input does not have `d_in` features.
    ///
    /// # Panics
    /// If the input has one dimension.
    pub fn forward<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        check_features(x.shape(), self.w_query.in_features())?;
        let queries = self.w_query.forward(x); // (..., num_tokens, d_out)
        let keys = self.w_key.forward(x);
        let attn_scores = dot_products(&queries, &keys); // (..., num_tokens, num_tokens)
        let attn_weights = scaled_softmax(&attn_scores, self.w_key.out_features());
        Ok(matmul_batched(&attn_weights, &self.w_value.forward(x)))
    }
}

parameters!(SelfAttentionV2 { "W_query." w_query, "W_key." w_key, "W_value." w_value });
