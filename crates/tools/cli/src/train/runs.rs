//! Manages the folder `runs/`, which contains a numbered folder for each training run. This module
//! creates the numbered folders, finds the run that was saved most recently, and finds the model of
//! a run, which is the run's latest checkpoint.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind::{AlreadyExists, NotADirectory, NotFound};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use atomic_file::{
    create_folder, create_new_folder, is_file, is_system_file, missing_reason, names_in,
    read_small_file, unfinished_of,
};
use checkpoint::CONFIG;
use train::check_tokenizer;
use train::runs::{CHECKPOINTS, ignored_checkpoints, run_id};
use train::{TrainError, latest_checkpoint};

use crate::terminal::output::note;
use crate::terminal::shell::{program, shell_quoted};
use crate::train::log;
pub(crate) use crate::train::log::LOG;

/// Name of the folder in the working directory that contains all training runs.
pub(crate) const RUNS: &str = "runs";

/// Name of the file in a run's folder that contains the options of the run.
pub(crate) const OPTIONS: &str = "options.toml";
/// Name of the file in a run's folder that contains the loss curve.
pub(crate) const SVG: &str = "loss.svg";

/// Maximum length in bytes of a file that contains options.
pub(crate) const MAX_OPTIONS_BYTES: u64 = 1 << 20;

/// Converts a path to an absolute path, so that it can be saved with a training run. A relative
/// path would refer to a different file if the run were resumed from another working directory.
///
/// # Errors
/// Returns an error if the path isn't UTF-8, because TOML files can't contain such paths.
pub(crate) fn kept_path(path: &Path) -> Result<PathBuf> {
    let name = path.display();
    let absolute = std::path::absolute(path).with_context(|| name.to_string())?;
    if absolute.to_str().is_none() {
        bail!(
            "{name}: the path must be valid UTF-8, because it is saved in the run's options.toml"
        );
    }
    Ok(absolute)
}

/// First line of the file with a run's options.
pub(crate) const OPTIONS_BEGIN: &str =
    "# The options of this run; `gpt train --config` takes them.";

/// Returns true if a folder belongs to a training run that hasn't saved a checkpoint yet. Such a
/// folder contains the run's options, but no checkpoint, no loss curve, and no log line about a
/// saved checkpoint.
pub(crate) fn never_saved(run: &Path) -> Result<bool> {
    let has = |name: &str| fs::symlink_metadata(run.join(name)).is_ok();
    let options = read_small_file(run.join(OPTIONS), MAX_OPTIONS_BYTES).unwrap_or_default();
    let is_run = options.starts_with(OPTIONS_BEGIN.as_bytes()) && !has(SVG);
    Ok(is_run && finished(&run.join(CHECKPOINTS))?.is_empty() && !log::has_saved(run)?)
}

/// Returns the error for a training run that has no checkpoints. If the run has never saved one,
/// the error message contains the command that starts the run again.
pub(crate) fn no_checkpoint(run: &Path) -> Result<anyhow::Error> {
    let name = run.display();
    Ok(match never_saved(run)? {
        true => anyhow!(
            "{name}: this run ended before it saved a checkpoint; to start it again, use: {} train --config {} --out-dir {}",
            program(),
            shell_quoted(&run.join(OPTIONS)),
            shell_quoted(run)
        ),
        false => {
            anyhow!(
                "{name}: this run has no checkpoint to resume from; start a new run in another folder"
            )
        }
    })
}

/// Maximum number of digits in the name of a folder that counts as a numbered run. New runs get the
/// highest number in `runs/` plus 1. A folder whose name is a longer number, such as a timestamp,
/// doesn't affect this number.
const MAX_DIGITS: usize = 9;

