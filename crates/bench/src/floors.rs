//! What the machine can do at best, measured in the run itself: f32 products and reading memory.

use std::hint::black_box;
use std::time::Instant;

use ndarray::Array2;
use rayon::prelude::*;
use serde::Serialize;
use tensor_ops::matmul;

/// The machine of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Its processor, as the system names it
    cpu: String,
    /// Threads of ours and of the peers
    threads: usize,
    /// Features that the kernels choose by
    features: Vec<&'static str>,
    /// The fastest f32 matrix product seen, 10^9 operations a second
    pub(crate) gemm_gflops: f64,
    /// The fastest reading of memory seen, 10^9 bytes a second
    pub(crate) read_gb_per_s: f64,
}

impl Machine {
    pub(crate) fn measure(threads: usize) -> Self {
        Self {
            cpu: cpu_name(),
            threads,
            features: features(),
            gemm_gflops: gemm_peak() / 1e9,
            read_gb_per_s: read_bandwidth() / 1e9,
        }
    }

    pub(crate) fn print(&self) {
        let Self {
            cpu,
            threads,
            features,
            gemm_gflops,
            read_gb_per_s,
        } = self;
        println!("{cpu}, {threads} threads ({})", features.join(", "));
        println!(
            "floors: f32 products {gemm_gflops:.0} GFLOP/s, reading memory {read_gb_per_s:.1} GB/s\n"
        );
    }
}

/// The best of several sizes and turns, operations a second.
fn gemm_peak() -> f64 {
    let mut best = 0.0f64;
    for (m, k, n) in [
        (1024, 768, 3072),
        (1024, 768, 768),
        (2048, 2048, 2048),
        (3072, 1024, 768),
    ] {
        let (a, b) = (Array2::<f32>::ones((m, k)), Array2::<f32>::ones((k, n)));
        for _ in 0..6 {
            let seconds = time(|| drop(black_box(matmul(&a, &b))));
            best = best.max(2.0 * (m * k * n) as f64 / seconds);
        }
    }
    best
}

/// The best of several turns over 512 MiB, bytes a second.
fn read_bandwidth() -> f64 {
    const CHUNK: usize = 1 << 16;
    let memory = vec![1u64; 64 << 20];
    let mut best = 0.0f64;
    for _ in 0..8 {
        let seconds = time(|| {
            let sum: u64 = memory
                .par_chunks(CHUNK)
                .map(|chunk| chunk.iter().sum::<u64>())
                .sum();
            black_box(sum);
        });
        best = best.max(size_of_val(&memory[..]) as f64 / seconds);
    }
    best
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
            ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
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
