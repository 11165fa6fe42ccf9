//! The processes that `mpirun -n N gpt train` started, as one program: one of them prints, all must
//! run in the same way, and an error ends all of them.
//!
//! Without a launcher there is one process, for which all of this does nothing.
//! MPI itself is in `mpi_group.rs`, in builds with the feature `mpi`.

use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
use toml::Table;
use train::runs::{agree, gather_texts, sha256};
use train::{Ranks, TrainError};

use super::launcher::{Launched, launched};
use crate::terminal::failure::{ReportedElsewhere, Stopped};
#[cfg(feature = "mpi")]
use crate::terminal::{numbers::bytes, output::print};
use crate::train::flags::with_flags;

/// All processes of this run.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    ranks: Option<Arc<dyn Ranks>>,
}

/// An error that every rank has: one of them prints it.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub(crate) struct Common(pub(crate) anyhow::Error);

impl ProcessGroup {
    /// Joins the processes that a launcher has started together with this one.
    ///
    /// # Errors
    /// If there may be others that this build can't join, because it has no MPI, or not the
    /// launcher's: each process would train alone.
    pub(crate) fn join() -> Result<Self> {
        let launched = launched().filter(|launched| launched.size != Some(1));
        #[cfg(feature = "mpi")]
        let ranks = launched
            .as_ref()
            .map(|_| crate::mpi::mpi_group::start())
            .transpose()?;
        #[cfg(not(feature = "mpi"))]
        let ranks: Option<Arc<dyn Ranks>> = None;
        let ranks = ranks.filter(|ranks| ranks.size() > 1);
        match (launched, &ranks) {
            (Some(launched), None) => Err(alone(&launched)),
            _ => Ok(Self { ranks }),
        }
    }

    /// The ranks, if there is more than one.
    pub(crate) fn ranks(&self) -> Option<&Arc<dyn Ranks>> {
        self.ranks.as_ref()
    }

    /// True for the process that shows, logs and saves.
    pub(crate) fn is_first(&self) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| ranks.rank() == 0)
    }

    /// The number of the processes on this machine.
    pub(crate) fn on_this_machine(&self) -> usize {
        #[cfg(feature = "mpi")]
        if self.ranks.is_some() {
            return crate::mpi::mpi_group::on_this_machine();
        }
        1
    }

    /// Fails on all ranks if one of them failed.
    pub(crate) fn all<T>(&self, done: Result<T>) -> Result<T> {
        let Some(ranks) = &self.ranks else {
            return done;
        };
        let own = match &done {
            Ok(_) => String::new(),
            Err(error) => format!("{error:#}"),
        };
        let errors = gather_texts(&**ranks, &own);
        let Some(rank) = errors.iter().position(|error| !error.is_empty()) else {
            return done;
        };
        let error = match done {
            Err(error) if errors.iter().all(|error| *error == errors[0]) => error,
            _ => anyhow!("rank {rank}: {}", errors[rank]),
        };
        Err(Common(error).into())
    }

    /// Checks that all ranks run this program in the same way, with the same `options`.
    pub(crate) fn agree(&self, options: &Table) -> Result<()> {
        let Some(ranks) = &self.ranks else {
            return Ok(());
        };
        let program = self.all(program_hash())?;
        let mut fields = vec![
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("the program's SHA-256".to_owned(), program),
            ("the CPU's instruction sets".to_owned(), instruction_sets()),
            (
                "--threads".to_owned(),
                rayon::current_num_threads().to_string(),
            ),
        ];
        let flag = |name: &String| format!("--{}", name.replace('_', "-"));
        fields.extend(
            options
                .iter()
                .map(|(name, value)| (flag(name), value.to_string())),
        );
        self.common(agree(&**ranks, &fields))
    }

    /// Marks an error that all ranks have.
    pub(crate) fn common<T>(&self, done: Result<T, TrainError>) -> Result<T> {
        done.map_err(|error| match error.is_common() && self.ranks.is_some() {
            true => Common(with_flags(error)).into(),
            false => with_flags(error),
        })
    }

    /// Prints on the first rank a line about each of them.
    #[cfg(feature = "mpi")]
    pub(crate) fn introduce(&self) {
        let Some(ranks) = &self.ranks else { return };
        let own = format!(
            "rank {} of {}: process {} on {}, {} threads, {}\n",
            ranks.rank(),
            ranks.size(),
            std::process::id(),
            crate::mpi::mpi_group::machine(),
            rayon::current_num_threads(),
            instruction_sets()
        );
        let all = gather_texts(&**ranks, &own);
        if self.is_first() {
            // A reader that has gone doesn't stop the run.
            let _ = print(all.concat());
        }
    }

    /// Prints on the first rank what it exchanged with the others in the `seconds` of a run.
    #[cfg(feature = "mpi")]
    pub(crate) fn tell_traffic(&self, seconds: f64) {
        if self.ranks.is_some() && self.is_first() {
            let (sent, waited) = crate::mpi::mpi_group::traffic();
            let _ = print(format!(
                "mpi     {} sent by rank 0; MPI took {waited:.1} s of {seconds:.1} s, including waiting\n",
                bytes(sent as f64)
            ));
        }
    }

    /// Ends this process' part; an error of this rank alone ends all the others too.
    pub(crate) fn leave(self, done: Result<()>) -> Result<()> {
        let (Some(ranks), Err(error)) = (&self.ranks, &done) else {
            return done;
        };
        if error.is::<Common>() && ranks.rank() > 0 {
            return Err(ReportedElsewhere.into());
        }
        #[cfg(feature = "mpi")]
        if !error.is::<Common>() && !error.is::<Stopped>() {
            crate::terminal::failure::failure(&anyhow!("rank {}: {error:#}", ranks.rank()));
            crate::mpi::mpi_group::abort();
        }
        done
    }
}

/// Returns the error of a process that can't join the others of its job.
fn alone(launched: &Launched) -> Error {
    if launched.rank > 0 {
        // The launcher ends the job at the first failure, which must not precede the report.
        std::thread::sleep(Duration::from_secs(3));
        return Stopped(ExitCode::FAILURE).into();
    }
    let Launched { by, variable, .. } = launched;
    let processes = match launched.size {
        Some(size) => format!("{size} processes"),
        None => "an unknown number of processes".to_owned(),
    };
    let why = match cfg!(feature = "mpi") {
        true => "this build belongs to another MPI library than the launcher",
        false => {
            "this build has no MPI (cargo build --release -p cli --features mpi makes one with MPI)"
        }
    };
    anyhow!(
        "{by} started {processes}, but each of them would train alone, because {why}; to train in one process, start gpt without the launcher, or unset {variable}"
    )
}

/// Returns the processor's architecture and the instruction sets of its matrix products. On
/// processors where they differ, the last bits of products may differ, too.
fn instruction_sets() -> String {
    let mut names = vec![std::env::consts::ARCH];
    names.extend(tensor_ops::instruction_sets());
    names.join(" ")
}

/// The hash of the program's own file: two builds of one version may round differently.
fn program_hash() -> Result<String> {
    let path = std::env::current_exe().context("can't find the file of this program")?;
    let program = fs::read(&path).with_context(|| path.display().to_string())?;
    Ok(sha256(program))
}
