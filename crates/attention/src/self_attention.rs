//! Self-attention with trainable weights, `softmax(Q K^T / sqrt(d_k)) V` (book section 3.4 and
//! exercise 3.1).
//!
//! The modules in this file have no causal mask, so each token attends to all tokens of the
//! sequence, including the tokens after it. They are therefore unsuitable for a language model,
//! which has to predict each token from the tokens before it.

use ndarray::{Array, Array2, ArrayRef, Dimension};
use tensor_ops::{Linear, matmul_batched, parameters};
use torch_rng::TorchRng;

use crate::AttentionError;
use crate::config::check_features;
use crate::scores::{dot_products, scaled_softmax};

/// The distribution from which the weights of a [`SelfAttentionV1`] are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WeightInit {
    /// The uniform distribution in [0, 1), from which `torch.rand` draws. The book initializes the
    /// weights of `SelfAttention_v1` from this distribution.
    Rand,
    /// The standard normal distribution, from which `torch.randn` draws. The course worksheet (a
    /// notebook with exercises) and the book's solutions to its own exercises initialize weights
    /// from this distribution.
    Randn,
}

/// A self-attention module whose weights are plain matrices. It corresponds to the class
/// `SelfAttention_v1` of the book (listing 3.1).
#[derive(Clone, Debug, PartialEq)]
pub struct SelfAttentionV1 {
    /// Weight matrix for the queries, with the shape `(d_in, d_out)`.
    pub w_query: Array2<f32>,
    /// Weight matrix for the keys, with the shape `(d_in, d_out)`.
    pub w_key: Array2<f32>,
    /// Weight matrix for the values, with the shape `(d_in, d_out)`.
    pub w_value: Array2<f32>,
}

impl SelfAttentionV1 {
    /// Creates a module with random weights. As in the book, the matrix for the queries is drawn
    /// first, then the matrix for the keys, and then the matrix for the values.
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

    /// Computes the context vectors of a sequence or of a batch of sequences.
    ///
    /// The input has the shape `(..., num_tokens, d_in)`, and the output has the shape
    /// `(..., num_tokens, d_out)`.
    ///
    /// # Errors
    ///
    /// Returns [`AttentionError::Features`] if the last dimension of `x` isn't `d_in`.
    ///
    /// # Panics
    ///
    /// Panics if `x` has fewer than two dimensions, or if the shapes of the three weight matrices
    /// are incompatible.
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
            matmul_batched(x, &weight) // shape: (..., num_tokens, d_out)
        };
        let queries = times(&self.w_query);
        let keys = times(&self.w_key);
        let attn_scores = dot_products(&queries, &keys); // shape: (..., num_tokens, num_tokens)
        let attn_weights = scaled_softmax(&attn_scores, self.w_key.ncols());
        Ok(matmul_batched(&attn_weights, &times(&self.w_value)))
    }
}

/// Creates a module with the weights of a [`SelfAttentionV2`], as in exercise 3.1 of the book. The
/// weight matrices are transposed because a [`Linear`] layer stores its weights in the shape
/// `(d_out, d_in)`.
///
/// The conversion returns [`AttentionError::Biased`] if a layer has a bias, because
/// [`SelfAttentionV1`] doesn't support biases.
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

/// A self-attention module that computes queries, keys and values with [`Linear`] layers. It
/// corresponds to the class `SelfAttention_v2` of the book (listing 3.2).
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
    /// Layer that computes the queries, with `d_in` inputs and `d_out` outputs.
    pub w_query: Linear,
    /// Layer that computes the keys, with `d_in` inputs and `d_out` outputs.
    pub w_key: Linear,
    /// Layer that computes the values, with `d_in` inputs and `d_out` outputs.
    pub w_value: Linear,
}

impl SelfAttentionV2 {
    /// Creates a module with random weights. As in the book, random numbers are drawn first for the
    /// query layer, then for the key layer, and then for the value layer.
    ///
    /// If `qkv_bias` is true, each of the three layers has a bias. The modules in the book have no
    /// biases, but those in the course worksheet do.
    pub fn new(d_in: usize, d_out: usize, qkv_bias: bool, rng: &mut TorchRng) -> Self {
        Self {
            w_query: Linear::new(d_in, d_out, qkv_bias, rng),
            w_key: Linear::new(d_in, d_out, qkv_bias, rng),
            w_value: Linear::new(d_in, d_out, qkv_bias, rng),
        }
    }

    /// Computes the context vectors of a sequence or of a batch of sequences. The book uses this
    /// module only for single sequences. Batches are needed for exercise 3 of the course worksheet.
    ///
    /// The input has the shape `(..., num_tokens, d_in)`, and the output has the shape
    /// `(..., num_tokens, d_out)`.
    ///
    /// # Errors
    ///
    /// Returns [`AttentionError::Features`] if the last dimension of `x` isn't `d_in`.
    ///
    /// # Panics
    ///
    /// Panics if `x` has fewer than two dimensions, or if the shapes of the three layers are
    /// incompatible.
    pub fn forward<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        check_features(x.shape(), self.w_query.in_features())?;
        let queries = self.w_query.forward(x); // shape: (..., num_tokens, d_out)
        let keys = self.w_key.forward(x);
        let attn_scores = dot_products(&queries, &keys); // shape: (..., num_tokens, num_tokens)
        let attn_weights = scaled_softmax(&attn_scores, self.w_key.out_features());
        Ok(matmul_batched(&attn_weights, &self.w_value.forward(x)))
    }
}

parameters!(SelfAttentionV2 { "W_query." w_query, "W_key." w_key, "W_value." w_value });
