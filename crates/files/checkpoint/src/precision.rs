//! The three number formats that weights have in files, and their conversion to and from f32.
//!
//! It does not compute in f16 or bf16: the model is f32 always.

use std::fmt;
use std::str::FromStr;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use thiserror::Error;

/// How weights are written in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 4 bytes, exact.
    #[default]
    F32,
    /// 2 bytes: 11 bits of precision, at most 65504.
    F16,
    /// 2 bytes: 8 bits of precision, the range of f32.
    Bf16,
}

/// A word that is none of the precisions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("precision must be f32, f16 or bf16, but is {0:?}")]
pub struct UnknownPrecision(String);

impl Precision {
    /// Bytes per element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// The word in a safetensors header.
    pub(crate) fn dtype(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
        }
    }

    /// The word in Hugging Face's config.json.
    pub(crate) fn torch_dtype(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
        }
    }

    /// Converts a file's little-endian bytes: `bytes` is as many elements as `out`.
    pub(crate) fn decode(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Self::F32 => {
                for (bytes, out) in bytes.as_chunks::<4>().0.iter().zip(out) {
                    *out = f32::from_le_bytes(*bytes);
                }
            }
            Self::F16 => with_halves(bytes, |halves: &[f16]| halves.convert_to_f32_slice(out)),
            Self::Bf16 => {
                // The upper half of an f32's bits.
                for (bytes, out) in bytes.as_chunks::<2>().0.iter().zip(out) {
                    *out = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
                }
            }
        }
    }

    /// Whether a number is finite when it is rounded to this precision.
    pub(crate) fn holds(self, value: f32) -> bool {
        match self {
            Self::F32 => value.is_finite(),
            Self::F16 => f16::from_f32(value).is_finite(),
            Self::Bf16 => bf16::from_f32(value).is_finite(),
        }
    }

    /// Appends the elements' little-endian bytes, rounded to the nearest, ties to even.
    pub(crate) fn encode(self, values: &[f32], out: &mut Vec<u8>) {
        match self {
            Self::F32 => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
            Self::F16 => out.extend(values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes())),
            Self::Bf16 => out.extend(values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes())),
        }
    }
}

/// The file's bytes as numbers of this machine's byte order.
fn with_halves(bytes: &[u8], convert: impl FnOnce(&[f16])) {
    let halves: Vec<f16> = bytes
        .as_chunks::<2>()
        .0
        .iter()
        .map(|bytes| f16::from_le_bytes(*bytes))
        .collect();
    convert(&halves);
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        })
    }
}

impl FromStr for Precision {
    type Err = UnknownPrecision;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            "bf16" => Ok(Self::Bf16),
            _ => Err(UnknownPrecision(word.chars().take(80).collect())),
        }
    }
}
