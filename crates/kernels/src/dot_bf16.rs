//! Few rows times a bf16 matrix with the instruction for dot products of bf16, where the CPU has it.
//!
//! `x` is split into two bf16 whose sum has 16 of its 24 bits, so that only the weights are rounded noticeably; sums are f32.
//! The bits differ from those of the widening loop in `gemv.rs` (by about 2^-16 of each product), not with the number of threads.

use half::bf16;

#[cfg(target_arch = "x86_64")]
use crate::gemv::for_each_task;
use crate::gemv::widening_gemv;

/// `y[i][r] += dot(x[r], w[i])`, as [`widening_gemv`]: the fastest way this CPU has.
pub(crate) fn gemv_bf16(x: &[f32], rows: usize, w: &[bf16], y: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16") {
        let Some(n) = x.len().checked_div(rows).filter(|&n| n > 0) else {
            return;
        };
        let (high, low) = split(x);
        return for_each_task(y, rows, n * size_of::<bf16>(), |first, y| {
            let w = &w[first * n..][..y.len() / rows * n];
            for r in 0..rows {
                let row = r * n..(r + 1) * n;
                // SAFETY: the CPU has the instructions.
                unsafe {
                    x86::block([&high[row.clone()], &low[row]], w, &mut y[r..], rows);
                }
            }
        });
    }
    widening_gemv(x, rows, w, y);
}

/// Each number as the sum of two bf16, the first its upper half.
#[cfg(target_arch = "x86_64")]
fn split(x: &[f32]) -> (Vec<bf16>, Vec<bf16>) {
    // A NaN whose upper half alone would be an infinity stays one.
    let quiet = |x: f32| if x.is_nan() { 0x40 } else { 0 };
    let high = |x: f32| bf16::from_bits((x.to_bits() >> 16) as u16 | quiet(x));
    let low = |x: f32| {
        let rest = x - f32::from_bits(x.to_bits() & 0xffff_0000);
        // An infinity leaves NaN, which must not be added to it.
        if rest.is_nan() {
            bf16::ZERO
        } else {
            high(rest)
        }
    };
    (
        x.iter().map(|&x| high(x)).collect(),
        x.iter().map(|&x| low(x)).collect(),
    )
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use half::bf16;

    use crate::gemv::Weight;

    /// Numbers a register holds, and those of one turn of the loop.
    const REGISTER: usize = 32;
    const TURN: usize = 4 * REGISTER;

    /// `y[i * stride] += dot(x[0] + x[1], w[i])`
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn block(x: [&[bf16]; 2], w: &[bf16], y: &mut [f32], stride: usize) {
        let n = x[0].len().min(x[1].len());
        // SAFETY: called with `at + 32 <= n`, the length of every slice it is called with; the CPU has
        // the instructions, or this function could not have been called; __m512bh is any 64 bytes.
        let load = |slice: &[bf16], at: usize| unsafe {
            std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(
                slice.as_ptr().add(at).cast(),
            ))
        };
        for (w, y) in w.chunks_exact(n).zip(y.chunks_mut(stride)) {
            let mut sums = [[_mm512_setzero_ps(); 2]; 4];
            let mut at = 0;
            while at + TURN <= n {
                for (part, [high, low]) in sums.iter_mut().enumerate() {
                    let at = at + part * REGISTER;
                    let w = load(w, at);
                    *high = _mm512_dpbf16_ps(*high, load(x[0], at), w);
                    *low = _mm512_dpbf16_ps(*low, load(x[1], at), w);
                }
                at += TURN;
            }
            while at + REGISTER <= n {
                let w = load(w, at);
                sums[0][0] = _mm512_dpbf16_ps(sums[0][0], load(x[0], at), w);
                sums[0][1] = _mm512_dpbf16_ps(sums[0][1], load(x[1], at), w);
                at += REGISTER;
            }
            let [a, b, c, d] = sums.map(|[high, low]| _mm512_add_ps(high, low));
            let sum = _mm512_add_ps(_mm512_add_ps(a, c), _mm512_add_ps(b, d));
            let mut dot = _mm512_reduce_add_ps(sum);
            for i in at..n {
                dot += (x[0][i].value() + x[1][i].value()) * w[i].value();
            }
            y[0] += dot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemv::Weight;

    #[test]
    fn the_instruction_agrees_with_the_widening_loop() {
        for (rows, n, m) in [
            (1, 1, 2),
            (1, 33, 5),
            (3, 200, 9),
            (1, 768, 70),
            (2, 130, 4),
        ] {
            let x: Vec<f32> = (0..rows * n)
                .map(|i| (i * 37 % 101) as f32 / 50.3 - 1.0)
                .collect();
            let w: Vec<bf16> = (0..n * m)
                .map(|i| {
                    bf16::from_bits((((i * 53 % 97) as f32 / 48.0 - 1.0).to_bits() >> 16) as u16)
                })
                .collect();
            let (mut y, mut expected) = (vec![0.25; m * rows], vec![0.25; m * rows]);
            gemv_bf16(&x, rows, &w, &mut y);
            widening_gemv(&x, rows, &w, &mut expected);
            let scale: f32 = w[..n].iter().map(|w| w.value().abs()).sum();
            for (i, (got, expected)) in y.iter().zip(&expected).enumerate() {
                assert!(
                    (got - expected).abs() < 1e-5 * (1.0 + scale),
                    "{rows} x {n} x {m} at {i}: {got} not {expected}"
                );
            }
        }
    }

    #[test]
    fn infinities_and_nan_come_through() {
        let w = vec![bf16::ONE; 64];
        let odd_nan = f32::from_bits(0x7f80_0001);
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, odd_nan] {
            let mut x = vec![1.0; 64];
            x[40] = bad;
            let mut y = [0.0];
            gemv_bf16(&x, 1, &w, &mut y);
            assert!(
                y[0] == bad || (y[0].is_nan() && bad.is_nan()),
                "{bad}: {}",
                y[0]
            );
        }
    }
}
