//! Products whose operands are rounded to bf16.

use half::bf16;
use ndarray::{Array2, ArrayRef2};

use crate::Dtype;
use crate::weight::Weight;

/// The formats that the operands of a dense product may have. Sums are f32 in any case.
///
/// In bfloat16 the operands are f32 rounded to bf16, as in linear layers under PyTorch's
/// `torch.autocast("cpu", dtype=torch.bfloat16)`. The bits of a product depend on the processor's
/// instructions, but not on the number of threads.
pub const OPERAND_DTYPES: &[Dtype] = &[Dtype::Float32, Dtype::BFloat16];

/// True if the processor multiplies bf16 numbers. Other processors multiply the rounded operands in
/// f32, without any gain in speed.
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

/// Returns the bfloat16 nearest to a number, ties to even, as f32.
pub fn round_to_bf16(x: f32) -> f32 {
    bf16::from_f32(x).to_f32()
}

/// Returns the matrix rounded to bf16, in f32 and in the same order: the plain form of packing
/// pairs.
pub(crate) fn rounded<T: Weight>(matrix: &ArrayRef2<T>) -> Array2<f32> {
    matrix.map(|x| bf16::nearest(x.value()).value())
}
