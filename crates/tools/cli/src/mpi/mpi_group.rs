//! Implements [`Ranks`], the trait through which a trainer exchanges data with other processes, for
//! the processes of `MPI_COMM_WORLD`, using the crate `mpi`. The module counts the bytes that this
//! process (rank) sends and measures the time that it spends in MPI calls. If one rank panics, all
//! ranks are ended.
//!
//! This module is compiled only with the feature `mpi`.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};
use train::Ranks;

/// Number of bytes that this rank has sent.
static BYTES_SENT: AtomicU64 = AtomicU64::new(0);
/// Time in nanoseconds that this rank has spent on sending, receiving and waiting for other ranks.
static NANOSECONDS: AtomicU64 = AtomicU64::new(0);

/// All processes in `MPI_COMM_WORLD`. MPI is finalized when this value is dropped.
struct MpiGroup {
    rank: usize,
    size: usize,
    _universe: Universe,
}

impl std::fmt::Debug for MpiGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}

/// Initializes MPI and returns the group of all ranks. Sets a panic hook that ends all ranks if
/// this rank panics.
pub(crate) fn start() -> Result<Arc<dyn Ranks>> {
    // MPI's thread level `Serialized` allows any thread to call MPI, as long as no other thread
    // does so at the same time. The level `Funneled`, which allows only the main thread to call
    // MPI, wouldn't be sufficient. Although the main thread makes all regular calls, any thread can
    // panic, and the panic hook then calls MPI from that thread to end all ranks.
    let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Serialized) else {
        bail!("MPI was already initialized in this process, and it can be initialized only once");
    };
    if threading < Threading::Serialized {
        bail!(
            "this MPI library supports only the thread level {threading:?}, but gpt requires {:?}",
            Threading::Serialized
        );
    }
    let world = universe.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let show = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let _ = write!(std::io::stderr(), "rank {rank}: ");
        show(panic);
        abort();
    }));
    Ok(Arc::new(MpiGroup {
        rank,
        size,
        _universe: universe,
    }))
}

/// Returns the number of ranks on this machine.
pub(crate) fn on_this_machine() -> usize {
    SimpleCommunicator::world().split_shared(0).size() as usize
}

/// Returns the name of this machine.
pub(crate) fn machine() -> String {
    mpi::environment::processor_name().unwrap_or_else(|_| "a machine without a name".to_owned())
}

/// Returns the number of bytes that this rank has sent, and the time in seconds that it has spent
/// in MPI calls.
pub(crate) fn traffic() -> (u64, f64) {
    let nanoseconds = NANOSECONDS.load(Ordering::Relaxed);
    (BYTES_SENT.load(Ordering::Relaxed), nanoseconds as f64 / 1e9)
}

/// Ends all ranks immediately.
pub(crate) fn abort() -> ! {
    SimpleCommunicator::world().abort(1)
}

fn count(bytes: usize, exchange: impl FnOnce(&SimpleCommunicator)) {
    let began = Instant::now();
    exchange(&SimpleCommunicator::world());
    let nanoseconds = began.elapsed().as_nanos() as u64;
    NANOSECONDS.fetch_add(nanoseconds, Ordering::Relaxed);
    BYTES_SENT.fetch_add(bytes as u64, Ordering::Relaxed);
}

impl Ranks for MpiGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_to_all(&self, send: &[u8], receive: &mut [u8]) {
        // `send` contains one part of equal length for each rank. The part for this rank itself
        // isn't counted as sent, because it doesn't leave the process.
        count(send.len() / self.size * (self.size - 1), |world| {
            world.all_to_all_into(send, receive);
        });
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) {
        count(own.len() * (self.size - 1), |world| {
            world.all_gather_into(own, all);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs in each process that the next test starts.
    #[test]
    #[ignore = "needs to be started by mpirun"]
    fn rank_1_panics_while_the_others_wait() {
        let ranks = start().unwrap();
        assert!(ranks.rank() != 1, "a panic on purpose");
        ranks.all_gather(&[0], &mut [0; 3]);
    }

    #[test]
    fn a_rank_that_panics_ends_the_job_and_is_named() {
        let this = std::env::current_exe().unwrap();
        let output = Command::new("mpirun")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
            .args(["-n", "3"])
            .arg(this)
            .args(["rank_1_panics", "--ignored", "--nocapture"])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        let panics = errors.matches("a panic on purpose").count();
        assert_eq!(
            (panics, errors.matches("rank 1: ").count()),
            (1, 1),
            "{errors}"
        );
    }
}
