//! A run that goes on as if it had never stopped: its own options, and of new ones only those that
//! change no number.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use atomic_file::{is_file, read_small_file};
use model_tokenizer::MOST_FILE_BYTES;
use toml::{Table, Value};
use train::runs::{CHECKPOINTS, TOKENIZER, read_settings};
use train::{RunFolder, latest_checkpoint};

use super::flags::{TrainFlags, over};
use super::options::TrainOptions;
use super::setup::BaseModel;
use super::start::{Origin, Weights};
use crate::ids::STDIN;
use crate::runs::{self, OPTIONS, typed};

/// Options that may be other when a run goes on: how long, how fast, what is shown, and where the
/// data is, which is known by its fingerprint.
const FREE: [&str; 9] = [
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

/// The run that is named, or the newest, which goes on from its newest checkpoint, or from the
/// checkpoint that is named; its folder is locked if this process `saves`.
pub(crate) fn origin(named: Option<&PathBuf>, said: &Table, saves: bool) -> Result<Origin> {
    let path = match named {
        Some(path) => path,
        None => &runs::newest(Path::new(runs::RUNS))?,
    };
    runs::require_folder(path, "a run's")?;
    let run = match path.parent() {
        Some(above) if above.ends_with(CHECKPOINTS) && !is_file(path.join(OPTIONS))? => {
            above.parent().unwrap_or(path)
        }
        _ => path,
    };
    let kept = run.join(OPTIONS);
    if !is_file(&kept)? {
        let name = path.display();
        bail!("{name}: there is no run to resume: {OPTIONS} is missing");
    }
    // Before anything is written there; and a run of another version says so, not its options.
    latest_checkpoint(path)?;
    let before = TrainFlags::read(&kept)?.table()?;
    refuse_changes(run, &before, said)?;
    let options = over(said, before).try_into::<TrainOptions>();
    let options = options.with_context(|| kept.display().to_string())?;
    if let Some(data) = &options.data
        && data != Path::new(STDIN)
        && !data.exists()
    {
        bail!(
            "{}: the run's data is not there; --data NEW says where it is now",
            data.display()
        );
    }
    let folder = saves.then(|| RunFolder::open(run)).transpose()?;
    let checkpoint = latest_checkpoint(path)?;
    runs::note_damage(path)?;
    check_tokenizer(run, &checkpoint)?;
    let settings = read_settings(&checkpoint)?;
    Ok(Origin {
        options,
        base: Some(BaseModel {
            schedule: settings.config.schedule,
            ..BaseModel::of(settings.model, &checkpoint)?
        }),
        weights: Weights::Checkpoint(checkpoint),
        folder,
    })
}

/// Checks that the run's tokenizer, which each new checkpoint gets, is the checkpoint's.
fn check_tokenizer(run: &Path, checkpoint: &Path) -> Result<()> {
    runs::check(checkpoint)?;
    let own = run.join(TOKENIZER);
    for name in runs::names(&own)? {
        let (now, saved) = (own.join(&name), checkpoint.join(&name));
        let read = |path: &Path| read_small_file(path, MOST_FILE_BYTES);
        if is_file(&saved)? && read(&now)? != read(&saved)? {
            bail!(
                "{}: it is not what the run was trained with; {} is, and put back in its place the run goes on",
                now.display(),
                saved.display()
            );
        }
    }
    Ok(())
}

/// Checks that nothing is asked for that would make it another run than that of the options
/// `before`.
fn refuse_changes(run: &Path, before: &Table, said: &Table) -> Result<()> {
    for (key, value) in said {
        let kept = before.get(key);
        if FREE.contains(&key.as_str()) || kept == Some(value) {
            continue;
        }
        bail!(
            "{}: --{} is {} in the run, but {value} was asked for: a resumed run keeps its settings; --init-from {} begins another with its weights",
            run.display(),
            key.replace('_', "-"),
            kept.map_or("not set".to_owned(), Value::to_string),
            typed(run)
        );
    }
    Ok(())
}