/// Creates a folder for a new run. The folders are numbered consecutively: `runs/0001`, `runs/0002`
/// and so on.
pub(crate) fn create(runs: &Path) -> Result<PathBuf> {
    if fs::metadata(runs).is_ok_and(|found| !found.is_dir()) {
        bail!(
            "{}: new runs are saved in a folder with this name, but a file with the same name already exists; rename the file",
            runs.display()
        );
    }
    create_folder(runs)?;
    let used = names(runs)?
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.len() <= MAX_DIGITS)
        .filter_map(|name| name.parse().ok());
    let mut number = used.max().unwrap_or(0u64) + 1;
    loop {
        let folder = runs.join(format!("{number:04}"));
        match create_new_folder(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.source.kind() == AlreadyExists => number += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the training run that has saved a checkpoint most recently.
///
/// # Errors
/// Returns an error if there is no run, or if the checkpoints of the newest run can't be read. In
/// the second case, an older run isn't used in its place.
pub(crate) fn newest(runs: &Path) -> Result<PathBuf> {
    let names = names(runs)?.into_iter();
    let mut saved: Vec<_> = names
        .filter_map(|name| SavedRun::of(runs.join(name)))
        .collect();
    saved.sort_by_key(|run| run.time);
    for run in saved.iter().rev() {
        if saved.iter().any(|other| run.is_copy_of(other)) {
            continue;
        }
        let path = run.path.display();
        match latest_checkpoint(&run.path) {
            Ok(_) => {
                for copy in saved.iter().filter(|copy| copy.is_copy_of(run)) {
                    note(&format!(
                        "{} is a copy of {path}, so the original is used; to use the copy, specify its path",
                        copy.path.display()
                    ));
                }
                return Ok(run.path.clone());
            }
            // Skips a run that has no complete checkpoint.
            Err(TrainError::NoCheckpoint { .. }) => {}
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "the newest run, {path}, can't be used (to use another run, specify its path)"
                    )
                });
            }
        }
    }
    bail!(
        "there is no run in {}/ yet; train a model with `{} train`, or specify the folder of a model",
        runs.display(),
        program()
    )
}

/// A training run that has saved a checkpoint.
struct SavedRun {
    path: PathBuf,
    /// Time of the run's last save.
    time: SystemTime,
    id: Option<String>,
    /// Whether the folder still has the name that the run recorded when it was last trained. Users
    /// may copy the folder of a run, typically under another name. If several folders contain the
    /// same run, a folder with the recorded name is therefore considered the original.
    has_its_name: bool,
    /// Whether the name of the folder is a number, such as `0001`. If several folders contain the
    /// same run and none of them has the recorded name, a folder with such a name is more likely to
    /// be the original, because `gpt train` creates numbered folders.
    is_numbered: bool,
}

impl SavedRun {
    /// Returns the training run in a folder, or `None` if the folder contains no checkpoints.
    fn of(path: PathBuf) -> Option<Self> {
        let time = last_saved(&path)?;
        let (id, has_its_name) = run_id(&path).unzip();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        Some(Self {
            is_numbered: name.iter().all(u8::is_ascii_digit),
            has_its_name: has_its_name.unwrap_or(false),
            id,
            time,
            path,
        })
    }

    /// Returns true if this folder is considered a copy of the folder `other`. This is the case if
    /// both contain a run with the same ID, and `other` is more likely to be the original.
    fn is_copy_of(&self, other: &Self) -> bool {
        let rank = |run: &Self| (run.has_its_name, run.is_numbered, run.time);
        self.id.is_some()
            && self.id == other.id
            && (rank(self), &self.path) < (rank(other), &other.path)
    }
}

/// Returns the time when a run last saved a checkpoint, or `None` if it has no checkpoints. If the
/// folder with the checkpoints can't be listed, returns the time when the folder of the run was
/// last modified.
fn last_saved(run: &Path) -> Option<SystemTime> {
    let checkpoints = run.join(CHECKPOINTS);
    let changed = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let Ok(names) = names(&checkpoints) else {
        return Some(changed(run).unwrap_or(SystemTime::UNIX_EPOCH));
    };
    let is_save = |name: &&OsString| name.as_encoded_bytes().starts_with(b"step-");
    let saves = names.iter().filter(is_save);
    let times = saves.map(|name| changed(&checkpoints.join(name)));
    times
        .max()
        .map(|time| time.unwrap_or(SystemTime::UNIX_EPOCH))
}

