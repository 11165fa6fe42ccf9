//! Converts weights between `f32`, which is the type of all weights in memory, and the number
//! formats in which files can store them.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use safetensors::Dtype as FileDtype;
use tensor_ops::Dtype;

/// The number formats in which weights can be saved. transformers can load weights in each of these
/// formats.
pub const FILE_DTYPES: &[Dtype] = &[Dtype::Float32, Dtype::Float16, Dtype::BFloat16];

/// Returns the type that represents `dtype` in the header of a safetensors file. `dtype` must be
/// one of [`FILE_DTYPES`].
pub(crate) fn in_file(dtype: Dtype) -> FileDtype {
    match dtype {
        Dtype::Float16 => FileDtype::F16,
        Dtype::BFloat16 => FileDtype::BF16,
        _ => FileDtype::F32,
    }
}

/// Rounds numbers to the format `dtype`, which must be one of [`FILE_DTYPES`], and appends their
/// little-endian bytes to `out`. Numbers are rounded to nearest, ties to even.
///
/// # Errors
///
/// If a number isn't finite after rounding, because it was infinite or NaN or is too large for the
/// format, returns the index of the first such number as the error.
pub(crate) fn encode(dtype: Dtype, values: &[f32], out: &mut Vec<u8>) -> Result<(), usize> {
    match dtype {
        Dtype::Float16 => put(values, out, f16::from_f32, f16::is_finite, f16::to_le_bytes),
        Dtype::BFloat16 => put(
            values,
            out,
            bf16::from_f32,
            bf16::is_finite,
            bf16::to_le_bytes,
        ),
        _ => put(values, out, |x| x, f32::is_finite, f32::to_le_bytes),
    }
}

/// Implements [`encode`] for one number format, which is defined by the functions `round`,
/// `is_finite` and `bytes`.
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

/// Converts the little-endian bytes of numbers in the format `dtype` to `f32`. The format can be
/// F64, F32, F16 or BF16. F64 numbers are rounded.
///
/// # Panics
///
/// Panics if the number of elements in `bytes` differs from the length of `out`.
pub(crate) fn decode(dtype: FileDtype, bytes: &[u8], out: &mut [f32]) {
    fn each<const N: usize>(bytes: &[u8], out: &mut [f32], number: impl Fn([u8; N]) -> f32) {
        let elements = bytes.as_chunks::<N>().0;
        assert!(elements.len() == out.len(), "as many elements as places");
        for (bytes, out) in elements.iter().zip(out) {
            *out = number(*bytes);
        }
    }
    match dtype {
        FileDtype::F64 => each(bytes, out, |bytes| f64::from_le_bytes(bytes) as f32),
        FileDtype::F16 => {
            // The numbers are first collected in a vector. The crate `half` can then convert the
            // whole slice at once with the CPU's conversion instructions, which is faster.
            let halves = bytes.as_chunks::<2>().0.iter();
            let halves: Vec<f16> = halves.map(|bytes| f16::from_le_bytes(*bytes)).collect();
            halves.convert_to_f32_slice(out);
        }
        FileDtype::BF16 => each(bytes, out, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        _ => each(bytes, out, f32::from_le_bytes),
    }
}
