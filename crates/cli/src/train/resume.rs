//! A run that goes on as if it had never stopped: its own options, and of new ones only those that change no number.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use train::{RunFolder, TrainError, Trainer, latest_checkpoint, read_settings};

use super::config_file::{overlay, read, to_table};
use super::options::TrainOptions;
use super::start::{OPTIONS, Started, plan, start_in, write_options};
use crate::runs;

/// Options that may be other than at the start: they say how long, how fast and what is shown.
const FREE: [&str; 8] = [
    "log_interval",
    "max_steps",
    "out_dir",
    "prompt",
    "sample_interval",
    "sample_tokens",
    "save_interval",
    "threads",
];

/// The run to go on with, if the command line asks for that.
pub(crate) fn folder(
    resume: Option<&Option<PathBuf>>,
    options: &TrainOptions,
) -> Result<Option<PathBuf>> {
    let by_name = options.init_from.as_deref() == Some(Path::new("resume")); // nanoGPT's habit
    match (resume, &options.out_dir) {
        (Some(Some(folder)), _) => Ok(Some(run_of(folder))),
        (Some(None), Some(folder)) => Ok(Some(run_of(folder))),
        (None, Some(folder)) if by_name => Ok(Some(run_of(folder))),
        (Some(None), None) => runs::newest(Path::new(runs::RUNS)).map(Some),
        (None, None) if by_name => runs::newest(Path::new(runs::RUNS)).map(Some),
        (None, _) => Ok(None),
    }
}

/// The run that a checkpoint's folder belongs to, or the folder itself.
fn run_of(folder: &Path) -> PathBuf {
    let run = folder.parent().and_then(Path::parent);
    match run {
        Some(run) if !folder.join(OPTIONS).exists() && run.join(OPTIONS).exists() => run.to_owned(),
        _ => folder.to_owned(),
    }
}

/// Goes on with the run in `path`, from its newest checkpoint.
pub(crate) fn resume(path: &Path, asked: &TrainOptions, saves: bool) -> Result<Started> {
    let name = path.display();
    if !path.exists() {
        bail!("{name}: no such folder, so there is no run to resume");
    }
    if !path.is_dir() {
        bail!("{name}: expected a run's folder, but it is a file");
    }
    if !path.join(OPTIONS).exists() {
        bail!("{name}: there is no run to resume: {OPTIONS} is missing");
    }
    let folder = saves.then(|| RunFolder::open(path)).transpose()?;
    let saved = read(&path.join(OPTIONS))?;
    let mut asked = asked.clone();
    asked.init_from = None;
    if let Some(data) = &asked.data {
        asked.data = Some(std::path::absolute(data).with_context(|| data.display().to_string())?);
    }
    refuse_changes(path, &saved, &asked)?;
    let options = overlay(&saved, &asked);
    let checkpoint = match latest_checkpoint(path) {
        Ok(checkpoint) => Some(checkpoint),
        Err(TrainError::NoCheckpoint { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(checkpoint) = checkpoint else {
        // It was stopped before its first checkpoint: it begins again, to the same bits.
        let init_from = options.init_from.clone();
        let base = init_from
            .as_deref()
            .map(checkpoint::load_config)
            .transpose()?;
        return start_in(folder, plan(&options, base)?, init_from.as_deref());
    };
    let base = read_settings(&checkpoint)?.model;
    let plan = plan(&options, Some(base))?;
    let trainer = Trainer::resume(
        &checkpoint,
        plan.settings.training.clone(),
        &plan.settings.model,
        plan.loaders.train.clone(),
        plan.loaders.validation.clone(),
    )?;
    if saves {
        write_options(path, &plan.options)?;
    }
    Ok(Started {
        trainer,
        folder,
        options: plan.options,
        settings: plan.settings,
        data: plan.data,
        loaders: plan.loaders,
    })
}

/// That nothing is asked for that would make it another run.
fn refuse_changes(path: &Path, saved: &TrainOptions, asked: &TrainOptions) -> Result<()> {
    let saved = to_table(saved);
    for (key, value) in to_table(asked) {
        let before = saved.get(&key);
        if before != Some(&value) && !FREE.contains(&key.as_str()) {
            let flag = key.replace('_', "-");
            let before = before.map_or("not set".to_owned(), ToString::to_string);
            bail!(
                "{}: --{flag} is {before} in the run, but {value} was asked for: a resumed run keeps its settings",
                path.display()
            );
        }
    }
    Ok(())
}
