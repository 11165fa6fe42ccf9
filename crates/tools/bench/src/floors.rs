//! What the machine can do at best: f32 products and reading memory, measured in each turn, because clocks and memory change from minute to minute.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ndarray::Array2;
use rayon::prelude::*;
use serde::Serialize;
use tensor_ops::matmul;

use crate::peer::{Name, Peers};
use crate::report::say;

/// The machine of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Its processor, as the system names it
    cpu: String,
    /// Threads of ours and of the peers
    threads: usize,
    /// Features that the kernels choose by
    features: Vec<&'static str>,
}

impl Machine {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            cpu: cpu_name(),
            threads,
            features: features(),
        }
    }

    pub(crate) fn print(&self) {
        let Self {
            cpu,
            threads,
            features,
        } = self;
        say(&format!(
            "{cpu}, {threads} threads ({})\n",
            features.join(", ")
        ));
    }
}

/// What a work can't do without, and so what bounds its speed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Floor {
    /// So many operations of f32 matrix products
    Products(f64),
    /// So many bytes that are read from memory
    Reading(f64),
}

impl Floor {
    /// The seconds that it takes in each turn, before and after which the machine was measured: at the speed of the way that was the best one over all turns.
    /// The best way of each moment would be the best moment as well, a tenth above what the machine keeps up.
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

/// For so long each product and each way to read is repeated: a burst of some milliseconds is a tenth faster than what a machine keeps up, for any program.
const SUSTAINED: Duration = Duration::from_millis(250);

/// The mean seconds of `run`, repeated for a while; `None` if it fails.
fn sustained(mut run: impl FnMut() -> Option<f64>) -> Option<f64> {
    run()?; // warms up
    let (start, mut runs, mut seconds) = (Instant::now(), 0, 0.0);
    while runs == 0 || start.elapsed() < SUSTAINED {
        seconds += run()?;
        runs += 1;
    }
    Some(seconds / f64::from(runs))
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
        let peer = peers.get(Name::Pytorch)?;
        sustained(|| peer.seconds(&format!("product {m}x{k}x{n}")).ok())
    });
    let speeds = |seconds: [Option<f64>; 3]| {
        std::iter::zip(SIZES, seconds).map(|((m, k, n), seconds)| {
            seconds.map_or(0.0, |seconds| 2.0 * (m * k * n) as f64 / seconds)
        })
    };
    speeds(ours).chain(speeds(theirs)).collect()
}

/// 528 MB on huge pages and as many on small ones, made when they are first read.
#[derive(Default)]
pub(crate) struct Memory {
    pieces: Vec<Vec<Vec<u64>>>,
}

impl Memory {
    /// Several ways, bytes a second: each thread reads a part of its own in order, asking for lines ahead of their reading or not, or four parts side by side.
    fn read(&mut self) -> Vec<f64> {
        /// No power of two: parts side by side would meet in the same sets of the caches.
        const WORDS: usize = 66_000_000;
        type Sum = fn(&[u64], usize) -> u64;
        const IN_ORDER: Sum = kernels::sum_of_words::<1>;
        const WAYS: [(Sum, usize); 5] = [
            (IN_ORDER, 0),
            (IN_ORDER, 4096),
            (IN_ORDER, 8192),
            (IN_ORDER, 16384),
            (kernels::sum_of_words::<4>, 0),
        ];
        /// 480 kB: too small for the allocator of this program, so on the system's small pages.
        const SMALL: usize = 60_000;
        let threads = rayon::current_num_threads();
        if self.pieces.is_empty() {
            let of = |piece: usize| (0..WORDS / piece).map(|_| vec![1; piece]).collect();
            self.pieces = vec![of(WORDS / threads), of(SMALL)];
        }
        let mut speeds = Vec::new();
        for pieces in &self.pieces {
            let bytes = 8 * pieces.iter().map(Vec::len).sum::<usize>();
            for (sum, ahead) in WAYS {
                let pass = || {
                    pieces
                        .par_chunks(pieces.len().div_ceil(threads))
                        .for_each(|part| {
                            for piece in part {
                                black_box(sum(piece, ahead));
                            }
                        });
                };
                let seconds = sustained(|| Some(time(pass))).expect("it can't fail");
                speeds.push(bytes as f64 / seconds);
            }
        }
        speeds
    }
}

/// How long `work` takes, in seconds.
pub(crate) fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn cpu_name() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|info| {
            let line = info.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let known = [
            ("avx2", is_x86_feature_detected!("avx2")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ];
        known
            .into_iter()
            .filter(|(_, present)| *present)
            .map(|(name, _)| name)
            .collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
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
