//! The folder that a run is kept in: its checkpoints, which of them count, and a lock.
//!
//! ```text
//! latest.json                       the checkpoints that count, the newest last
//! checkpoints/step-00000120/        one checkpoint
//! tokenizer/                        copied into every checkpoint
//! .lock                             held by the run that writes here
//! ```
//!
//! A save writes a new folder, then latest.json, then deletes what that no longer names.
//! So a kill at any moment leaves latest.json naming complete checkpoints; what it interrupted is deleted at the next start.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use atomic_file::{remove_unfinished, sync_folder};
use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::manifest::{MANIFEST_FILE, read_json, write_json};

const LATEST: &str = "latest.json";
const CHECKPOINTS: &str = "checkpoints";
const LOCK: &str = ".lock";
const PREFIX: &str = "step-";

/// Files here are copied into every checkpoint: a tokenizer, for instance.
const BESIDE: &str = "tokenizer";

/// A run's folder, locked as long as this lives.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    _lock: File,
}

/// latest.json.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Latest {
    /// Names of folders, the newest last.
    checkpoints: Vec<String>,
}

impl RunFolder {
    /// Makes the folder if there is none, locks it, and deletes what a killed run left half-written.
    ///
    /// # Errors
    /// [`TrainError::NotAFolder`], [`TrainError::Locked`], or what the system says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TrainError> {
        let path = path.as_ref().to_owned();
        if path.exists() && !path.is_dir() {
            return Err(TrainError::NotAFolder { path });
        }
        let checkpoints = path.join(CHECKPOINTS);
        fs::create_dir_all(&checkpoints).map_err(TrainError::io(&checkpoints, "create"))?;
        let lock_path = path.join(LOCK);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(TrainError::io(&lock_path, "create"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(TrainError::Locked { path }),
            Err(TryLockError::Error(error)) => {
                return Err(TrainError::io(&lock_path, "lock")(error));
            }
        }
        let folder = Self { path, _lock: lock };
        folder.clean_up()?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder, in the run at `path`, of files that every checkpoint gets a copy of; it may not be there.
    pub fn beside(path: &Path) -> PathBuf {
        path.join(BESIDE)
    }

    /// The newest checkpoint; none if nothing has been saved.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn newest(&self) -> Result<Option<PathBuf>, TrainError> {
        newest(&self.path)
    }

    /// Lets `write` fill a new folder, makes that the newest checkpoint, and deletes all but the `keep` newest.
    pub(crate) fn add(
        &self,
        name: &str,
        keep: usize,
        write: impl FnOnce(&Path) -> Result<(), TrainError>,
    ) -> Result<PathBuf, TrainError> {
        let checkpoints = self.path.join(CHECKPOINTS);
        let mut latest = read_latest(&self.path)?;
        let name = free_name(&checkpoints, name);
        let folder = checkpoints.join(&name);
        fs::create_dir(&folder).map_err(TrainError::io(&folder, "create"))?;
        let written = copy_files(&Self::beside(&self.path), &folder)
            .and_then(|()| write(&folder))
            .and_then(|()| Ok(sync_folder(&folder)?))
            .and_then(|()| Ok(sync_folder(&checkpoints)?))
            .and_then(|()| {
                latest.checkpoints.push(name);
                let too_many = latest.checkpoints.len().saturating_sub(keep);
                latest.checkpoints.drain(..too_many);
                write_json(&self.path.join(LATEST), &latest)
            });
        if let Err(error) = written {
            // A full disk, most likely: the error to report is the first one.
            let _ = fs::remove_dir_all(&folder);
            return Err(error);
        }
        for name in step_folders(&checkpoints)? {
            if !latest.checkpoints.contains(&name) {
                let old = checkpoints.join(&name);
                fs::remove_dir_all(&old).map_err(TrainError::io(&old, "delete"))?;
            }
        }
        Ok(folder)
    }

    /// Deletes temporary files, and folders of checkpoints that were never completed.
    fn clean_up(&self) -> Result<(), TrainError> {
        remove_unfinished(&self.path)?;
        let checkpoints = self.path.join(CHECKPOINTS);
        for name in step_folders(&checkpoints)? {
            let folder = checkpoints.join(&name);
            if folder.join(MANIFEST_FILE).exists() {
                remove_unfinished(&folder)?;
            } else {
                fs::remove_dir_all(&folder).map_err(TrainError::io(&folder, "delete"))?;
            }
        }
        Ok(())
    }
}

