//! Functions that find the checkpoints of a run by reading their manifests. No index file is
//! needed.
//!
//! The folder of a checkpoint appears by a single rename after all of its files have been written.
//! Its manifest contains the ID of the run, the number of the save and the validation loss, so the
//! newest and the best checkpoint can always be determined.

use std::path::{Path, PathBuf};

use atomic_file::names_in;

use crate::TrainError;
use crate::identity::{self, RunFile};
use crate::manifest::{MANIFEST_FILE, Manifest, is_gone};

/// Name of the folder in a run's folder that contains the checkpoints.
pub const CHECKPOINTS: &str = "checkpoints";

/// Maximum number of times that the checkpoints are listed again because a save deleted some of
/// them in the meantime.
const MAX_RETRIES: usize = 100;

/// The checkpoints in the folder of a run.
#[derive(Debug, Default)]
pub(crate) struct RunCheckpoints {
    /// ID of the run, or `None` if no file in the folder contains one.
    pub(crate) run: Option<String>,
    /// Intact checkpoints of the run in the order of their saves. The newest is the last one.
    pub(crate) whole: Vec<(PathBuf, Manifest)>,
    /// Error that describes the problem with a damaged checkpoint, or `None` if no checkpoint is
    /// damaged.
    damaged: Option<TrainError>,
    /// Path to a checkpoint of another run, if there is one.
    foreign: Option<PathBuf>,
}

impl RunCheckpoints {
    /// Reads the manifests of all checkpoints in the folder `run`.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder can't be listed.
    pub(crate) fn of(run: &Path) -> Result<Self, TrainError> {
        let mut retries = 0..MAX_RETRIES;
        loop {
            let (kept, is_changed) = Self::list(run)?;
            // If a folder has disappeared, a save has deleted it after writing a newer checkpoint,
            // so the checkpoints are listed again.
            if !is_changed || retries.next().is_none() {
                return Ok(kept);
            }
        }
    }

    /// Lists the checkpoints and reads their manifests once. Also returns true if a folder
    /// disappeared after it had been listed.
    fn list(run: &Path) -> Result<(Self, bool), TrainError> {
        let (checkpoints, mut kept) = (run.join(CHECKPOINTS), Self::default());
        let mut is_changed = false;
        let names = match is_gone(&checkpoints) {
            true => Vec::new(),
            false => names_in(&checkpoints)?,
        };
        let mut whole = Vec::new();
        for name in names {
            // Folders with other names belong to users or to other programs.
            let Some(name) = name.to_str().filter(|name| name.starts_with("step-")) else {
                continue;
            };
            let folder = checkpoints.join(name);
            match Manifest::read(&folder) {
                Ok(manifest) if manifest.is_in(name) => whole.push((folder, manifest)),
                Ok(_) => {}
                Err(_) if is_gone(&folder) => is_changed = true,
                Err(TrainError::NoCheckpoint { .. }) => {} // belongs to somebody else
                Err(error) => kept.damaged = Some(error),
            }
        }
        whole.sort_by_key(|(_, manifest)| manifest.number);
        let newest = whole.last().map(|(_, manifest)| manifest.run.clone());
        // The ID in the lock file is the most reliable. However, if a user has replaced everything
        // except the lock file, no checkpoint has this ID, so the ID in run.json is used.
        let has_saved = |run: &String| whole.iter().any(|(_, manifest)| manifest.run == *run);
        let lock = identity::of_lock(run);
        let file = RunFile::read(run).map(|file| file.run);
        kept.run = match &lock {
            Some(run) if has_saved(run) => lock,
            _ => file.or(lock).or(newest),
        };
        for (path, manifest) in whole {
            match kept.run.as_ref() == Some(&manifest.run) {
                true => kept.whole.push((path, manifest)),
                false => kept.foreign = Some(path),
            }
        }
        Ok((kept, is_changed))
    }

    /// Returns the path to the newest checkpoint.
    pub(crate) fn newest(&self) -> Option<&PathBuf> {
        self.whole.last().map(|(path, _)| path)
    }

