//! Calculation of the memory that a decoder needs for its weights in each number format.

use gpt::GptConfig;
use kernels::{Bf16Matrix, Dtype, F16Matrix, Int4Matrix, Int8Matrix};

/// Returns the number of bytes that a decoder needs for the weights of a model with the
/// configuration `config`, if its matrices are stored in the number format `dtype`. Returns
/// `usize::MAX` if the result doesn't fit in `usize`.
///
/// ```
/// use generate::{Dtype, weight_bytes};
/// let gpt2 = gpt::GptConfig { tied: true, qkv_bias: true, ..gpt::GptConfig::GPT2_124M };
/// let megabytes: Vec<usize> =
///     Dtype::ALL.iter().map(|&dtype| weight_bytes(dtype, &gpt2) / 1_000_000).collect();
/// assert_eq!(megabytes[..4], [497, 250, 250, 127]);
/// assert!(megabytes[4] < 497 / 4);
/// ```
pub fn weight_bytes(dtype: Dtype, config: &GptConfig) -> usize {
    let vocabulary = (config.vocab_size, config.emb_dim);
    let embeddings = of_embeddings(dtype);
    let head = match config.tied && embeddings == dtype {
        true => 0,
        false => bytes_of(dtype, vocabulary),
    };
    // Add the memory for the position embeddings, the layer normalizations and the biases, which
    // are stored in f32, whatever the number format of the matrices is.
    let all = config.size().map(|size| size.without_out_head());
    let others = (all.unwrap_or(usize::MAX).saturating_mul(4))
        .saturating_sub(bytes_of(Dtype::Float32, vocabulary))
        .saturating_sub(bytes_of_blocks(Dtype::Float32, config));
    [
        bytes_of(embeddings, vocabulary),
        head,
        bytes_of_blocks(dtype, config),
    ]
    .into_iter()
    .fold(others, usize::saturating_add)
}

/// Returns the number of bytes of weights that a decoding step reads. Each step reads the matrices
/// of all blocks and the matrix of the output head once. Returns `usize::MAX` if the result doesn't
/// fit in `usize`.
pub fn step_bytes(dtype: Dtype, config: &GptConfig) -> usize {
    let head = bytes_of(dtype, (config.vocab_size, config.emb_dim));
    bytes_of_blocks(dtype, config).saturating_add(head)
}

/// Returns the number of bytes that the matrices of all blocks need in the number format `dtype`.
fn bytes_of_blocks(dtype: Dtype, config: &GptConfig) -> usize {
    let (features, hidden) = (config.emb_dim, config.feed_forward_dim());
    [
        (features.saturating_mul(3), features),
        (features, features),
        (hidden, features),
        (features, hidden),
    ]
    .into_iter()
    .map(|shape| bytes_of(dtype, shape))
    .fold(0, usize::saturating_add)
    .saturating_mul(config.n_layers)
}

/// Returns the number of bytes that a matrix of shape (rows, columns) needs in the number format
/// `dtype`.
fn bytes_of(dtype: Dtype, (rows, columns): (usize, usize)) -> usize {
    match dtype {
        Dtype::Float32 => rows.saturating_mul(columns).saturating_mul(4),
        Dtype::Float16 => F16Matrix::bytes_of((rows, columns)),
        Dtype::BFloat16 => Bf16Matrix::bytes_of((rows, columns)),
        Dtype::Int8 => Int8Matrix::bytes_of((rows, columns)),
        Dtype::Int4 => Int4Matrix::bytes_of((rows, columns)),
    }
}

/// Returns the number format of the token embeddings of a model whose other matrices are stored in
/// the number format `dtype`. If `dtype` is int4, the embeddings are stored in int8, because 4 bits
/// aren't enough to distinguish the tokens.
pub(crate) fn of_embeddings(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::Int4 => Dtype::Int8,
        other => other,
    }
}
