//! Uniform numbers: `torch.rand`, `Tensor.uniform_(low, high)`, `torch.randint`.
//!
//! f32: `u = (draw mod 2^24) / 2^24`, then `u * (high - low) + low` rounded once; one draw an
//! element.
//! Integers: `draw mod (high - low) + low`, with PyTorch's slight bias.

use crate::TorchRng;
use crate::mt19937::Mt19937;

impl TorchRng {
    /// `tensor.uniform_(low, high)` over the elements in row-major order: uniform in [low, high),
    /// one draw each.
    ///
    /// `nn.Linear(in, out)` fills its weight (out, in), then its bias (out), with bounds of
    /// ±1/sqrt(in).
    pub fn fill_uniform(&mut self, out: &mut [f32], low: f32, high: f32) {
        let (width, low) = (f64::from(high - low), f64::from(low));
        // PyTorch's compilers fuse the product and the sum into one rounding, on AVX2 and on ARM;
        // in f64 neither rounds, for bounds of one magnitude, and this needs no such instruction.
        self.engine
            .fill(out, |draw| (f64::from(unit(draw)) * width + low) as f32);
    }

    /// `torch.rand(n)`: n numbers uniform in [0, 1).
    pub fn rand(&mut self, n: usize) -> Vec<f32> {
        let mut out = vec![0.0; n];
        fill_unit(&mut self.engine, &mut out);
        out
    }

    /// `torch.randint(low, high, ())`: an integer in `low..high`.
    ///
    /// One draw if the range is narrower than 2^32, otherwise two, like PyTorch 2.4; later releases
    /// take two from 2^28 on.
    ///
    /// # Panics
    ///
    /// If `low >= high`.
    pub fn randint(&mut self, low: i64, high: i64) -> i64 {
        assert!(low < high, "randint: the range {low}..{high} is empty");
        // The width of any range of i64 fits in a u64, and so the sum wraps back into the range.
        let width = high.wrapping_sub(low) as u64;
        let draw = if width < 1 << 32 {
            u64::from(self.engine.next_u32())
        } else {
            self.engine.next_u64()
        };
        low.wrapping_add((draw % width) as i64)
    }
}

/// Fills with numbers in [0, 1).
pub(crate) fn fill_unit(engine: &mut Mt19937, out: &mut [f32]) {
    engine.fill(out, unit);
}

/// The low 24 bits as a number in [0, 1): every value is exact in f32.
#[inline(always)]
pub(crate) fn unit(draw: u32) -> f32 {
    // Through i32, for which SSE2 has a conversion.
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
