//! Defines commands that write checkpoints or converted models, for tests that interrupt these
//! commands. Each command comes with a function that checks afterwards, for example after an error,
//! a killed process or a simulated power failure, that no data has been lost.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::sandbox::{PATIENCE, contents, copy_of, folder_with_a_run, gpt, train, words};

/// A function that checks whether a command has left all files in a correct state. Its arguments
/// are the path of the working directory, whether the command succeeded, and its error message. It
/// returns a description of what is wrong, or `None` if the files are as expected.
type Fault = Box<dyn Fn(&Path, bool, &str) -> Option<String>>;

/// A command that writes files, and a function that checks these files afterwards.
pub(crate) struct Job {
    pub(crate) name: &'static str,
    /// Working directory with the files that the command needs, such as a trained model. Each test
    /// case runs the command in a new copy of this folder.
    pub(crate) before: TempDir,
    pub(crate) command: Vec<OsString>,
    pub(crate) fault: Fault,
}

fn resume(steps: u32) -> Vec<OsString> {
    words(&format!("train --resume run --keep 1 --max-steps {steps}"))
}

fn run(folder: &Path, command: &[OsString]) {
    let ended = gpt(folder, command, PATIENCE);
    assert!(ended.is_ok(), "{}", ended.stderr);
}

/// Returns the path of a run's latest checkpoint. Each checkpoint of a run has a number in its
/// manifest, and the latest checkpoint has the highest number.
fn newest(run: &Path) -> Option<PathBuf> {
    let checkpoints = fs::read_dir(run.join("checkpoints")).ok()?;
    let numbered = checkpoints.filter_map(|entry| {
        let checkpoint = entry.ok()?.path();
        let hidden = checkpoint.file_name()?.to_str()?.starts_with('.');
        let manifest = fs::read(checkpoint.join("manifest.json")).ok()?;
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
        let number = manifest["number"].as_u64()?;
        (!hidden).then_some((number, checkpoint))
    });
    Some(numbered.max()?.1)
}

/// Returns the weights in the newest checkpoint of a run.
pub(crate) fn weights(run: &Path) -> Option<Vec<u8>> {
    fs::read(newest(run)?.join("model.safetensors")).ok()
}

/// Returns a command that resumes a finished run and trains it for two more steps, together with a
/// function that checks the files afterwards. This function resumes the run once more, and then
/// requires that at most two checkpoints are left: the latest one and the one with the lowest
/// validation loss.
fn saves() -> Job {
    let before = folder_with_a_run();
    let after = |steps| {
        let whole = copy_of(before.path());
        run(whole.path(), &resume(steps));
        weights(&whole.path().join("run"))
    };
    let (done, one_more) = (after(4), after(5));
    let fault = move |folder: &Path, is_done: bool, _: &str| {
        let run = folder.join("run");
        match weights(&run) {
            None => return Some("no checkpoint is left".to_owned()),
            found if is_done && found != done => return Some("not the newest".to_owned()),
            _ => {}
        }
        let after = gpt(folder, &resume(5), PATIENCE);
        if !after.is_ok() {
            return Some(format!("no resume: {}", after.stderr));
        }
        if weights(&run) != one_more {
            return Some("other bits".to_owned());
        }
        let left = fs::read_dir(run.join("checkpoints")).expect("a folder");
        let left = left.count();
        (left > 2).then(|| format!("{left} checkpoints are left"))
    };
    Job {
        name: "a save",
        before,
        command: resume(4),
        fault: Box::new(fault),
    }
}

/// Returns a command that starts a new run in a folder that doesn't exist yet.
fn first_saves() -> Job {
    let before = tempfile::tempdir().expect("a temporary folder");
    let whole = folder_with_a_run();
    fs::copy(
        whole.path().join("data.bin"),
        before.path().join("data.bin"),
    )
    .expect("a file");
    let expected = weights(&whole.path().join("run"));
    let mut command = train("");
    command.extend(words("--out-dir run"));
    let again = command.clone();
    let fault = move |folder: &Path, is_done: bool, _: &str| {
        let run = folder.join("run");
        let has_saved = newest(&run).is_some();
        if is_done && weights(&run) != expected {
            return Some("not the newest".to_owned());
        }
        // If the run has saved a checkpoint, it must be possible to resume the run. If it hasn't,
        // the original command is repeated, which must either start the run again or end with a
        // proper error message.
        let after = match has_saved {
            true => gpt(folder, &words("train --resume run --max-steps 2"), PATIENCE),
            false => gpt(folder, &again, PATIENCE),
        };
        let is_wrong = has_saved && (!after.is_ok() || weights(&run) != expected);
        after
            .fault()
            .or(is_wrong.then(|| format!("no resume: {}", after.stderr)))
    };
    Job {
        name: "a first save",
        before,
        command,
        fault: Box::new(fault),
    }
}

/// Creates a folder that contains the training run `run`, and two models with different weights,
/// `one` and `two`.
pub(crate) fn folder_with_two_models() -> TempDir {
    let folder = folder_with_a_run();
    let path = folder.path();
    let mut other = train("--max-steps");
    other.extend(words("--seed 7 --max-steps 1 --out-dir other"));
    for command in [other, words("convert run one"), words("convert other two")] {
        run(path, &command);
    }
    folder
}

/// Returns a command that converts the model `two` to a folder or file called `to`, which doesn't
/// exist yet.
fn conversion(name: &'static str, command: &str) -> Job {
    let before = folder_with_two_models();
    let command = words(command);
    let model = |folder: &Path| {
        let to = folder.join("to");
        fs::read(&to).map_or_else(|_| contents(&to), |file| [("to".to_owned(), file)].into())
    };
    let whole = copy_of(before.path());
    run(whole.path(), &command);
    let new = model(whole.path());
    assert!(!new.is_empty());
    let fault = move |folder: &Path, is_done: bool, _: &str| {
        let found = model(folder);
        let is_right = found == new || (!is_done && found.is_empty());
        (!is_right).then(|| format!("neither nothing nor the model: {:?}", found.keys()))
    };
    Job {
        name,
        before,
        command,
        fault: Box::new(fault),
    }
}

/// Returns commands that save checkpoints.
pub(crate) fn trainings() -> Vec<Job> {
    vec![saves(), first_saves()]
}

pub(crate) fn conversions() -> Vec<Job> {
    vec![
        conversion("convert", "convert two to"),
        conversion("convert --layout gguf", "convert two to --layout gguf"),
    ]
}
