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
    /// The seconds that it takes at the speeds of a turn.
    pub(crate) fn seconds(self, speeds: &Speeds) -> f64 {
        match self {
            Self::Products(operations) => operations / speeds.products,
            Self::Reading(bytes) => bytes / speeds.reading,
        }
    }
}

/// The machine's speeds in one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Speeds {
    /// The fastest f32 matrix product, ours or PyTorch's, operations a second; 0 where it was not asked for
    pub(crate) products: f64,
    /// The fastest way to read memory, bytes a second; 0 where it was not asked for
    pub(crate) reading: f64,
}

impl Speeds {
    /// Measures what `floors` ask for.
    pub(crate) fn measure(floors: &[Floor], memory: &mut Memory, peers: &mut Peers) -> Self {
        let mut speeds = Self::default();
        for floor in floors {
            match floor {
                Floor::Products(_) if speeds.products == 0.0 => speeds.products = products(peers),
                Floor::Reading(_) if speeds.reading == 0.0 => speeds.reading = memory.read(),
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

/// The best of several sizes, ours and PyTorch's, operations a second.
fn products(peers: &mut Peers) -> f64 {
    let mut best = 0.0f64;
    for (m, k, n) in [(1024, 768, 3072), (1024, 3072, 768), (2048, 2048, 2048)] {
        let (a, b) = (Array2::<f32>::ones((m, k)), Array2::<f32>::ones((k, n)));
        let ours = sustained(|| Some(time(|| drop(black_box(matmul(&a, &b))))));
        let theirs = (peers.get(Name::Pytorch))
            .and_then(|peer| sustained(|| peer.seconds(&format!("product {m}x{k}x{n}")).ok()));
        for seconds in ours.into_iter().chain(theirs) {
            best = best.max(2.0 * (m * k * n) as f64 / seconds);
        }
    }
    best
}

/// 512 MiB on huge pages and as many on small ones, made when they are first read.
#[derive(Default)]
pub(crate) struct Memory {
    pieces: Vec<Vec<Vec<u64>>>,
}

impl Memory {
    /// The best of several ways, bytes a second: each thread reads a part of its own in order, asking for lines ahead of their reading or not.
    fn read(&mut self) -> f64 {
        const WORDS: usize = 64 << 20;
        /// 512 KiB: too small for the allocator of this program, so on the system's small pages.
        const SMALL: usize = 1 << 16;
        let threads = rayon::current_num_threads();
        if self.pieces.is_empty() {
            let of = |piece: usize| (0..WORDS / piece).map(|_| vec![1; piece]).collect();
            self.pieces = vec![of(WORDS.div_ceil(threads)), of(SMALL)];
        }
        let mut best = 0.0f64;
        for pieces in &self.pieces {
            let bytes = 8 * pieces.iter().map(Vec::len).sum::<usize>();
            for ahead in [0, 4096, 8192, 16384] {
                let pass = || {
                    pieces
                        .par_chunks(pieces.len().div_ceil(threads))
                        .for_each(|part| {
                            for piece in part {
                                black_box(kernels::sum_of_words(piece, ahead));
                            }
                        });
                };
                let seconds = sustained(|| Some(time(pass))).expect("it can't fail");
                best = best.max(bytes as f64 / seconds);
            }
        }
        best
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
