//! Samples from uniform distributions: `torch.rand`, `Tensor.uniform_(low, high)` and
//! `torch.randint` (`aten/src/ATen/core/TransformationHelper.h`).
//!
//! A real number takes one draw. It is `u * (high - low) + low`, rounded once to `f32`, where `u`
//! is the draw modulo 2^24, divided by 2^24. An integer is `draw mod (high - low) + low`. As in
//! PyTorch, small integers are slightly more likely than large ones if the width of the range isn't
//! a power of two.

use crate::TorchRng;
use crate::mt19937::Mt19937;

impl TorchRng {
    /// Fills `out` with uniform samples between `low` and `high`, like `tensor.uniform_(low, high)`
    /// for a tensor whose elements are stored in row-major order. Each element takes one draw.
    ///
    /// As in PyTorch, a sample can be equal to `high`, because the result is rounded to `f32`.
    ///
    /// To initialize a layer in the same way as `nn.Linear(n_in, n_out)`, first fill its weight,
    /// which has the shape (`n_out`, `n_in`), and then its bias. The bounds for both are
    /// ±1/sqrt(`n_in`).
    pub fn fill_uniform(&mut self, out: &mut [f32], low: f32, high: f32) {
        let (width, low) = (f64::from(high - low), f64::from(low));
        // On ARM and on x86 with AVX2, PyTorch computes `u * (high - low) + low` with a fused
        // multiply-add, which rounds only once. Computing in `f64` produces the same result without
        // such an instruction. If the bounds have about the same magnitude, the product and the sum
        // are exact in `f64`, so the conversion to `f32` is the only operation that rounds.
        self.engine
            .fill(out, |draw| (f64::from(unit(draw)) * width + low) as f32);
    }

    /// Returns `n` samples in [0, 1), like `torch.rand(n)`.
    pub fn rand(&mut self, n: usize) -> Vec<f32> {
        let mut out = vec![0.0; n];
        fill_unit(&mut self.engine, &mut out);
        out
    }

    /// Returns an integer in `low..high`, like `torch.randint(low, high, ())`.
    ///
    /// This method takes one draw if the range contains fewer than 2^32 integers and two draws
    /// otherwise, as in PyTorch 2.4. Later PyTorch releases take two draws if the range contains at
    /// least 2^28 integers.
    ///
    /// # Panics
    ///
    /// Panics if `low >= high`.
    pub fn randint(&mut self, low: i64, high: i64) -> i64 {
        assert!(
            low < high,
            "randint: the range {low}..{high} is empty, so there is nothing to draw from"
        );
        // The number of integers in any range of `i64` fits in a `u64`, even if it doesn't fit in
        // an `i64`. The addition of `low` below may overflow and wrap around. The result is correct
        // nevertheless, because the exact sum is in the range and therefore fits in an `i64`.
        let width = high.wrapping_sub(low) as u64;
        let draw = if width < 1 << 32 {
            u64::from(self.engine.next_u32())
        } else {
            self.engine.next_u64()
        };
        low.wrapping_add((draw % width) as i64)
    }
}

/// Fills `out` with samples in [0, 1).
pub(crate) fn fill_unit(engine: &mut Mt19937, out: &mut [f32]) {
    engine.fill(out, unit);
}

/// Converts the low 24 bits of a draw to a number in [0, 1). The conversion is exact.
#[inline(always)]
pub(crate) fn unit(draw: u32) -> f32 {
    // Convert the 24-bit integer to `i32` before converting it to `f32`, because SSE2 can convert
    // only signed integers to `f32`.
    (draw & 0x00ff_ffff) as i32 as f32 * (1.0 / (1 << 24) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "the range 4..4 is empty")]
    fn an_empty_range_of_integers_panics() {
        TorchRng::manual_seed(0).randint(4, 4);
    }
}
