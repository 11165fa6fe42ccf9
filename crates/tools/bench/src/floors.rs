//! Measures the highest speeds at which the machine can multiply matrices and read memory.
//!
//! The *floor* of a workload is the shortest time in which the machine could execute it. This is
//! the time that its matrix products or its memory reads would take at the machine's peak speed.
//! Clock frequencies and the available memory bandwidth change from minute to minute, so the peak
//! speed is measured before and after each of this project's executions of the workload.

use std::hint::black_box;

use ndarray::Array2;
use tensor_ops::{Dtype, matmul_in};

use crate::clock::{sustained, time};
use crate::peer::{AUTOCAST, Kind, Peers, UNTIED};
use crate::reading::Memory;

/// The resource that limits the speed of a workload, such as decoding. The number in each variant
/// is the amount of this resource that one execution of the workload needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Floor {
    /// Number of floating-point operations in f32 matrix products.
    Products(f64),
    /// Number of floating-point operations in matrix products with bf16 operands.
    Bf16Products(f64),
    /// Number of bytes that are read from memory.
    Reading(f64),
}

impl Floor {
    /// Returns the number of operations or bytes that one execution of the workload needs.
    pub(crate) fn amount(self) -> f64 {
        let (Self::Products(amount) | Self::Bf16Products(amount) | Self::Reading(amount)) = self;
        amount
    }

    /// Measures the highest speed that the machine currently reaches, in operations or bytes per
    /// second. Several methods are used, because no single method is the fastest on every machine.
    /// Returns the speed that each method reached.
    pub(crate) fn speeds(self, memory: &mut Memory, peers: &mut Peers) -> Vec<f64> {
        match self {
            Self::Products(_) => products(peers, Dtype::Float32, UNTIED[0]),
            Self::Bf16Products(_) => products(peers, Dtype::BFloat16, AUTOCAST),
            Self::Reading(_) => memory.read(),
        }
    }
}

/// Chooses the best estimate of the machine's peak speed for matrix products or memory reads.
/// Several methods have measured this speed before and after each execution of a workload. The
/// function chooses the method with the highest mean speed, and returns the speeds that this method
/// measured, one for each execution.
///
/// Each element of `turns` belongs to one execution of the workload. It consists of two vectors
/// with one speed for each method: the speeds measured just before the execution, and those
/// measured just after it. The function uses the mean of each method's two speeds.
///
/// The same method is chosen for all executions. Choosing the fastest method separately for each
/// execution would favor measurements from moments when the machine happened to be fast, and would
/// therefore overestimate the speed that the machine can sustain by about 10%.
pub(crate) fn of_best_way(turns: &[[Vec<f64>; 2]]) -> Vec<f64> {
    let of_turns = |way: usize| -> Vec<f64> {
        let mean = |[before, after]: &[Vec<f64>; 2]| (before[way] + after[way]) / 2.0;
        turns.iter().map(mean).collect()
    };
    let ways = turns.first().map_or(0, |[before, _]| before.len());
    let total = |speeds: &Vec<f64>| speeds.iter().sum::<f64>();
    let best = (0..ways).map(of_turns);
    let best = best.max_by(|a, b| total(a).total_cmp(&total(b)));
    best.unwrap_or_default()
}

/// Measures the speed of matrix products of several sizes, in operations per second. Returns this
/// project's speed for each size, followed by PyTorch's speed for each size, which is 0 if PyTorch
/// isn't installed.
fn products(peers: &mut Peers, dtype: Dtype, kind: Kind) -> Vec<f64> {
    const SIZES: [(usize, usize, usize); 3] =
        [(1024, 768, 3072), (1024, 3072, 768), (2048, 2048, 2048)];
    let ours = SIZES.map(|(m, k, n)| {
        let (a, b) = (Array2::<f32>::ones((m, k)), Array2::<f32>::ones((k, n)));
        let product = || drop(black_box(matmul_in(dtype, &a, &b)));
        sustained(|| Some(time(product)))
    });
    let theirs = SIZES.map(|(m, k, n)| {
        let peer = peers.get(kind)?;
        sustained(|| peer.seconds(&format!("product {m}x{k}x{n}")).ok())
    });
    let seconds = ours.into_iter().chain(theirs);
    let speeds = seconds
        .zip(SIZES.iter().cycle())
        .map(|(seconds, (m, k, n))| {
            seconds.map_or(0.0, |seconds| 2.0 * (m * k * n) as f64 / seconds)
        });
    speeds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_way_over_all_turns_counts_and_not_the_best_moment() {
        let turns = [
            [vec![100.0, 90.0], vec![300.0, 350.0]],
            [vec![200.0, 180.0], vec![200.0, 170.0]],
        ];
        assert_eq!(of_best_way(&turns), [200.0, 200.0]);
        assert_eq!(Floor::Reading(400.0).amount(), 400.0);
    }
}