/// Copies the files of a folder, if it is there.
fn copy_files(from: &Path, to: &Path) -> Result<(), TrainError> {
    if !from.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(from).map_err(TrainError::io(from, "read"))? {
        let entry = entry.map_err(TrainError::io(from, "read"))?;
        let file = to.join(entry.file_name());
        fs::copy(entry.path(), &file).map_err(TrainError::io(&file, "write"))?;
    }
    Ok(())
}

/// The newest checkpoint of the run kept in `path`.
pub(crate) fn newest(path: &Path) -> Result<Option<PathBuf>, TrainError> {
    let latest = read_latest(path)?;
    let name = latest.checkpoints.last();
    Ok(name.map(|name| path.join(CHECKPOINTS).join(name)))
}

/// What latest.json names; without one, all complete checkpoints in the order of their steps.
fn read_latest(path: &Path) -> Result<Latest, TrainError> {
    let file = path.join(LATEST);
    if file.exists() {
        let latest: Latest = read_json(&file)?;
        return match latest.checkpoints.iter().all(|name| is_step_name(name)) {
            true => Ok(latest),
            false => Err(TrainError::State {
                path: file,
                what: "a checkpoint's name does not look like step-00000120",
            }),
        };
    }
    let checkpoints = path.join(CHECKPOINTS);
    if !checkpoints.is_dir() {
        return Ok(Latest::default());
    }
    let mut names = step_folders(&checkpoints)?;
    names.retain(|name| checkpoints.join(name).join(MANIFEST_FILE).exists());
    Ok(Latest { checkpoints: names })
}

/// The names of the folders in `checkpoints` that are ours, sorted.
fn step_folders(checkpoints: &Path) -> Result<Vec<String>, TrainError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(checkpoints).map_err(TrainError::io(checkpoints, "read"))? {
        let entry = entry.map_err(TrainError::io(checkpoints, "read"))?;
        if let Ok(name) = entry.file_name().into_string()
            && is_step_name(&name)
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn is_step_name(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_digit())
            && rest
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
    })
}

/// `name`, or `name.2` and so on if that is there already: a run that went back saves the same step again.
fn free_name(checkpoints: &Path, name: &str) -> String {
    let mut free = name.to_owned();
    let mut copy = 2;
    while checkpoints.join(&free).exists() {
        free = format!("{name}.{copy}");
        copy += 1;
    }
    free
}

/// The name of a checkpoint after so many steps, and so many batches accumulated since.
pub(crate) fn step_name(steps_done: u64, micro_step: u64) -> String {
    match micro_step {
        0 => format!("{PREFIX}{steps_done:08}"),
        _ => format!("{PREFIX}{steps_done:08}-batch-{micro_step}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_manifest(folder: &Path) -> Result<(), TrainError> {
        let path = folder.join(MANIFEST_FILE);
        fs::write(&path, "{}").map_err(TrainError::io(&path, "write"))
    }

    #[test]
    fn a_save_that_fails_leaves_the_checkpoint_before_and_nothing_else() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let good = folder.add("step-00000001", 1, write_manifest);
        let good = good.expect("a save that works");
        let full = |folder: &Path| {
            write_manifest(folder)?;
            Err(TrainError::io(folder, "write")(
                std::io::ErrorKind::StorageFull.into(),
            ))
        };
        let error = folder
            .add("step-00000002", 1, full)
            .expect_err("a full disk");
        assert!(
            error.to_string().contains("step-00000002: can't write"),
            "{error}"
        );
        assert_eq!(folder.newest().expect("latest.json"), Some(good));
        let left = step_folders(&temporary.path().join(CHECKPOINTS)).expect("a folder");
        assert_eq!(left, ["step-00000001"]);
    }

    #[test]
    fn names_that_are_not_ours_are_left_alone_and_refused() {
        for ours in ["step-00000120", "step-00000120.2", "step-00000120-batch-3"] {
            assert!(is_step_name(ours), "{ours}");
        }
        for other in ["step-", "step-x", "step-1/../..", "best", "step-1 "] {
            assert!(!is_step_name(other), "{other}");
        }
    }
}
