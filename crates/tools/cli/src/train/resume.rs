//! A run that goes on as if it had never stopped: its own options, and of new ones only those that
//! change no number.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use atomic_file::{is_file, read_small_file};
use gpt::GptConfig;
use model_tokenizer::MOST_FILE_BYTES;
use toml::{Table, Value};
use train::runs::{TOKENIZER, read_settings};
use train::{RunFolder, TrainError, Trainer, latest_checkpoint};

use super::data::is_there;
use super::flags::TrainFlags;
use super::options::{TrainOptions, over, shape};
use super::setup::{BaseModel, set_up};
use super::start::{Started, write_options};
use crate::failure::misused;
use crate::hints::program;
use crate::ids::STDIN;
use crate::runs::{self, OPTIONS, typed};

/// Options that may be other when a run goes on: how long, how fast, what is shown, and where the
/// data is, which is known by its fingerprint.
const FREE: [&str; 10] = [
    "max_steps",
    "epochs",
    "data",
    "sample_interval",
    "prompt",
    "sample_tokens",
    "save_interval",
    "keep",
    "log_interval",
    "threads",
];

/// The run to go on with, or the checkpoint of it, if the command line asks for that.
pub(crate) fn folder(
    resume: Option<&Option<PathBuf>>,
    out_dir: Option<&Path>,
) -> Result<Option<PathBuf>> {
    Ok(match (resume, out_dir) {
        (None, _) => None,
        (Some(Some(folder)), Some(out_dir)) => {
            let (folder, out_dir) = (folder.display(), out_dir.display());
            return misused(format!(
                "--resume {folder} --out-dir {out_dir}: a run goes on in its own folder, expected one of the two"
            ));
        }
        (Some(Some(folder)), None) => Some(folder.clone()),
        (Some(None), Some(out_dir)) => Some(out_dir.to_owned()),
        (Some(None), None) => Some(runs::newest(Path::new(runs::RUNS))?),
    })
}

/// Goes on with the run in `path` from its newest checkpoint, or from the checkpoint that `path`
/// is.
pub(crate) fn resume(path: &Path, said: &Table, saves: bool) -> Result<Started> {
    let name = path.display();
    runs::require_folder(path, "a run's")?;
    let of_checkpoint = match path.ancestors().nth(2) {
        Some(run) if !is_file(path.join(OPTIONS))? && is_file(run.join(OPTIONS))? => Some(run),
        _ => None,
    };
    let run = of_checkpoint.unwrap_or(path);
    let kept = run.join(OPTIONS);
    if !is_file(&kept)? {
        bail!("{name}: there is no run to resume: {OPTIONS} is missing");
    }
    let folder = saves.then(|| RunFolder::open(run)).transpose()?;
    let before = TrainFlags::read(&kept)?.table()?;
    let whole = before.clone().try_into::<TrainOptions>();
    whole.with_context(|| format!("{}: the file was emptied or cut", kept.display()))?;
    let checkpoint = match latest_checkpoint(path) {
        Err(TrainError::NoCheckpoint { .. }) => bail!(
            "{name}: this run has no checkpoint to go on from; `{} train --config {} --out-dir NEW` begins it anew",
            program(),
            typed(&kept)
        ),
        found => found?,
    };
    if of_checkpoint.is_none() {
        runs::note_damage(path)?;
    }
    refuse_changes(run, &before, said)?;
    check_tokenizer(run, &checkpoint)?;
    let base = BaseModel::of(read_settings(&checkpoint)?.model, &checkpoint)?;
    let options: TrainOptions = over(said, before.clone()).try_into()?;
    let of = |table: &Table| {
        table
            .get("data")
            .map_or("the story".to_owned(), Value::to_string)
    };
    let (was, now) = (of(&before), of(said));
    let other_data = || format!("--data {now}: the run began with {was}");
    let moved = said.contains_key("data") && was != now;
    if let Some(data) = options.data.as_deref().filter(|_| !moved)
        && data != Path::new(STDIN)
        && !is_there(data)?
    {
        bail!(
            "{}: the run's data is not there; --data NEW says where it is now",
            data.display()
        );
    }
    let made = set_up(options, Some(base)).and_then(|setup| {
        let trainer = Trainer::resume(
            &checkpoint,
            setup.training.clone(),
            setup.model,
            setup.data.train.clone(),
            setup.data.validation.clone(),
        )?;
        Ok((setup, trainer))
    });
    let (setup, trainer) = match moved {
        true => made.with_context(other_data)?,
        false => made?,
    };
    if saves {
        write_options(run, &setup.options)?;
        setup.vocabulary.save(&run.join(TOKENIZER))?;
    }
    Ok(Started {
        trainer,
        folder,
        setup,
    })
}

/// That the run's tokenizer, which each new checkpoint gets, is that of `checkpoint`.
fn check_tokenizer(run: &Path, checkpoint: &Path) -> Result<()> {
    runs::check(checkpoint)?;
    let beside = run.join(TOKENIZER);
    for name in runs::names(&beside)? {
        let (now, saved) = (beside.join(&name), checkpoint.join(&name));
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

/// That nothing is asked for that would make it another run than that of the options `before`.
fn refuse_changes(run: &Path, before: &Table, said: &Table) -> Result<()> {
    let name = run.display();
    for (key, value) in said {
        let kept = before.get(key);
        if FREE.contains(&key.as_str()) || kept == Some(value) {
            continue;
        }
        if key == "init_from" {
            return misused(format!(
                "--resume {name} --init-from {value}: a resumed run has its own weights, expected one of the two"
            ));
        }
        let needs_other_weights = key == "tokenizer"
            || key != "drop_rate" && shape(&GptConfig::GPT2_124M)?.contains_key(key);
        let other = match needs_other_weights {
            true => "a new run, without --resume, may have another".to_owned(),
            false => format!(
                "--init-from {} begins another run with its weights",
                typed(run)
            ),
        };
        let flag = key.replace('_', "-");
        let kept = kept.map_or("not set".to_owned(), Value::to_string);
        bail!(
            "{name}: --{flag} is {kept} in the run, but {value} was asked for: a resumed run keeps its settings; {other}"
        );
    }
    Ok(())
}
