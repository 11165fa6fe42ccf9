//! The checkpoints of a run, read from their folders; an index file isn't needed.
//!
//! A folder appears whole, by one rename, and its manifest names its run, the number of its save
//! and its validation loss: so the newest and the best are always known.

use std::path::{Path, PathBuf};

use atomic_file::names_in;

use crate::TrainError;
use crate::identity::{self, RunFile};
use crate::manifest::{MANIFEST_FILE, Manifest, is_gone};

/// The folder of checkpoints, by its name in a run's folder.
pub const CHECKPOINTS: &str = "checkpoints";

/// Listings of a folder in which saves delete checkpoints meanwhile.
const MAX_LOOKS: usize = 100;

/// The checkpoints of a run.
#[derive(Debug, Default)]
pub(crate) struct RunCheckpoints {
    /// The id of the run; `None` if no file of the run has one.
    pub(crate) run: Option<String>,
    /// The run's whole checkpoints, the newest last.
    pub(crate) whole: Vec<(PathBuf, Manifest)>,
    /// Why the newest of the damaged ones can't be used, if there are damaged ones.
    damaged: Option<TrainError>,
    /// A checkpoint of another run, if there is one.
    foreign: Option<PathBuf>,
}

impl RunCheckpoints {
    /// Reads the manifests of the run kept in `run`.
    ///
    /// # Errors
    /// If the system refuses to list the folders.
    pub(crate) fn of(run: &Path) -> Result<Self, TrainError> {
        let mut looks = 0..MAX_LOOKS;
        loop {
            let (kept, is_changed) = Self::look(run)?;
            // A folder that is gone was deleted by a save, which has left a newer one.
            if !is_changed || looks.next().is_none() {
                return Ok(kept);
            }
        }
    }

    /// Reads the manifests once; returns true if a folder was gone after it had been listed.
    fn look(run: &Path) -> Result<(Self, bool), TrainError> {
        let (checkpoints, mut kept) = (run.join(CHECKPOINTS), Self::default());
        let mut is_changed = false;
        let names = match is_gone(&checkpoints) {
            true => Vec::new(),
            false => names_in(&checkpoints)?,
        };
        let mut whole = Vec::new();
        for name in names {
            // Other names are other programs' and users' folders.
            let Some(name) = name.to_str().filter(|name| name.starts_with("step-")) else {
                continue;
            };
            let folder = checkpoints.join(name);
            match Manifest::read(&folder) {
                Ok(manifest) if manifest.is_in(name) => whole.push((folder, manifest)),
                Ok(_) => {}
                Err(_) if is_gone(&folder) => is_changed = true,
                Err(TrainError::NoCheckpoint { .. }) => {} // somebody else's
                Err(error) => kept.damaged = Some(error),
            }
        }
        whole.sort_by_key(|(_, manifest)| manifest.number);
        let newest = whole.last().map(|(_, manifest)| manifest.run.clone());
        // The lock knows best, unless it stayed behind when all else was replaced.
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

    /// Fails if there are checkpoints and all of them are damaged.
    ///
    /// # Errors
    /// The fault of the newest.
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
/// [`TrainError::NoCheckpoint`] if there is none; the fault of the newest if all of several are
/// damaged.
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
    choose: impl FnOnce(&RunCheckpoints) -> Option<PathBuf>,
) -> Result<PathBuf, TrainError> {
    let path = path.to_owned();
    if !is_gone(&path.join(MANIFEST_FILE)) {
        return Ok(path);
    }
    choose(&RunCheckpoints::of(&path)?.or_damaged()?).ok_or(TrainError::NoCheckpoint { path })
}

/// Returns a note on each kind of checkpoint in the run kept in `path` that is ignored: a damaged
/// one, with the newest that is whole, and one of another run.
///
/// # Errors
/// As [`latest_checkpoint`](crate::latest_checkpoint).
pub fn ignored_checkpoints(path: impl AsRef<Path>) -> Result<Vec<String>, TrainError> {
    let kept = RunCheckpoints::of(path.as_ref())?.or_damaged()?;
    let mut notes = Vec::new();
    if let (Some(newest), Some(error)) = (kept.newest(), &kept.damaged) {
        let newest = newest.display();
        notes.push(format!("{error}; the newest whole checkpoint is {newest}"));
    }
    if let Some(foreign) = &kept.foreign {
        let foreign = foreign.display();
        notes.push(format!(
            "{foreign}: a checkpoint of another run; it is ignored and never deleted"
        ));
    }
    Ok(notes)
}

/// Returns the optimizer steps in a checkpoint's manifest; `None` if it can't be read.
pub fn steps_of(checkpoint: impl AsRef<Path>) -> Option<u64> {
    Some(Manifest::read(checkpoint.as_ref()).ok()?.step)
}
