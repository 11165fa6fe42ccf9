//! The precisions that a decoder keeps weights in, and the memory that they take.

use std::fmt;
use std::str::FromStr;

use gpt::GptConfig;
use kernels::{Bf16Matrix, F16Matrix, Int4Matrix, Int8Matrix};

use crate::GenerateError;

/// The precision in which a [`Decoder`](crate::Decoder) keeps its weights, token embeddings
/// included.
///
/// Those of files are another type, `checkpoint::Precision`: transformers reads no int8 or int4
/// there, a model read from f16 can be decoded in any of these, and this crate opens no files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Precision {
    /// The model's own numbers.
    #[default]
    F32,
    /// IEEE's half precision, 11 bits of mantissa: half the memory.
    F16,
    /// The upper half of each number's bits: half the memory.
    Bf16,
    /// Whole numbers from -127 to 127 with a scale a row: a quarter of the memory.
    Int8,
    /// Whole numbers from -8 to 7 with a scale for 32 of them, and embeddings in
    /// [`Int8`](Self::Int8): a seventh of the memory, and of a model whose head is tied less than a
    /// quarter.
    Int4,
}

impl Precision {
    /// Every precision, most exact first.
    pub const ALL: [Self; 5] = [Self::F32, Self::F16, Self::Bf16, Self::Int8, Self::Int4];

    /// Bytes of a decoder's weights in this precision, counted without reading any; the largest
    /// number if they can't be counted.
    ///
    /// ```
    /// use generate::Precision;
    /// let gpt2 = gpt::GptConfig { tied: true, qkv_bias: true, ..gpt::GptConfig::GPT2_124M };
    /// let megabytes = Precision::ALL.map(|precision| precision.weight_bytes(&gpt2) / 1_000_000);
    /// assert_eq!(megabytes[..4], [497, 250, 250, 127]);
    /// assert!(megabytes[4] < 497 / 4);
    /// ```
    pub fn weight_bytes(self, config: &GptConfig) -> usize {
        let vocabulary = (config.vocab_size, config.emb_dim);
        let embeddings = self.of_embeddings();
        let head = match config.tied && embeddings == self {
            true => 0,
            false => self.bytes_of(vocabulary),
        };
        // Position embeddings, norms and biases are not rounded.
        let all = config.size().map(|size| size.without_out_head());
        let others = (all.unwrap_or(usize::MAX).saturating_mul(4))
            .saturating_sub(Self::F32.bytes_of(vocabulary))
            .saturating_sub(Self::F32.bytes_of_blocks(config));
        [
            embeddings.bytes_of(vocabulary),
            head,
            self.bytes_of_blocks(config),
        ]
        .into_iter()
        .fold(others, usize::saturating_add)
    }

    /// Bytes of weights that one step reads: every weight of the blocks and of the head, once.
    pub fn step_bytes(self, config: &GptConfig) -> usize {
        let head = self.bytes_of((config.vocab_size, config.emb_dim));
        self.bytes_of_blocks(config).saturating_add(head)
    }

    /// Bytes of the matrices of all blocks.
    fn bytes_of_blocks(self, config: &GptConfig) -> usize {
        let (features, hidden) = (config.emb_dim, config.feed_forward_dim());
        [
            (features.saturating_mul(3), features),
            (features, features),
            (hidden, features),
            (features, hidden),
        ]
        .into_iter()
        .map(|shape| self.bytes_of(shape))
        .fold(0, usize::saturating_add)
        .saturating_mul(config.n_layers)
    }

    /// Bytes of a matrix (rows, columns).
    fn bytes_of(self, (rows, columns): (usize, usize)) -> usize {
        match self {
            Self::F32 => rows.saturating_mul(columns).saturating_mul(4),
            Self::F16 => F16Matrix::bytes_of((rows, columns)),
            Self::Bf16 => Bf16Matrix::bytes_of((rows, columns)),
            Self::Int8 => Int8Matrix::bytes_of((rows, columns)),
            Self::Int4 => Int4Matrix::bytes_of((rows, columns)),
        }
    }

    /// The precision of the token embeddings. 4 bits would distinguish too few tokens.
    pub(crate) fn of_embeddings(self) -> Self {
        match self {
            Self::Int4 => Self::Int8,
            other => other,
        }
    }

    /// As it is displayed and read.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precision {
    type Err = GenerateError;

    fn from_str(name: &str) -> Result<Self, GenerateError> {
        Self::ALL
            .into_iter()
            .find(|precision| precision.name() == name)
            .ok_or_else(|| GenerateError::UnknownPrecision {
                name: name.into(),
                known: Self::ALL.map(Self::name).join(", "),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_is_read_back_from_its_name() {
        for precision in Precision::ALL {
            assert_eq!(precision.to_string().parse(), Ok(precision));
        }
        let error = "f64".parse::<Precision>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown precision \"f64\" (known: f32, f16, bf16, int8, int4)"
        );
    }
}
