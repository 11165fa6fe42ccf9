//! latest.json: which checkpoints of a run count; and the names of checkpoints, which tell their order.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use checkpoint::is_file;
use serde::{Deserialize, Serialize};

use crate::TrainError;
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
        if let Some(val_loss) = val_loss
            && latest
                .best
                .as_ref()
                .is_none_or(|best| val_loss <= best.val_loss)
        {
            let checkpoint = name.to_owned();
            latest.best = Some(Best {
                checkpoint,
                val_loss,
            });
        }
        latest
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        let best = self.best.iter().map(|best| &best.checkpoint);
        self.checkpoints.iter().chain(best)
    }

    pub(crate) fn names(&self, name: &str) -> bool {
        self.all().any(|ours| ours == name)
    }
}

/// The newest checkpoint of the run kept in `path`.
pub(crate) fn newest(path: &Path) -> Result<Option<PathBuf>, TrainError> {
    let latest = read_latest(path)?;
    let name = latest.checkpoints.last();
    Ok(name.map(|name| path.join(CHECKPOINTS).join(name)))
}

/// What latest.json names; without one, all complete checkpoints in the order of their steps.
pub(crate) fn read_latest(path: &Path) -> Result<Latest, TrainError> {
    let file = path.join(LATEST);
    if is_file(&file)? {
        let latest: Latest = read_json(&file, MOST_LIST_BYTES)?;
        if latest.all().any(|name| order(name).is_none()) {
            return Err(TrainError::State {
                path: file,
                what: "a checkpoint's name does not look like step-00000120",
            });
        }
        return Ok(latest);
    }
    let mut latest = Latest::default();
    let checkpoints = path.join(CHECKPOINTS);
    for name in step_folders(&checkpoints)?.0 {
        if is_file(checkpoints.join(&name).join(MANIFEST_FILE))? {
            latest.checkpoints.push(name);
        }
    }
    Ok(latest)
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
        } else if shown(&name).is_some_and(|name| order(name).is_some()) {
            unfinished.push(name);
        }
    }
    finished.sort_by_key(|name| order(name));
    Ok((finished, unfinished))
}

/// The place of a checkpoint among the others, by its name (`step-00000120`, `step-00000120-batch-3`, either with `.2` behind it): steps, batches, copy; none if the name is not ours.
pub(crate) fn order(name: &str) -> Option<(u64, u64, u64)> {
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok(),
        false => None,
    };
    let rest = name.strip_prefix("step-")?;
    let (rest, copy) = match rest.split_once('.') {
        Some((rest, copy)) => (rest, number(copy)?),
        None => (rest, 1),
    };
    let (steps, batches) = match rest.split_once("-batch-") {
        Some((steps, batches)) => (steps, number(batches)?),
        None => (rest, 0),
    };
    let steps = (steps.len() >= 8).then(|| number(steps))??;
    Some((steps, batches, copy))
}

/// The name of a checkpoint after so many steps, and so many batches accumulated since.
pub(crate) fn step_name(steps_done: u64, micro_step: u64) -> String {
    match micro_step {
        0 => format!("step-{steps_done:08}"),
        _ => format!("step-{steps_done:08}-batch-{micro_step}"),
    }
}

/// What a checkpoint is called before it is complete, and while it is deleted.
pub(crate) fn hidden(name: &str) -> String {
    format!(".{name}.unfinished")
}

/// The inverse of [`hidden`].
fn shown(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(".unfinished")
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
