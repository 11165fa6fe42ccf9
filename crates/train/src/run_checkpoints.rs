//! Functions that find the checkpoints of a run. They read the manifest of each checkpoint, so no
//! separate index file is needed.
//!
//! After all files of a checkpoint have been written to a temporary folder, the folder gets its
//! final name by a single rename. A checkpoint that has its final name is therefore complete. Its
//! manifest contains the ID of the run, the save number and the validation loss, which is
//! sufficient to find the newest and the best checkpoint of a run.

use std::path::{Path, PathBuf};

use atomic_file::names_in;

use crate::TrainError;
use crate::identity::{self, RunFile};
use crate::manifest::{MANIFEST_FILE, Manifest, is_gone};

/// Name of the subfolder of a run's folder in which the checkpoints are stored.
pub const CHECKPOINTS: &str = "checkpoints";

/// Maximum number of times that the list of checkpoints is read again because another process
/// deleted some of them while the list was being read.
const MAX_RETRIES: usize = 100;

/// The checkpoints that were found in the folder of a run.
#[derive(Debug, Default)]
pub(crate) struct RunCheckpoints {
    /// ID of the run to which the folder belongs, or `None` if neither the folder's files nor its
    /// checkpoints contain an ID.
    pub(crate) run: Option<String>,
    /// Paths and manifests of the run's intact checkpoints, from the oldest save to the newest.
    pub(crate) whole: Vec<(PathBuf, Manifest)>,
    /// Error that describes what is wrong with one of the damaged checkpoints, or `None` if no
    /// checkpoint is damaged.
    damaged: Option<TrainError>,
    /// Path to a checkpoint that belongs to another run, or `None` if there is no such checkpoint.
    foreign: Option<PathBuf>,
}

impl RunCheckpoints {
    /// Reads the manifests of all checkpoints in the folder `run`.
    ///
    /// # Errors
    ///
    /// Returns an error if the contents of the folder can't be listed.
    pub(crate) fn of(run: &Path) -> Result<Self, TrainError> {
        let mut retries = 0..MAX_RETRIES;
        loop {
            let (kept, is_changed) = Self::list(run)?;
            // If a checkpoint disappears while the list is being read, another process has deleted
            // it after saving a newer checkpoint. The list is therefore read again, so that it
            // contains the newer one.
            if !is_changed || retries.next().is_none() {
                return Ok(kept);
            }
        }
    }

    /// Lists the checkpoints and reads their manifests. The second value that this function returns
    /// is true if a checkpoint disappeared after its name had been read.
    fn list(run: &Path) -> Result<(Self, bool), TrainError> {
        let (checkpoints, mut kept) = (run.join(CHECKPOINTS), Self::default());
        let mut is_changed = false;
        let names = match is_gone(&checkpoints) {
            true => Vec::new(),
            false => names_in(&checkpoints)?,
        };
        let mut whole = Vec::new();
        for name in names {
            // Skip all files and folders whose names don't start with `step-`. They aren't
            // checkpoints of this program, but belong to users or to other programs.
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
        // The lock file is the most reliable source for the ID of the run. However, a user may have
        // replaced all files of the folder except for the lock file. None of the checkpoints then
        // contains the ID in the lock file, so the ID in run.json is used.
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

    /// Returns the path to the newest intact checkpoint.
    pub(crate) fn newest(&self) -> Option<&PathBuf> {
        self.whole.last().map(|(path, _)| path)
    }

    /// Returns the save number of the newest intact checkpoint, or 0 if there is no such
    /// checkpoint.
    pub(crate) fn number(&self) -> u64 {
        self.whole.last().map_or(0, |(_, newest)| newest.number)
    }

    /// Returns the path to the checkpoint with the lowest validation loss, together with this loss.
    /// If several checkpoints have the same lowest loss, returns the newest of them. Returns `None`
    /// if no checkpoint contains a validation loss.
    pub(crate) fn best(&self) -> Option<(&PathBuf, f64)> {
        let validated = self.whole.iter().rev();
        let validated = validated.filter_map(|(path, save)| Some((path, save.val_loss?)));
        validated.min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// Returns this list of a run's checkpoints if it is empty or if at least one of the
    /// checkpoints is intact. If all checkpoints are damaged, returns an error instead.
    ///
    /// # Errors
    ///
    /// If all checkpoints are damaged, returns an error that describes the problem with one of
    /// them.
    pub(crate) fn or_damaged(mut self) -> Result<Self, TrainError> {
        match self.damaged.take_if(|_| self.whole.is_empty()) {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }
}

/// Returns the path to the newest intact checkpoint of the run in the folder `path`. If `path` is
/// itself the folder of a checkpoint, returns `path` without checking whether the checkpoint is
/// intact.
///
/// # Errors
///
/// Returns [`TrainError::NoCheckpoint`] if there are no checkpoints. If all checkpoints are
/// damaged, returns an error that describes the problem with one of them.
pub fn latest_checkpoint(path: impl AsRef<Path>) -> Result<PathBuf, TrainError> {
    itself_or(path.as_ref(), |kept| kept.newest().cloned())
}

/// Returns the path to the checkpoint with the lowest validation loss of the run in the folder
/// `path`. If no checkpoint contains a validation loss, returns the path to the newest checkpoint.
/// If `path` is itself the folder of a checkpoint, returns `path`.
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

/// Returns messages about checkpoints in the run's folder `path` that this crate ignores because
/// they are damaged or belong to another run. There is at most one message for each of these two
/// reasons.
///
/// # Errors
///
/// Returns an error if the contents of the folder can't be listed, or if all checkpoints are
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
            "{foreign}: this checkpoint belongs to another run, so it is ignored and won't be deleted"
        ));
    }
    Ok(notes)
}

/// Returns the number of optimizer steps that had been taken when a checkpoint was saved, or `None`
/// if the manifest of the checkpoint can't be read.
pub fn steps_of(checkpoint: impl AsRef<Path>) -> Option<u64> {
    Some(Manifest::read(checkpoint.as_ref()).ok()?.step)
}
