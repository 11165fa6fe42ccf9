//! Which checkpoints of a run count: latest.json, as far as the folders bear it out; and the names
//! of checkpoints, which tell their order.
//!
//! A list may be damaged, or ahead of its folders (in a copy that was made while the run saved):
//! then all whole checkpoints count, in the order of their names.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use atomic_file::is_file;
use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::checkpoint::is_whole;
use crate::manifest::{MANIFEST_FILE, MOST_LIST_BYTES, read_json};

/// The list of checkpoints, by its name in a run's folder.
pub const LATEST: &str = "latest.json";
/// The folder of checkpoints, by its name in a run's folder.
pub const CHECKPOINTS: &str = "checkpoints";

/// latest.json.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Latest {
    /// Names of folders, the newest last.
    pub(crate) checkpoints: Vec<String>,
    /// The one with the lowest validation loss, which stays however old it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) best: Option<Best>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Best {
    pub(crate) checkpoint: String,
    pub(crate) val_loss: f64,
}

impl Latest {
    /// As this, after a new checkpoint.
    pub(crate) fn with(&self, name: &str, keep: usize, val_loss: Option<f64>) -> Self {
        let mut latest = self.clone();
        latest.checkpoints.push(name.to_owned());
        let too_many = latest.checkpoints.len().saturating_sub(keep);
        latest.checkpoints.drain(..too_many);
        // Of equal ones the newest.
        let is_best = |&loss: &f64| self.best.as_ref().is_none_or(|best| loss <= best.val_loss);
        if let Some(val_loss) = val_loss.filter(is_best) {
            let checkpoint = name.to_owned();
            latest.best = Some(Best {
                checkpoint,
                val_loss,
            });
        }
        latest
    }

    /// Whether all checkpoints have a higher validation loss.
    pub(crate) fn is_best(&self, val_loss: f64) -> bool {
        let best = self.best.as_ref();
        best.is_none_or(|best| val_loss < best.val_loss)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        let best = self.best.iter().map(|best| &best.checkpoint);
        self.checkpoints.iter().chain(best)
    }

    pub(crate) fn names(&self, name: &str) -> bool {
        self.all().any(|ours| ours == name)
    }

    fn keep_whole(&mut self, is_whole: impl Fn(&String) -> bool) {
        self.checkpoints.retain(&is_whole);
        self.best.take_if(|best| !is_whole(&best.checkpoint));
    }
}

/// The whole checkpoints of the run kept in `path`, and what is wrong with its list.
///
/// # Errors
/// If the system refuses to read, or none of the checkpoints that are named is whole.
pub(crate) fn known(path: &Path) -> Result<(Latest, Option<String>), TrainError> {
    loop {
        let list = read_list(path).ok();
        let found = known_now(path);
        // A run that saves meanwhile has deleted what its list named a moment ago.
        if matches!(found, Ok((_, None))) || read_list(path).ok() == list {
            return found;
        }
    }
}

fn known_now(path: &Path) -> Result<(Latest, Option<String>), TrainError> {
    let checkpoints = path.join(CHECKPOINTS);
    let is_whole = |name: &String| is_whole(&checkpoints.join(name));
    let (mut latest, problem) = match read_list(path) {
        Ok(Some(mut latest)) => {
            let newest = latest.checkpoints.last().cloned();
            latest.keep_whole(is_whole);
            match newest.filter(|name| latest.checkpoints.last() != Some(name)) {
                None => return Ok((latest, None)),
                Some(name) => (latest, Some(format!("{name} is no whole checkpoint"))),
            }
        }
        Ok(None) => (Latest::default(), None),
        Err(TrainError::Damaged { problem, .. }) => (Latest::default(), Some(problem)),
        Err(error) => return Err(error),
    };
    latest.checkpoints = step_folders(&checkpoints)?.0;
    latest.keep_whole(is_whole);
    let Some(problem) = problem else {
        return Ok((latest, None));
    };
    let list = path.join(LATEST);
    let Some(newest) = latest.checkpoints.last() else {
        let problem = format!("{problem}, and there is no other that is whole");
        return Err(TrainError::damaged(list, problem));
    };
    let list = list.display();
    let note = format!("{list}: {problem}; the newest whole checkpoint is {newest}");
    Ok((latest, Some(note)))
}

/// The checkpoint that `path` means: itself, or the newest whole one of the run that is kept there.
///
/// # Errors
/// [`TrainError::NoCheckpoint`] if there is none.
pub fn latest_checkpoint(path: impl AsRef<Path>) -> Result<PathBuf, TrainError> {
    itself_or(path.as_ref(), |mut known| known.checkpoints.pop())
}