    /// Returns the number of the newest save, or 0 if there is no checkpoint.
    pub(crate) fn number(&self) -> u64 {
        self.whole.last().map_or(0, |(_, newest)| newest.number)
    }

    /// Returns the path to the checkpoint with the lowest validation loss, and this loss. If
    /// several checkpoints have the lowest loss, the newest of them is returned. If no checkpoint
    /// has a validation loss, `None` is returned.
    pub(crate) fn best(&self) -> Option<(&PathBuf, f64)> {
        let validated = self.whole.iter().rev();
        let validated = validated.filter_map(|(path, save)| Some((path, save.val_loss?)));
        validated.min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// Returns these checkpoints if at least one of them is intact or if there are no damaged ones.
    ///
    /// # Errors
    ///
    /// Returns the problem with one of the checkpoints if there are damaged checkpoints, but no
    /// intact ones.
    pub(crate) fn or_damaged(mut self) -> Result<Self, TrainError> {
        match self.damaged.take_if(|_| self.whole.is_empty()) {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }
}

/// Returns the path to the newest intact checkpoint of the run in the folder `path`. If `path` is
/// itself a checkpoint, the function returns `path` and doesn't check the checkpoint.
///
/// # Errors
///
/// Returns [`TrainError::NoCheckpoint`] if there is no checkpoint. If there are checkpoints, but
/// all of them are damaged, returns the problem with one of them.
pub fn latest_checkpoint(path: impl AsRef<Path>) -> Result<PathBuf, TrainError> {
    itself_or(path.as_ref(), |kept| kept.newest().cloned())
}

/// Returns the path to the checkpoint with the lowest validation loss of the run in the folder
/// `path`. If no checkpoint has a validation loss, the newest is returned. If `path` is itself a
/// checkpoint, it is returned.
///
/// # Errors
///
/// Returns the same errors as [`latest_checkpoint`](crate::latest_checkpoint).
pub fn best_checkpoint(path: impl AsRef<Path>) -> Result<PathBuf, TrainError> {
    itself_or(path.as_ref(), |kept| {
        let best = kept.best().map(|(path, _)| path);
        best.or(kept.newest()).cloned()
    })
}

fn itself_or(
    path: &Path,
    choose: impl FnOnce(&RunCheckpoints) -> Option<PathBuf>,
) -> Result<PathBuf, TrainError> {
    let path = path.to_owned();
    if !is_gone(&path.join(MANIFEST_FILE)) {
        return Ok(path);
    }
    choose(&RunCheckpoints::of(&path)?.or_damaged()?).ok_or(TrainError::NoCheckpoint { path })
}

/// Returns messages about checkpoints in the run's folder `path` that are ignored. There is at most
/// one message about a damaged checkpoint and at most one about a checkpoint of another run.
///
/// # Errors
///
/// Returns an error if the folder can't be listed, or if there are checkpoints, but all of them are
/// damaged.
pub fn ignored_checkpoints(path: impl AsRef<Path>) -> Result<Vec<String>, TrainError> {
    let kept = RunCheckpoints::of(path.as_ref())?.or_damaged()?;
    let mut notes = Vec::new();
    if let (Some(newest), Some(error)) = (kept.newest(), &kept.damaged) {
        let newest = newest.display();
        notes.push(format!(
            "{error}; this checkpoint is ignored, and the newest intact checkpoint is {newest}"
        ));
    }
    if let Some(foreign) = &kept.foreign {
        let foreign = foreign.display();
        notes.push(format!(
            "{foreign}: this checkpoint belongs to another run, so it is ignored and never deleted"
        ));
    }
    Ok(notes)
}

/// Returns the number of optimizer steps in a checkpoint, or `None` if its manifest can't be read.
pub fn steps_of(checkpoint: impl AsRef<Path>) -> Option<u64> {
    Some(Manifest::read(checkpoint.as_ref()).ok()?.step)
}
