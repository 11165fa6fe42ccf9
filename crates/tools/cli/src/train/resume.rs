//! A run that goes on as if it had never stopped: its own options, and of new ones only those that
//! change no number.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use atomic_file::is_file;
use train::runs::{TOKENIZER, read_settings};
use train::{RunFolder, TrainError, Trainer, latest_checkpoint};

use super::flags::Flags;
use super::options::{TrainOptions, is_shape};
use super::settings::{Base, settle};
use super::start::{Started, base, kept, start_in, write_options};
use crate::failure::misused;
use crate::runs::{self, OPTIONS, kept_path, typed};

/// The run to go on with, or the checkpoint of it, if the command line asks for that.
pub(crate) fn folder(
    resume: Option<&Option<PathBuf>>,
    said: &TrainOptions,
) -> Result<Option<PathBuf>> {
    let by_name = said.model.init_from.as_deref() == Some(Path::new("resume")); // nanoGPT's habit
    let named = match resume {
        Some(named) => named.as_ref(),
        None if by_name => None,
        None => return Ok(None),
    };
    match (named, &said.out_dir) {
        (Some(folder), Some(out_dir)) if !is_run_at(folder, out_dir)? => {
            let (folder, out_dir) = (folder.display(), out_dir.display());
            misused(format!(
                "--resume {folder} --out-dir {out_dir}: a run goes on in its own folder, expected one of the two"
            ))
        }
        (Some(folder), _) | (None, Some(folder)) => Ok(Some(folder.clone())),
        (None, None) => runs::newest(Path::new(runs::RUNS)).map(Some),
    }
}

/// Whether `resumed` is the run in the folder `run`, or a checkpoint of it.
fn is_run_at(resumed: &Path, run: &Path) -> Result<bool> {
    let resumed = run_of(resumed)?.unwrap_or_else(|| resumed.to_owned());
    let same = fs::canonicalize(&resumed).ok() == fs::canonicalize(run).ok();
    Ok(resumed == run || (same && run.exists()))
}

/// The run that a checkpoint's folder belongs to; none if the folder is not in a run.
fn run_of(folder: &Path) -> Result<Option<PathBuf>> {
    let run = folder.parent().and_then(Path::parent);
    Ok(match run {
        Some(run) if !is_file(folder.join(OPTIONS))? && is_file(run.join(OPTIONS))? => {
            Some(run.to_owned())
        }
        _ => None,
    })
}

/// Goes on with the run in `path` from its newest checkpoint, or from the checkpoint that `path`
/// is.
pub(crate) fn resume(path: &Path, said: &Flags, saves: bool) -> Result<Started> {
    let name = path.display();
    runs::require_folder(path, "a run's")?;
    let run = run_of(path)?;
    let chosen = run.is_some().then(|| path.to_owned());
    let path = run.as_deref().unwrap_or(path);
    if !is_file(path.join(OPTIONS))? {
        bail!("{name}: there is no run to resume: {OPTIONS} is missing");
    }
    let folder = saves.then(|| RunFolder::open(path)).transpose()?;
    let options = path.join(OPTIONS);
    let before = Flags::read(&options)?;
    // The last line of a whole file.
    if !before.has("weight_decay") {
        bail!(
            "{}: expected the options of a run, the last of them weight_decay; the file was emptied or cut",
            options.display()
        );
    }
    let newest = match latest_checkpoint(path) {
        Ok(checkpoint) => Some(checkpoint),
        Err(TrainError::NoCheckpoint { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    if chosen.is_none() {
        runs::note_damage(path)?;
    }
    let checkpoint = chosen.or(newest).map(latest_checkpoint).transpose()?;
    let base = match &checkpoint {
        Some(checkpoint) => Some(base_of(path, checkpoint)?),
        // It was stopped before its first checkpoint: it begins again, to the same bits.
        None => base(before.options(None)?.model.init_from.as_deref())?,
    };
    let model = base.as_ref().map(|base| &base.model);
    let now = said.clone().over(&before).options(model)?;
    let before = before.options(model)?;
    if let Some(from) = &now.model.init_from
        && now.model.init_from != before.model.init_from
        && from != Path::new("resume")
        && kept_path(from).ok() != before.model.init_from
    {
        return misused(format!(
            "--resume {name} --init-from {}: a resumed run has its own weights, expected one of the two",
            from.display()
        ));
    }
    let mut now = kept(now)?;
    now.model.init_from = before.model.init_from.clone();
    refuse_changes(path, before, &now)?;
    let settings = settle(now, base)?;
    let Some(checkpoint) = checkpoint else {
        return start_in(folder, settings);
    };
    let trainer = Trainer::resume(
        &checkpoint,
        settings.training.clone(),
        settings.model,
        settings.data.train.clone(),
        settings.data.validation.clone(),
    )?;
    if saves {
        write_options(path, &settings.options)?;
    }
    Ok(Started {
        trainer,
        folder,
        settings,
    })
}

/// The model of a checkpoint of the run in `path`.
fn base_of(path: &Path, checkpoint: &Path) -> Result<Base> {
    let model = read_settings(checkpoint)?.model;
    // A run from before there were tokenizers to choose has none beside its checkpoints.
    let beside = path.join(TOKENIZER);
    let folder = match beside.is_dir() {
        true => &beside,
        false => checkpoint,
    };
    Base::of(model, folder)
}

/// That nothing is asked for that would make it another run: of `before`, what is free may have
/// changed.
fn refuse_changes(path: &Path, mut before: TrainOptions, now: &TrainOptions) -> Result<()> {
    before.free = now.free.clone();
    before.training.epochs = now.training.epochs;
    let (name, before) = (path.display(), before.to_json()?);
    for (key, value) in now.to_json()? {
        let kept = before.get(&key);
        if kept != Some(&value) {
            let flag = key.replace('_', "-");
            let kept = kept.map_or("not set".to_owned(), ToString::to_string);
            let other = match is_shape(&key) {
                true => "a new run, without --resume, may have another".to_owned(),
                false => format!(
                    "--init-from {} begins another run with its weights",
                    typed(path)
                ),
            };
            bail!(
                "{name}: --{flag} is {kept} in the run, but {value} was asked for: a resumed run keeps its settings; {other}"
            );
        }
    }
    Ok(())
}
