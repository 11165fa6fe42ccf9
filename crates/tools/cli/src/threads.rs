//! `--threads`: the size of rayon's pool, in which all the arithmetic runs.
//!
//! The results don't depend on it: the same seed gives the same bits with any number of threads.

use anyhow::{Context, Result};
use clap::Args;

use crate::failure::misused;

/// More threads than any machine has use for.
const MOST_THREADS: usize = 1024;

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

/// As [`use_threads`], on a machine that several processes of one run share.
pub(crate) fn use_threads_beside(threads: Option<usize>, processes: usize) -> Result<()> {
    if threads.is_some() || processes == 1 || std::env::var_os("RAYON_NUM_THREADS").is_some() {
        return use_threads(threads);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    use_threads(Some((cores / processes).max(1)))
}

/// Builds rayon's global pool, with one thread for each core unless told otherwise.
///
/// The calling thread is one of them: to hand each token or training step to another one and to
/// sleep meanwhile takes some 50 microseconds.
pub(crate) fn use_threads(threads: Option<usize>) -> Result<()> {
    let by_environment = std::env::var("RAYON_NUM_THREADS").ok();
    let many = by_environment.and_then(|text| text.parse().ok());
    if let Some(many) = many.filter(|&many: &usize| threads.is_none() && many > MOST_THREADS) {
        return misused(format!(
            "RAYON_NUM_THREADS {many}: expected at most {MOST_THREADS}"
        ));
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0)) // 0: RAYON_NUM_THREADS, or one for each core
        .use_current_thread()
        .build_global()
        .context("could not start the threads to compute with")
}

/// A number of threads from text.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads) if (1..=MOST_THREADS).contains(&threads) => Ok(threads),
        _ => Err(format!("expected a whole number from 1 to {MOST_THREADS}")),
    }
}
