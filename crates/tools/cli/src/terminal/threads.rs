//! Starts the threads of rayon's global pool, which perform all computations. `--threads` sets the
//! number of threads.
//!
//! The results don't depend on the number of threads. The same seed always leads to the same bits.

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
    /// Starts the threads. This must be called before anything is computed.
    pub(crate) fn apply(self) -> Result<()> {
        use_threads(self.threads, 1)
    }
}

/// Starts the threads of rayon's global pool. If `threads` is `None`, the environment variable
/// `RAYON_NUM_THREADS` determines their number. If this variable isn't set either, there is one
/// thread per core. If a training run has several `processes` on this machine, they share its
/// cores.
///
/// The calling thread becomes one of the pool's threads. If it didn't, each token or training step
/// would have to be handed over to another thread, which takes about 50 microseconds.
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
