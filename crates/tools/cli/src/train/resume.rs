//! Resumes a training run with its saved options. The user may change an option only if it doesn't
//! affect the result of any training step.

use std::ffi::OsString;
use std::io::{BufRead, IsTerminal, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use atomic_file::is_file;
use toml::Value;
use train::read_settings;
use train::runs::CHECKPOINTS;
use train::{RunFolder, TrainError, latest_checkpoint};

use super::arguments;
use super::choice::TokenizerChoice;
use super::options::TrainOptions;
use super::setup::BaseModel;
use super::start::{InitialWeights, Source};
use crate::model::ids::is_stdin;
use crate::terminal::command::flag;
use crate::terminal::shell::{program, shell_quoted};
use crate::train::runs::{self, OPTIONS};

/// Names of the options that the user may change when resuming a run. They control how long the run
/// is, how many threads it uses, which samples it generates, and which checkpoints it saves and
/// keeps. The path of the data may change as well, but the data itself must stay the same, which is
/// checked with a hash.
const CHANGEABLE: [&str; 9] = [
    "max_steps",
    "epochs",
    "data",
    "prompt",
    "sample_interval",
    "sample_tokens",
    "save_interval",
    "keep",
    "threads",
];

/// Names of the options whose values the program derives from other options or from the data if the
/// user doesn't set them. `options.toml` doesn't contain derived values, so this module accepts any
/// value that the user sets for such an option when resuming a run. The crate `train` then checks
/// that the value matches the one in the checkpoint.
const DERIVED: [&str; 4] = ["vocab_size", "max_length", "stride", "min_lr"];

/// Finds the training run to resume, and returns its latest checkpoint and its options. `named` is
/// the path of the run or of one of its checkpoints. If it is `None`, the run that was saved most
/// recently is resumed. `words` contains command-line arguments, which take precedence over the
/// run's saved options. If `saves` is true, this process will save checkpoints, so the folder of
/// the run is locked.
pub(crate) fn source(named: Option<&PathBuf>, words: &[OsString], saves: bool) -> Result<Source> {
    let path = match named {
        Some(path) => path,
        None => &runs::newest(Path::new(runs::RUNS))?,
    };
    runs::require_folder(path, "a run")?;
    let run = &run_of(path)?;
    let kept = run.join(OPTIONS);
    if !is_file(&kept)? {
        let name = path.display();
        match runs::newest(path) {
            Ok(run) => bail!(
                "{name}: this folder contains runs, but it isn't a run itself; to resume the newest run, use: {} train --resume {}",
                program(),
                shell_quoted(&run)
            ),
            Err(_) => bail!(
                "{name}: there is no run to resume in this folder, because {OPTIONS} is missing"
            ),
        }
    }
    // Checks that the latest checkpoint of the run can be read before anything is written to the
    // run's folder. If the run was created by an incompatible version of this program, this check
    // returns an error, and the folder stays unchanged.
    match latest_checkpoint(path) {
        Err(TrainError::NoCheckpoint { .. }) => return Err(runs::no_checkpoint(run)?),
        found => found?,
    };
    let kept = arguments::of_run(&kept)?;
    let before = arguments::read(&[&kept])?;
    let options = arguments::read(&[&kept, words])?;
    refuse_changes(run, &before, &options)?;
    match options.data.as_deref() {
        Some(data) if is_stdin(data) => require_input(run)?,
        Some(data) if !data.exists() => bail!(
            "{}: the run's training data doesn't exist at this path; if it has moved, specify its new path with --data",
            data.display()
        ),
        _ => {}
    }
    let folder = saves.then(|| RunFolder::open(run)).transpose()?;
    let checkpoint = latest_checkpoint(path)?;
    if let Some(folder) = &folder {
        folder.check_owner(&checkpoint)?;
        runs::note_ignored(run)?;
    }
    runs::check(&checkpoint)?;
    let settings = read_settings(&checkpoint)?;
    Ok(Source {
        options,
        base: Some(BaseModel {
            resumed: Some(settings.config),
            ..BaseModel::of(settings.model, &checkpoint)?
        }),
        began_with: before.data,
        weights: InitialWeights::Checkpoint(checkpoint),
        folder,
    })
}

/// Checks that data can be read from standard input, for a run that originally read its data from
/// there. Returns an error if standard input is empty. A terminal is rejected as well, because the
/// program would wait for the user to type the training data.
fn require_input(run: &Path) -> Result<()> {
    let mut input = stdin().lock();
    if input.is_terminal() || input.fill_buf().context("standard input")?.is_empty() {
        bail!(
            "{}: the run read its data from standard input; pipe the same data in again, or use --data FILE",
            run.display()
        );
    }
    Ok(())
}

/// Returns the folder of a training run. `path` is either this folder or a checkpoint in this
/// folder.
fn run_of(path: &Path) -> Result<PathBuf> {
    if is_file(path.join(OPTIONS))? {
        return Ok(path.to_owned());
    }
    let whole = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let run = whole.parent().filter(|above| above.ends_with(CHECKPOINTS));
    Ok(match run.and_then(Path::parent) {
        Some(run) => match path.parent().and_then(Path::parent) {
            Some(short) if short != Path::new("") => short.to_owned(),
            _ => run.to_owned(),
        },
        None => path.to_owned(),
    })
}

/// Compares the current options (`now`) of a resumed run with its saved options (`before`). Returns
/// an error if an option has changed, unless it is one of the options that the user may change.
fn refuse_changes(run: &Path, before: &TrainOptions, now: &TrainOptions) -> Result<()> {
    let (mut kept, now) = (before.table()?, now.table()?);
    if before.init_from.is_none() {
        let default = TokenizerChoice::from(before.preset().tokenizer);
        let tokenizer = kept.entry("tokenizer");
        tokenizer.or_insert_with(|| default.to_string().into());
    }
    for (name, value) in &now {
        let kept = kept.get(name);
        let is_derived = kept.is_none() && DERIVED.contains(&name.as_str());
        if CHANGEABLE.contains(&name.as_str()) || is_derived || kept == Some(value) {
            continue;
        }
        bail!(
            "{}: {} is {} in this run and can't be changed to {value}; to start a new run from this run's weights, use --init-from {}",
            run.display(),
            flag(name),
            kept.map_or("not set".to_owned(), Value::to_string),
            shell_quoted(run)
        );
    }
    Ok(())
}
