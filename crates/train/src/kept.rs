//! The checkpoints of a run: what their folders hold is all that is known of them.
//!
//! A folder appears whole, by one rename, and its manifest says which save it was and how good the
//! model: so the newest and the best are read from the folders, and there is no list to be lost.

use std::path::{Path, PathBuf};

use atomic_file::names_in;

use crate::TrainError;
use crate::manifest::{MANIFEST_FILE, Manifest, is_gone};

/// The folder of checkpoints, by its name in a run's folder.
pub const CHECKPOINTS: &str = "checkpoints";

/// The checkpoints of a run.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The whole ones, the newest last.
    pub(crate) whole: Vec<(PathBuf, Manifest)>,
    /// Why the newest of the others can't be used, if there are others.
    damaged: Option<TrainError>,
}

impl Kept {
    /// Reads the manifests of the run kept in `run`.
    ///
    /// # Errors
    /// If the system refuses to list the folders.
    pub(crate) fn of(run: &Path) -> Result<Self, TrainError> {
        let (checkpoints, mut kept) = (run.join(CHECKPOINTS), Self::default());
        if is_gone(&checkpoints) {
            return Ok(kept);
        }
        for name in names_in(&checkpoints)? {
            if !name.starts_with("step-") {
                continue;
            }
            let folder = checkpoints.join(&name);
            match Manifest::read(&folder) {
                Ok(manifest) if manifest.is_in(&name) => kept.whole.push((folder, manifest)),
                Ok(_) => {}
                // It was deleted meanwhile by a save, which has left a newer one.
                Err(_) if is_gone(&folder) => return Self::of(run),
                Err(TrainError::NoCheckpoint { .. }) => {} // somebody else's
                Err(error) => kept.damaged = Some(error),
            }
        }
        kept.whole.sort_by_key(|(_, manifest)| manifest.number);
        Ok(kept)
    }

    /// The newest.
    pub(crate) fn newest(&self) -> Option<&PathBuf> {
        self.whole.last().map(|(path, _)| path)
    }

    /// The number of the newest; 0 without one.
    pub(crate) fn number(&self) -> u64 {
        self.whole.last().map_or(0, |(_, newest)| newest.number)
    }

    /// The one with the lowest validation loss, of equal ones the newest; none without validation.
    pub(crate) fn best(&self) -> Option<(&PathBuf, f64)> {
        let validated = self.whole.iter().rev();
        let validated = validated.filter_map(|(path, save)| Some((path, save.val_loss?)));
        validated.min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// These, unless none is whole of several that there are.
    ///
    /// # Errors
    /// What is wrong with the newest.
    pub(crate) fn or_damaged(mut self) -> Result<Self, TrainError> {
        match self.damaged.take_if(|_| self.whole.is_empty()) {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }
}

/// The newest whole checkpoint of the run kept in `path`, or `path` itself if it is a checkpoint.
///
/// # Errors
/// [`TrainError::NoCheckpoint`] if there is none; what is wrong with the newest if none is whole.
pub fn latest_checkpoint(path: impl AsRef<Path>) -> Result<PathBuf, TrainError> {
    itself_or(path.as_ref(), |kept| kept.newest().cloned())
}

/// The checkpoint with the lowest validation loss of the run kept in `path`, or the newest if none
/// was validated; `path` itself if it is a checkpoint.
///
/// # Errors
/// As [`latest_checkpoint`](crate::latest_checkpoint).
pub fn best_checkpoint(path: impl AsRef<Path>) -> Result<PathBuf, TrainError> {
    itself_or(path.as_ref(), |kept| {
        let best = kept.best().map(|(path, _)| path);
        best.or(kept.newest()).cloned()
    })
}

fn itself_or(
    path: &Path,
    choose: impl FnOnce(&Kept) -> Option<PathBuf>,
) -> Result<PathBuf, TrainError> {
    let path = path.to_owned();
    if !is_gone(&path.join(MANIFEST_FILE)) {
        return Ok(path);
    }
    choose(&Kept::of(&path)?.or_damaged()?).ok_or(TrainError::NoCheckpoint { path })
}

/// Says which checkpoint of the run kept in `path` can't be used, why, and which is the newest that
/// can; `None` if all can.
///
/// # Errors
/// As [`latest_checkpoint`](crate::latest_checkpoint).
pub fn damaged_checkpoint(path: impl AsRef<Path>) -> Result<Option<String>, TrainError> {
    let kept = Kept::of(path.as_ref())?.or_damaged()?;
    let damaged = kept.newest().zip(kept.damaged.as_ref());
    Ok(damaged.map(|(newest, error)| {
        let newest = newest.display();
        format!("{error}; the newest whole checkpoint is {newest}")
    }))
}

/// The optimizer steps of a checkpoint, as its manifest says; `None` if it can't be read.
pub fn steps_of(checkpoint: impl AsRef<Path>) -> Option<u64> {
    Some(Manifest::read(checkpoint.as_ref()).ok()?.step)
}
