//! Manages the group of processes that `mpirun -n N gpt train` starts. Each of these processes is
//! called a rank. Only rank 0 prints, logs and saves. All ranks must have the same options, and an
//! error on one rank ends all ranks.
//!
//! If the program wasn't started by a launcher such as `mpirun`, the group consists of a single
//! process, and the functions of this module have no effect. All MPI calls are in the module
//! `mpi_group`, which is compiled only with the feature `mpi`.

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

/// All ranks of a training run.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    ranks: Option<Arc<dyn Ranks>>,
}

/// An error that occurs on all ranks, that is, in all processes of the group. Each rank returns
/// this error, but only rank 0 prints it, so the user sees it only once.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub(crate) struct Common(pub(crate) anyhow::Error);

impl ProcessGroup {
    /// Joins the group of processes that a launcher started.
    ///
    /// # Errors
    /// Returns an error if a launcher started several processes but this process can't join the
    /// group, because it was built without MPI or with another MPI library than the launcher's.
    /// Without this error, each process would train the same model on its own.
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

    /// Returns the ranks, or `None` if there is only one process.
    pub(crate) fn ranks(&self) -> Option<&Arc<dyn Ranks>> {
        self.ranks.as_ref()
    }

    /// Returns true on rank 0, which prints, logs and saves.
    pub(crate) fn is_first(&self) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| ranks.rank() == 0)
    }

    /// Returns the number of ranks on this machine.
    pub(crate) fn on_this_machine(&self) -> usize {
        #[cfg(feature = "mpi")]
        if self.ranks.is_some() {
            return crate::mpi::mpi_group::on_this_machine();
        }
        1
    }

    /// Makes sure that a step succeeds either on all ranks or on none. `done` is the result of the
    /// step on this rank. Returns `done` if the step succeeded on all ranks. Otherwise, returns an
    /// error on every rank.
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

    /// Checks that all ranks run the same build of the program, with the same `options` and the
    /// same number of threads, on CPUs with the same instruction sets.
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

    /// Wraps an error in [`Common`] if it occurs on all ranks. In the error message, replaces the
    /// names of settings with the corresponding command-line flags.
    pub(crate) fn common<T>(&self, done: Result<T, TrainError>) -> Result<T> {
        done.map_err(|error| match error.is_common() && self.ranks.is_some() {
            true => Common(with_flags(error)).into(),
            false => with_flags(error),
        })
    }

    /// Prints a line about each rank. Only rank 0 prints these lines.
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
            // An error while printing the lines about the ranks is ignored, because a training run
            // continues even if its standard output is closed.
            let _ = print(all.concat());
        }
    }

    /// Prints how many bytes rank 0 has sent and how much time it has spent in MPI calls. `seconds`
    /// is the duration of the whole run.
    #[cfg(feature = "mpi")]
    pub(crate) fn tell_traffic(&self, seconds: f64) {
        if self.ranks.is_some() && self.is_first() {
            let (sent, waited) = crate::mpi::mpi_group::traffic();
            let _ = print(format!(
                "mpi     rank 0 sent {} and spent {waited:.1} s of {seconds:.1} s in MPI calls, including the time it spent waiting for other ranks\n",
                bytes(sent as f64)
            ));
        }
    }

    /// Leaves the group at the end of the program. If an error occurred only on this rank, prints
    /// the error and ends all other ranks, which would otherwise wait for this rank forever.
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

/// Returns the error for a process that a launcher such as `mpirun` started together with others,
/// but that can't communicate with them, for example because `gpt` was built without MPI.
fn alone(launched: &Launched) -> Error {
    if launched.rank > 0 {
        // As soon as one process fails, the launcher ends all of them. The processes other than
        // rank 0 therefore wait before they fail, so that rank 0 has time to print the error.
        std::thread::sleep(Duration::from_secs(3));
        return Stopped(ExitCode::FAILURE).into();
    }
    let Launched { by, variable, .. } = launched;
    let processes = match launched.size {
        Some(size) => format!("{size} processes"),
        None => "an unknown number of processes".to_owned(),
    };
    let why = match cfg!(feature = "mpi") {
        true => "this build of gpt uses a different MPI library than the launcher",
        false => {
            "this build of gpt doesn't support MPI (build it with cargo build --release -p cli --features mpi)"
        }
    };
    anyhow!(
        "{by} started {processes}, but each of them would train independently, because {why}; to train in one process, start gpt without the launcher, or unset {variable}"
    )
}

/// Returns the CPU's architecture and the instruction sets that are used for matrix products. On
/// CPUs with other instruction sets, the last bits of the products may be different.
fn instruction_sets() -> String {
    let mut names = vec![std::env::consts::ARCH];
    names.extend(tensor_ops::instruction_sets());
    names.join(" ")
}

/// Returns the SHA-256 hash of this program's executable file. Comparing version numbers wouldn't
/// be sufficient, because two builds of the same version may round differently.
fn program_hash() -> Result<String> {
    let path =
        std::env::current_exe().context("can't determine the path of this program's executable")?;
    let program = fs::read(&path).with_context(|| path.display().to_string())?;
    Ok(sha256(program))
}
