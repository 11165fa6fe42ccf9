//! The precision of the operands of dense products: f32, or bf16 with sums in f32.

use std::cell::Cell;

use half::bf16;
use ndarray::{Array2, ArrayRef2};

use crate::weight::Weight;

/// The numbers that a dense product multiplies; its sums are f32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operands {
    /// Both operands as they are.
    #[default]
    F32,
    /// Both operands rounded to bf16, ties to even, while they are packed.
    ///
    /// AVX512-BF16 multiplies twice as many of them at once, AMX sixteen times as many. Both add
    /// the products of two neighbours, AMX in sums of 32 numbers, and treat numbers below 2^-126 as
    /// 0. Other processors multiply the rounded operands in f32. So the last bits of results differ
    /// between processors; they don't depend on the number of threads.
    Bf16,
}

thread_local! {
    static OPERANDS: Cell<Operands> = const { Cell::new(Operands::F32) };
}

/// Runs `f`, whose dense products on all threads use these operands, like the linear layers under
/// `torch.autocast("cpu", dtype=torch.bfloat16)`.
///
/// It applies to products that `f` calls on this thread, and inside [`awake`](crate::awake).
/// Products with [`Threads::One`](crate::gemm::Threads::One), such as in attention, stay in f32.
pub fn autocast<R>(operands: Operands, f: impl FnOnce() -> R) -> R {
    struct Restore(Operands);
    impl Drop for Restore {
        fn drop(&mut self) {
            OPERANDS.set(self.0);
        }
    }
    let _restore = Restore(OPERANDS.replace(operands));
    f()
}

/// The operands of this thread's products.
pub fn operands() -> Operands {
    OPERANDS.get()
}

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

/// Returns the matrix rounded to bf16, in f32 and in the same order: the plain form of packing
/// pairs.
pub(crate) fn rounded<T: Weight>(matrix: &ArrayRef2<T>) -> Array2<f32> {
    matrix.map(|x| bf16::nearest(x.value()).value())
}
