//! `--threads`: the size of rayon's pool, in which all the arithmetic runs.
//!
//! The results don't depend on it: the same seed gives the same bits with any number of threads.

use anyhow::{Result, anyhow};
use clap::Args;

use crate::failure::misused;
use crate::memory::{allowed, check_allowed};

/// More threads than any machine has use for.
const MOST_THREADS: usize = 1024;

/// What the standard library reserves for the stack of a thread, in bytes.
const STACK: usize = 2 << 20;

#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ThreadArgs {
    /// Threads to compute with (the results don't depend on it) [default: one for each core]
    #[arg(short = 't', long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
}

impl ThreadArgs {
    /// Builds the pool; to be called before anything computes.
    pub(crate) fn apply(self) -> Result<()> {
        use_threads(self.threads)
    }
}

/// As [`use_threads_beside`], for a process that has the machine to itself.
pub(crate) fn use_threads(threads: Option<usize>) -> Result<()> {
    use_threads_beside(threads, 1)
}

/// Builds rayon's global pool, with one thread for each core unless told otherwise: a share of
/// them on a machine that several `processes` of one run have, and fewer where the memory that the
/// process is allowed is little.
///
/// The calling thread is one of them: to hand each token or training step to another one and to
/// sleep meanwhile takes some 50 microseconds.
pub(crate) fn use_threads_beside(threads: Option<usize>, processes: usize) -> Result<()> {
    let by_environment = std::env::var("RAYON_NUM_THREADS").ok();
    let many = by_environment.and_then(|text| text.parse().ok());
    let asked = threads.or(many.filter(|&many| many > 0));
    if let Some(many) = asked.filter(|&many| many > MOST_THREADS) {
        return misused(format!(
            "RAYON_NUM_THREADS {many}: expected at most {MOST_THREADS}"
        ));
    }
    let threads = match asked {
        Some(many) => {
            let what = format!("the stacks of {many} threads");
            check_allowed((many * STACK) as f64, &what)?;
            many
        }
        None => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            // Stacks take at most a quarter.
            let fit = allowed().map_or(cores, |bytes| bytes as usize / (4 * STACK));
            (cores / processes).min(fit).max(1)
        }
    };
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .use_current_thread()
        .build_global()
        .map_err(|error| anyhow!("could not start {threads} threads to compute with: {error}"))
}

/// A number of threads from text.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads) if (1..=MOST_THREADS).contains(&threads) => Ok(threads),
        _ => Err(format!("expected a whole number from 1 to {MOST_THREADS}")),
    }
}
