//! The number formats in which matrix products multiply their operands, and functions that round
//! values to bf16.

use half::bf16;
use ndarray::{Array2, ArrayRef2};

use crate::Dtype;
use crate::weight::Weight;

/// Number formats in which a dense matrix product can multiply its operands. Regardless of the
/// format, the sums are computed in `float32`.
///
/// With [`Dtype::BFloat16`], both `f32` operands are rounded to bf16, as in a linear layer under
/// PyTorch's `torch.autocast("cpu", dtype=torch.bfloat16)`. The bits of the result depend on the
/// instruction set of the CPU, but not on the number of threads.
pub const OPERAND_DTYPES: &[Dtype] = &[Dtype::Float32, Dtype::BFloat16];

/// Returns whether the CPU can multiply bf16 values (AVX512-BF16 and AVX512-BW).
///
/// On a CPU that can't multiply bf16 values, a product in bfloat16 rounds its operands to bf16 and
/// then multiplies them as `f32` values, so it is no faster than a product in float32.
pub fn has_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512bw")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Rounds `x` to the nearest bf16 value and returns that value as an `f32`. Ties are rounded to
/// even.
///
/// Values beyond the range of bf16 become infinite, and NaN remains NaN.
pub fn round_to_bf16(x: f32) -> f32 {
    bf16::from_f32(x).to_f32()
}

/// Returns a copy of `matrix`, in the same memory order, whose elements are rounded to bf16 but
/// stored as `f32`. On a CPU that can't multiply bf16 values, products in bfloat16 multiply such
/// copies of their operands. Tests compare the bf16 kernels with products of such copies.
pub(crate) fn rounded<T: Weight>(matrix: &ArrayRef2<T>) -> Array2<f32> {
    matrix.map(|x| bf16::nearest(x.value()).value())
}
