//! MPI, through the crate of that name: the ranks of one communicator, counted and timed, and an
//! end for all when one fails.
//!
//! Only in builds with the feature `mpi`.

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

/// What MPI gives back when this is dropped.
pub(crate) struct Mpi {
    ranks: Arc<World>,
    _universe: Universe,
}

/// `MPI_COMM_WORLD`, with what has gone through it.
#[derive(Debug)]
struct World {
    rank: usize,
    size: usize,
    bytes_sent: AtomicU64,
    nanoseconds: AtomicU64,
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Mpi").field(&self.ranks).finish()
    }
}

impl Mpi {
    /// Starts MPI; from here on a panic of this rank ends all ranks.
    pub(crate) fn start() -> Result<Self> {
        // A panic on one of rayon's threads aborts from there, while the main thread waits for it.
        let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Serialized)
        else {
            bail!("MPI was started twice");
        };
        if threading < Threading::Serialized {
            bail!("this MPI can't be used from several threads: it offers {threading:?}");
        }
        let world = universe.world();
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        let show = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _ = write!(std::io::stderr(), "rank {rank}: ");
            show(panic);
            abort();
        }));
        let ranks = Arc::new(World {
            rank,
            size,
            bytes_sent: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        });
        Ok(Self {
            ranks,
            _universe: universe,
        })
    }

    pub(crate) fn ranks(&self) -> Arc<dyn Ranks> {
        Arc::<World>::clone(&self.ranks)
    }

    /// Processes of this job on this machine.
    pub(crate) fn on_this_machine(&self) -> usize {
        SimpleCommunicator::world().split_shared(0).size() as usize
    }

    /// Bytes that this rank has sent, and seconds that it has spent in sending, receiving and
    /// waiting.
    pub(crate) fn traffic(&self) -> (u64, f64) {
        let nanoseconds = self.ranks.nanoseconds.load(Ordering::Relaxed);
        let bytes = self.ranks.bytes_sent.load(Ordering::Relaxed);
        (bytes, nanoseconds as f64 / 1e9)
    }

    /// Tells an error that the other ranks don't know of, and ends them all.
    pub(crate) fn abort(&self, error: &anyhow::Error) -> ! {
        crate::failure::failure(&anyhow::anyhow!("rank {}: {error:#}", self.ranks.rank));
        abort()
    }
}

/// The machine's name.
pub(crate) fn machine() -> String {
    mpi::environment::processor_name().unwrap_or_else(|_| "a machine without a name".to_owned())
}

fn abort() -> ! {
    SimpleCommunicator::world().abort(1)
}

impl World {
    fn count(&self, bytes: usize, exchange: impl FnOnce(&SimpleCommunicator)) {
        let began = Instant::now();
        exchange(&SimpleCommunicator::world());
        let nanoseconds = began.elapsed().as_nanos() as u64;
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Ranks for World {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_to_all(&self, send: &[u8], receive: &mut [u8]) {
        // A rank's own part goes nowhere.
        self.count(send.len() / self.size * (self.size - 1), |world| {
            world.all_to_all_into(send, receive);
        });
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) {
        self.count(own.len() * (self.size - 1), |world| {
            world.all_gather_into(own, all);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What each process of the test below does.
    #[test]
    #[ignore = "needs to be started by mpirun"]
    fn rank_1_panics_while_the_others_wait() {
        let mpi = Mpi::start().unwrap();
        let ranks = mpi.ranks();
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
