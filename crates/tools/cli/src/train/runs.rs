//! The folder `runs/`: a numbered folder for each run, the files in it, the newest run, and the
//! model that a run is: its newest checkpoint.

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
use train::runs::{CHECKPOINTS, check_tokenizer, ignored_checkpoints, run_id};
use train::{TrainError, latest_checkpoint};

use crate::terminal::output::note;
use crate::terminal::shell::{program, shell_quoted};
use crate::train::log;
pub(crate) use crate::train::log::LOG;

/// The folder of runs, under the current one.
pub(crate) const RUNS: &str = "runs";

/// The names in a run's folder besides its checkpoints and its log: its options and its curve.
pub(crate) const OPTIONS: &str = "options.toml";
pub(crate) const SVG: &str = "loss.svg";

/// The most bytes of a file of options.
pub(crate) const MAX_OPTIONS_BYTES: u64 = 1 << 20;

/// A path that a run can keep: absolute, so that it can be resumed from another folder, and text.
///
/// # Errors
/// If the path is not UTF-8, which a file of options can't hold.
pub(crate) fn kept_path(path: &Path) -> Result<PathBuf> {
    let name = path.display();
    let absolute = std::path::absolute(path).with_context(|| name.to_string())?;
    if absolute.to_str().is_none() {
        bail!("{name}: the path must be UTF-8, because it is saved in the run's options.toml");
    }
    Ok(absolute)
}

/// The first line of a run's options.
pub(crate) const OPTIONS_BEGIN: &str =
    "# The options of this run; `gpt train --config` takes them.";

/// True for a run that ended before its first save: it has our options file, and no files of a
/// save.
pub(crate) fn never_saved(run: &Path) -> Result<bool> {
    let has = |name: &str| fs::symlink_metadata(run.join(name)).is_ok();
    let options = read_small_file(run.join(OPTIONS), MAX_OPTIONS_BYTES).unwrap_or_default();
    let is_run = options.starts_with(OPTIONS_BEGIN.as_bytes()) && !has(SVG);
    Ok(is_run && finished(&run.join(CHECKPOINTS))?.is_empty() && !log::has_saved(run)?)
}

/// The error of a run without a checkpoint, with the command that helps.
pub(crate) fn no_checkpoint(run: &Path) -> Result<anyhow::Error> {
    let name = run.display();
    Ok(match never_saved(run)? {
        true => anyhow!(
            "{name}: this run ended before its first save; to start it again: {} train --config {} --out-dir {}",
            program(),
            shell_quoted(&run.join(OPTIONS)),
            shell_quoted(run)
        ),
        false => {
            anyhow!("{name}: there is no checkpoint of this run; start a new run in another folder")
        }
    })
}

/// Names with more digits aren't numbers of runs.
const MAX_DIGITS: usize = 9;

/// Makes the next free folder: `runs/0001`, `runs/0002`, ...
pub(crate) fn create(runs: &Path) -> Result<PathBuf> {
    if fs::metadata(runs).is_ok_and(|found| !found.is_dir()) {
        bail!(
            "{}: expected a folder for runs, but this is a file",
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

/// The run that was saved last.
///
/// # Errors
/// If there is none, with the command that makes one; if its checkpoints can't be read: no older
/// run takes its place.
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
                        "{} is a copy of {path}, so the original is used; to use the copy, give its path",
                        copy.path.display()
                    ));
                }
                return Ok(run.path.clone());
            }
            Err(TrainError::NoCheckpoint { .. }) => {} // it has never saved
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("can't use the newest run, {path} (to use another run, give its path)")
                });
            }
        }
    }
    bail!(
        "there is no run in {}/ yet; train a model with `{} train`, or give the folder of a model",
        runs.display(),
        program()
    )
}

/// A run that has saved.
struct SavedRun {
    path: PathBuf,
    /// The time of its last save.
    time: SystemTime,
    id: Option<String>,
    /// Whether it has the name under which it was opened last, and whether this is a number.
    has_its_name: bool,
    is_numbered: bool,
}

impl SavedRun {
    /// Returns `None` for a folder without checkpoints.
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

    /// True if both are the same run, and the other one is the original.
    fn is_copy_of(&self, other: &Self) -> bool {
        let rank = |run: &Self| (run.has_its_name, run.is_numbered, run.time);
        self.id.is_some()
            && self.id == other.id
            && (rank(self), &self.path) < (rank(other), &other.path)
    }
}

/// The time of a run's last save; of a run whose checkpoints can't be listed, of its last change.
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

/// The folder with the weights: `path` itself, or a run's newest checkpoint.
///
/// # Errors
/// If a run has never saved, or none of its checkpoints is whole; if the folder contains runs.
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
                "{name}: this folder contains runs; choose one of them, for example the newest, {}",
                run.display()
            ),
            Err(_) => Ok(path.to_owned()), // loading it reports what is missing
        },
        Err(error) => Err(error.into()),
    }
}

/// Checks that there is a folder, and not something else.
pub(crate) fn require_folder(path: &Path, what: &str) -> Result<()> {
    let name = path.display();
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => bail!("{name}: expected the folder of {what}, but this is a file"),
        Err(error) if error.kind() == NotFound => {
            let reason = missing_reason(path);
            let missing =
                "no such folder; models aren't downloaded, so give the path of a local folder";
            bail!("{name}: {}", reason.as_deref().unwrap_or(missing))
        }
        Err(error) => Err(error).with_context(|| name.to_string()),
    }
}

/// Notes the checkpoints of a run that are ignored, once, however often the run is looked at.
pub(crate) fn note_ignored(run: &Path) -> Result<()> {
    static ONCE: Once = Once::new();
    let notes = ignored_checkpoints(run)?;
    if !notes.is_empty() {
        ONCE.call_once(|| notes.iter().for_each(|text| note(text)));
    }
    Ok(())
}

/// Checks that the tokenizer in a folder, if that is a run's checkpoint, is unchanged.
pub(crate) fn check(folder: &Path) -> Result<()> {
    Ok(check_tokenizer(folder)?)
}

/// The names in a folder, without system files and what a killed process left unfinished; none if
/// the folder is missing.
pub(crate) fn finished(folder: &Path) -> Result<Vec<OsString>> {
    let mut names = names(folder)?;
    names.retain(|name| unfinished_of(name).is_none());
    Ok(names)
}

/// The names in a folder, without system files; none if the folder is missing.
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