/// The checkpoint that a reader of `path` wants: itself, or of the run that is kept there the one
/// with the lowest validation loss, or the newest if none was validated.
///
/// # Errors
/// As [`latest_checkpoint`].
pub fn best_checkpoint(path: impl AsRef<Path>) -> Result<PathBuf, TrainError> {
    itself_or(path.as_ref(), |mut known| {
        let best = known.best.map(|best| best.checkpoint);
        best.or(known.checkpoints.pop())
    })
}

fn itself_or(
    path: &Path,
    choose: impl FnOnce(Latest) -> Option<String>,
) -> Result<PathBuf, TrainError> {
    let path = path.to_owned();
    if is_file(path.join(MANIFEST_FILE))? {
        return Ok(path);
    }
    match choose(known(&path)?.0) {
        Some(name) => Ok(path.join(CHECKPOINTS).join(name)),
        None => Err(TrainError::NoCheckpoint { path }),
    }
}

/// What is wrong with the list of the run kept in `path`, and which checkpoint is the newest then;
/// `None` if the list is right.
///
/// # Errors
/// As [`latest_checkpoint`].
pub fn list_problem(path: impl AsRef<Path>) -> Result<Option<String>, TrainError> {
    Ok(known(path.as_ref())?.1)
}

/// latest.json as it stands.
pub(crate) fn read_list(path: &Path) -> Result<Option<Latest>, TrainError> {
    let path = path.join(LATEST);
    if !is_file(&path)? {
        return Ok(None);
    }
    let latest: Latest = read_json(&path, MOST_LIST_BYTES)?;
    if latest.all().any(|name| order(name).is_none()) {
        let problem = "a checkpoint's name does not look like step-00000120";
        return Err(TrainError::damaged(path, problem));
    }
    Ok(Some(latest))
}

/// The names in `checkpoints` that are ours: of checkpoints in their order, and of unfinished ones.
pub(crate) fn step_folders(checkpoints: &Path) -> Result<(Vec<String>, Vec<String>), TrainError> {
    let entries = match fs::read_dir(checkpoints) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Default::default()),
        entries => entries.map_err(TrainError::io(checkpoints, "read"))?,
    };
    let (mut finished, mut unfinished) = (Vec::new(), Vec::new());
    for entry in entries {
        let entry = entry.map_err(TrainError::io(checkpoints, "read"))?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if order(&name).is_some() {
            finished.push(name);
        } else if name.starts_with('.') && name.ends_with(".unfinished") {
            unfinished.push(name);
        }
    }
    finished.sort_by_key(|name| order(name));
    Ok((finished, unfinished))
}

/// The place of a checkpoint among the others: steps, batches accumulated since, copy, counted from
/// 1.
pub(crate) type Order = (u64, u64, u64);

/// The name of a checkpoint: `step-00000120` or `step-00000120-batch-3`, either with `.2` behind
/// it.
pub(crate) fn name_of((steps, batches, copy): Order) -> String {
    let mut name = format!("step-{steps:08}");
    if batches > 0 {
        name += &format!("-batch-{batches}");
    }
    if copy > 1 {
        name += &format!(".{copy}");
    }
    name
}

/// The place of a checkpoint by its name; none if the name is not ours.
pub(crate) fn order(name: &str) -> Option<Order> {
    let (rest, copy) = name.split_once('.').unwrap_or((name, "1"));
    let rest = rest.strip_prefix("step-")?;
    let (steps, batches) = rest.split_once("-batch-").unwrap_or((rest, "0"));
    let order = (
        steps.parse().ok()?,
        batches.parse().ok()?,
        copy.parse().ok()?,
    );
    (name_of(order) == name).then_some(order)
}

/// The optimizer steps of a checkpoint, by the name of its folder.
pub fn steps_of(checkpoint: impl AsRef<Path>) -> Option<u64> {
    let name = checkpoint.as_ref().file_name()?.to_str()?;
    Some(order(name)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_order_and_others_are_refused() {
        let ours = [
            "step-00000120",
            "step-00000120.2",
            "step-00000120-batch-3",
            "step-100000000",
        ];
        assert!(ours.is_sorted_by_key(|name| order(name).expect("ours")));
        for other in [
            "step-",
            "step-x",
            "step-1",
            "..",
            "/",
            "../step-00000004",
            "step-00000001/../..",
            "best",
            "step-00000001 ",
            "step-00000001.",
            "step-+0000001",
        ] {
            assert_eq!(order(other), None, "{other}");
        }
    }
}
