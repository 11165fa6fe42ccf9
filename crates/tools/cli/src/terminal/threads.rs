//! Starts the threads of rayon's global pool, which perform all computations. `--threads` sets the
//! number of these threads.
//!
//! The results don't depend on the number of threads. The same seed always produces the same bits.

use std::thread::available_parallelism;

use anyhow::{Result, anyhow};
use clap::Args;

use crate::terminal::failure::misused;
use crate::terminal::numbers::Threads;

#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ThreadArgs {
    /// The number of threads, which doesn't affect the results [default: the number of cores]
    #[arg(short = 't', long, value_name = "N")]
    pub(crate) threads: Option<Threads>,
}

impl ThreadArgs {
    /// Starts the threads. This method must be called before any computation.
    pub(crate) fn apply(self) -> Result<()> {
        use_threads(self.threads, 1)
    }
}

/// Starts the threads of rayon's global pool. The number of threads is `threads` or, if this is
/// `None`, the value of the environment variable `RAYON_NUM_THREADS`. If neither is given, the
/// cores of this machine are divided equally among the `processes` that run on it, and each process
/// starts one thread per core.
///
/// The calling thread becomes one of the pool's threads. Otherwise, each token or training step
/// would have to be handed over to another thread, which would take about 50 microseconds.
pub(crate) fn use_threads(threads: Option<Threads>, processes: usize) -> Result<()> {
    let by_environment = std::env::var("RAYON_NUM_THREADS").unwrap_or_default();
    let threads = match (threads, by_environment.parse::<usize>()) {
        (Some(Threads(threads)), _) => threads,
        (None, Ok(threads)) if threads > 0 => match by_environment.parse() {
            Ok(Threads(threads)) => threads,
            Err(expected) => {
                return misused(format!(
                    "the environment variable RAYON_NUM_THREADS is invalid: {expected}, got {threads}"
                ));
            }
        },
        _ => (available_parallelism().map_or(1, usize::from) / processes).max(1),
    };
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .use_current_thread()
        .build_global()
        .map_err(|error| {
            anyhow!("can't start {threads} threads ({error}); use --threads to start fewer")
        })
}
