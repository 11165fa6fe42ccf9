//! What the machine can do at best: f32 products and reading memory, measured in each turn, because
//! clocks and memory change from minute to minute.

use std::hint::black_box;

use ndarray::Array2;
use tensor_ops::matmul;

use crate::clock::{sustained, time};
use crate::peer::{Peers, UNTIED};
use crate::reading::Memory;

/// What a work can't do without, and so what bounds its speed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Floor {
    /// So many operations of f32 matrix products
    Products(f64),
    /// So many bytes that are read from memory
    Reading(f64),
}

impl Floor {
    /// The seconds that it takes in each turn, before and after which the machine was measured: at
    /// the speed of the way that was the best one over all turns.
    /// The best way of each moment would be the best moment as well, a tenth above what the machine
    /// keeps up.
    pub(crate) fn seconds(self, turns: &[[Speeds; 2]]) -> Vec<f64> {
        let (amount, of_ways): (f64, fn(&Speeds) -> &[f64]) = match self {
            Self::Products(operations) => (operations, |speeds| &speeds.products),
            Self::Reading(bytes) => (bytes, |speeds| &speeds.reading),
        };
        let of_turns = |way: usize| -> Vec<f64> {
            let mean =
                |[before, after]: &[Speeds; 2]| (of_ways(before)[way] + of_ways(after)[way]) / 2.0;
            turns.iter().map(mean).collect()
        };
        let ways = turns.first().map_or(0, |[before, _]| of_ways(before).len());
        let total = |speeds: &Vec<f64>| speeds.iter().sum::<f64>();
        let best = (0..ways)
            .map(of_turns)
            .max_by(|a, b| total(a).total_cmp(&total(b)));
        let speeds = best.unwrap_or_default();
        speeds.into_iter().map(|speed| amount / speed).collect()
    }
}

/// The machine's speeds at one time, of each way; none where they were not asked for.
#[derive(Debug, Default)]
pub(crate) struct Speeds {
    /// Of f32 matrix products, ours and PyTorch's, operations a second; 0 where PyTorch is absent
    products: Vec<f64>,
    /// Of reading memory, bytes a second
    reading: Vec<f64>,
}

impl Speeds {
    /// Measures what `floors` ask for.
    pub(crate) fn measure(floors: &[Floor], memory: &mut Memory, peers: &mut Peers) -> Self {
        let mut speeds = Self::default();
        for floor in floors {
            match floor {
                Floor::Products(_) if speeds.products.is_empty() => {
                    speeds.products = products(peers);
                }
                Floor::Reading(_) if speeds.reading.is_empty() => speeds.reading = memory.read(),
                _ => {}
            }
        }
        speeds
    }
}

/// Several sizes, ours and then PyTorch's, operations a second.
fn products(peers: &mut Peers) -> Vec<f64> {
    const SIZES: [(usize, usize, usize); 3] =
        [(1024, 768, 3072), (1024, 3072, 768), (2048, 2048, 2048)];
    let ours = SIZES.map(|(m, k, n)| {
        let (a, b) = (Array2::<f32>::ones((m, k)), Array2::<f32>::ones((k, n)));
        sustained(|| Some(time(|| drop(black_box(matmul(&a, &b))))))
    });
    let theirs = SIZES.map(|(m, k, n)| {
        let peer = peers.get(UNTIED[0])?;
        sustained(|| peer.seconds(&format!("product {m}x{k}x{n}")).ok())
    });
    let speeds = |seconds: [Option<f64>; 3]| {
        std::iter::zip(SIZES, seconds).map(|((m, k, n), seconds)| {
            seconds.map_or(0.0, |seconds| 2.0 * (m * k * n) as f64 / seconds)
        })
    };
    speeds(ours).chain(speeds(theirs)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_way_over_all_turns_counts_and_not_the_best_moment() {
        let at = |products: [f64; 2]| Speeds {
            products: products.to_vec(),
            ..Speeds::default()
        };
        let turns = [
            [at([100.0, 90.0]), at([300.0, 350.0])],
            [at([200.0, 180.0]), at([200.0, 170.0])],
        ];
        assert_eq!(Floor::Products(400.0).seconds(&turns), [2.0, 2.0]);
    }
}