/// Returns the folder that contains a model's weights. If `path` is the folder of a training run,
/// this is the latest checkpoint of the run. Otherwise, it is `path` itself.
///
/// # Errors
/// Returns an error if the run has no complete checkpoint, or if `path` contains runs.
pub(crate) fn model_folder(path: &Path) -> Result<PathBuf> {
    require_folder(path, "a model")?;
    if is_file(path.join(CONFIG))? {
        return Ok(path.to_owned());
    }
    let name = path.display();
    match latest_checkpoint(path) {
        Ok(checkpoint) => {
            note_ignored(path)?;
            Ok(checkpoint)
        }
        Err(TrainError::NoCheckpoint { .. }) if is_file(path.join(OPTIONS))? => {
            Err(no_checkpoint(path)?)
        }
        Err(TrainError::NoCheckpoint { .. }) => match newest(path) {
            Ok(run) => bail!(
                "{name}: this folder contains runs, but a single run is required; specify the path of a run, such as the newest one, {}",
                run.display()
            ),
            // The folder contains neither a model nor training runs. Its path is returned anyway,
            // because the attempt to load a model from it leads to a better error message, which
            // contains the name of the missing file.
            Err(_) => Ok(path.to_owned()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Returns an error if `path` isn't an existing folder. `what` tells the user what the folder
/// should contain, such as "a model" in the error message "a model must be a folder".
pub(crate) fn require_folder(path: &Path, what: &str) -> Result<()> {
    let name = path.display();
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => bail!(
            "{name}: this is a file, but {what} must be a folder; specify the path of a folder"
        ),
        Err(error) if error.kind() == NotFound => {
            let reason = missing_reason(path);
            let missing = "this folder doesn't exist; gpt doesn't download models, so give the path of a local folder";
            bail!("{name}: {}", reason.as_deref().unwrap_or(missing))
        }
        Err(error) => Err(error).with_context(|| name.to_string()),
    }
}

/// Prints notes about those checkpoints of a run that are ignored because they are damaged or
/// belong to another run. If this function is called several times, the notes are printed only
/// once.
pub(crate) fn note_ignored(run: &Path) -> Result<()> {
    static ONCE: Once = Once::new();
    let notes = ignored_checkpoints(run)?;
    if !notes.is_empty() {
        ONCE.call_once(|| notes.iter().for_each(|text| note(text)));
    }
    Ok(())
}

/// If a folder is a checkpoint of a training run, checks that the files of its tokenizer haven't
/// been changed. Any other folder is accepted without a check.
pub(crate) fn check(folder: &Path) -> Result<()> {
    Ok(check_tokenizer(folder)?)
}

/// Returns the names of the files and folders in a folder, except for system files and for
/// unfinished files that a killed process has left behind. Returns an empty list if the folder
/// doesn't exist.
pub(crate) fn finished(folder: &Path) -> Result<Vec<OsString>> {
    let mut names = names(folder)?;
    names.retain(|name| unfinished_of(name).is_none());
    Ok(names)
}

/// Returns the names of the files and folders in a folder, except for system files such as
/// `.DS_Store`. Returns an empty list if the folder doesn't exist.
pub(crate) fn names(folder: &Path) -> Result<Vec<OsString>> {
    let mut names = match names_in(folder) {
        Err(error) if [NotFound, NotADirectory].contains(&error.source.kind()) => Vec::new(),
        names => names?,
    };
    names.retain(|name| !is_system_file(name));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_gets_the_next_number() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join(RUNS);
        assert_eq!(create(&runs).unwrap(), runs.join("0001"));
        fs::create_dir(runs.join("0041")).unwrap();
        assert_eq!(create(&runs).unwrap(), runs.join("0042"));
        fs::create_dir(runs.join("4294967295")).unwrap();
        assert_eq!(create(&runs).unwrap(), runs.join("0043"));
        fs::create_dir(runs.join("999999999")).unwrap();
        for next in ["1000000000", "1000000001"] {
            assert_eq!(create(&runs).unwrap(), runs.join(next));
        }
    }
}
