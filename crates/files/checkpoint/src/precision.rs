//! The number formats that weights have in files, and their conversion to and from f32.
//!
//! It does not compute in them: the model is f32 always. In what weights are kept to decode fast is
//! another type, `generate::Precision`, which has formats that transformers reads from no file.

use std::fmt;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use safetensors::Dtype;

/// The format of weights in a file.
///
/// ```
/// use checkpoint::Precision;
/// assert_eq!((Precision::Bf16.to_string(), Precision::Bf16.bytes()), ("bf16".to_owned(), 2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// 4 bytes, exact.
    #[default]
    F32,
    /// 2 bytes: 11 bits of precision, at most 65504.
    F16,
    /// 2 bytes: 8 bits of precision, the range of f32.
    Bf16,
}

impl Precision {
    /// Bytes per element.
    pub fn bytes(self) -> usize {
        self.dtype().bitsize() / 8
    }

    /// The type in a safetensors header.
    pub(crate) fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::BF16,
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

    /// Appends the elements' little-endian bytes, rounded to the nearest, ties to even.
    ///
    /// The error is the place of the first that is not finite when it is rounded.
    pub(crate) fn encode(self, values: &[f32], out: &mut Vec<u8>) -> Result<(), usize> {
        match self {
            Self::F32 => put(values, out, |x| x, f32::is_finite, f32::to_le_bytes),
            Self::F16 => put(values, out, f16::from_f32, f16::is_finite, f16::to_le_bytes),
            Self::Bf16 => put(
                values,
                out,
                bf16::from_f32,
                bf16::is_finite,
                bf16::to_le_bytes,
            ),
        }
    }
}

/// Appends the bytes of rounded numbers; the error is the place of one that is not finite then.
fn put<T: Copy, const N: usize>(
    values: &[f32],
    out: &mut Vec<u8>,
    round: impl Fn(f32) -> T,
    is_finite: impl Fn(T) -> bool,
    bytes: impl Fn(T) -> [u8; N],
) -> Result<(), usize> {
    for (place, &x) in values.iter().enumerate() {
        let rounded = round(x);
        if !is_finite(rounded) {
            return Err(place);
        }
        out.extend(bytes(rounded));
    }
    Ok(())
}

/// Converts a file's little-endian bytes of any weight type, as many elements as `out`; F64 is
/// rounded.
pub(crate) fn decode(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    fn each<const N: usize>(bytes: &[u8], out: &mut [f32], number: impl Fn([u8; N]) -> f32) {
        let elements = bytes.as_chunks::<N>().0;
        assert!(elements.len() == out.len(), "as many elements as places");
        for (bytes, out) in elements.iter().zip(out) {
            *out = number(*bytes);
        }
    }
    match dtype {
        Dtype::F64 => each(bytes, out, |bytes| f64::from_le_bytes(bytes) as f32),
        Dtype::F16 => {
            // All at once, with the processor's instruction for it.
            let halves = bytes.as_chunks::<2>().0.iter();
            let halves: Vec<f16> = halves.map(|bytes| f16::from_le_bytes(*bytes)).collect();
            halves.convert_to_f32_slice(out);
        }
        Dtype::BF16 => each(bytes, out, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        _ => each(bytes, out, f32::from_le_bytes),
    }
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
