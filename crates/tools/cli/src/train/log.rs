//! Reads and writes the log of a training run, `log.jsonl`. Each line is a JSON object that
//! describes an event.
//!
//! The field `event` of this object contains the type of the event: `start`, `step`, `eval`,
//! `sample` or `saved`. A `start` event is logged each time the run is started or resumed.
//!
//! If a run is resumed, it continues from its last checkpoint and repeats all later training steps
//! that are already in the log. The log then contains outdated lines about these steps, possibly
//! followed by an incomplete line that was being written when the process was killed. The resumed
//! run removes these outdated lines as soon as it has saved a new checkpoint. Until then, it keeps
//! them, because it might be killed before it saves anything.
//!
//! Some functions, such as the one that draws the loss curve, read the whole log into memory. If
//! the log is too large for that, the program still adds new lines to it, but doesn't read it.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use atomic_file::{append, is_file, read_small_file, write_atomically};
use serde::{Deserialize, Serialize};
use train::{Evaluation, StepReport};

use crate::terminal::output::{json_line, note};

/// Name of the log in the folder of a run.
pub(crate) const LOG: &str = "log.jsonl";

/// Maximum size in bytes of a log that is read into memory, which is sufficient for more than a
/// million training steps.
const MAX_BYTES: u64 = 256 << 20;

/// A line that is written to the log.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Line {
    /// The run starts, or is resumed after `steps_done` steps.
    Start {
        steps_done: u64,
        parameters: usize,
        tokens_per_step: u64,
        options: serde_json::Value,
    },
    /// A training step.
    Step {
        #[serde(flatten)]
        report: StepReport,
        tokens_per_second: f64,
    },
    /// An evaluation.
    Eval(Evaluation),
    /// A sample that was generated after `steps_done` steps.
    Sample { steps_done: u64, text: String },
    /// A checkpoint that was saved after `steps_done` steps.
    Saved { steps_done: u64, path: String },
}

/// An event of a training run, parsed from a line of the run's log. It contains only those fields
/// of the line that the program uses again, for example to draw the loss curve.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Logged {
    /// Index of the training step that a `step` event describes, counted from 0, or `None` for
    /// other types of events.
    step: Option<u64>,
    /// Number of training steps that had been done when the event was logged, or `None` for `step`
    /// events, which contain the index of the step instead.
    steps_done: Option<u64>,
    pub(crate) tokens_per_step: Option<u64>,
    pub(crate) loss: Option<f64>,
    pub(crate) train_loss: Option<f64>,
    pub(crate) val_loss: Option<f64>,
}

impl Logged {
    /// Returns the number of training steps that had been done when the event was logged, for any
    /// type of event.
    pub(crate) fn steps_done(&self) -> u64 {
        let after_step = self.step.map(|step| step.saturating_add(1));
        after_step.or(self.steps_done).unwrap_or(0)
    }
}

/// A log to which lines are added.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    /// The open log file, or `None` after the outdated lines have been removed. To remove them, the
    /// program closes the file and replaces it with a shorter one, because Windows can't replace an
    /// open file. The next line opens it again.
    file: Option<File>,
    /// Byte range of the outdated lines, which describe events after the checkpoint from which the
    /// run was resumed. These lines are removed after the first save.
    behind: Range<usize>,
}

impl Log {
    /// Opens the log of a run that continues after `steps_done` steps.
    pub(crate) fn open(folder: &Path, steps_done: u64) -> Result<Self> {
        let path = folder.join(LOG);
        let mut text = read(folder)?.unwrap_or_default();
        let mut file = append(&path)?;
        if !text.is_empty() && !text.ends_with(b"\n") {
            file.write_all(b"\n")
                .with_context(|| path.display().to_string())?;
            text.push(b'\n');
        }
        let (mut end, mut kept) = (0, 0);
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            end += line.len();
            match parse(line).map(|line| line.steps_done()) {
                Some(steps) if steps > steps_done => break,
                Some(_) => kept = end,
                None => {}
            }
        }
        Ok(Self {
            path,
            file: Some(file),
            behind: kept..text.len(),
        })
    }

    /// Adds a line to the log without buffering it. If the line is about a saved checkpoint, also
    /// removes the outdated lines.
    pub(crate) fn write(&mut self, line: &Line) -> Result<()> {
        self.append(json_line(line)?.as_bytes())?;
        match line {
            Line::Saved { .. } if !self.behind.is_empty() => self.cut(),
            _ => Ok(()),
        }
    }

    fn append(&mut self, text: &[u8]) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(append(&self.path)?),
        };
        let written = file.write_all(text);
        written.with_context(|| self.path.display().to_string())
    }

    /// Removes the outdated lines from the log. These are the lines about training steps after the
    /// checkpoint from which the run was resumed, because the resumed run has repeated these steps
    /// and logged them again.
    fn cut(&mut self) -> Result<()> {
        let mut text = read_small_file(&self.path, MAX_BYTES)?;
        text.drain(std::mem::take(&mut self.behind));
        self.file = None;
        Ok(write_atomically(&self.path, |file| file.write_all(&text))?)
    }
}

/// Reads the log of a training run. If the log is too large, prints a note and returns `None`.
pub(crate) fn read(folder: &Path) -> Result<Option<Vec<u8>>> {
    let path = folder.join(LOG);
    if !is_file(&path)? {
        return Ok(Some(Vec::new()));
    }
    match read_small_file(&path, MAX_BYTES) {
        Err(error) if error.source.kind() == ErrorKind::FileTooLarge => {
            note(&format!(
                "{error}; gpt still appends new lines to this log, but can't read it, so loss.svg isn't updated"
            ));
            Ok(None)
        }
        text => Ok(Some(text?)),
    }
}

/// Returns true if the log of the training run in `folder` contains a `saved` event. Also returns
/// true if the log is too large to be read, so that the run is never mistaken for one that hasn't
/// saved a checkpoint.
pub(crate) fn has_saved(folder: &Path) -> Result<bool> {
    let text = read(folder)?;
    let is_save = |line: &[u8]| line.starts_with(br#"{"event":"saved""#);
    Ok(text.is_none_or(|text| text.split(|&byte| byte == b'\n').any(is_save)))
}

/// Returns the complete lines of a log.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = Logged> {
    text.split_inclusive(|&byte| byte == b'\n')
        .filter_map(parse)
}

/// Parses a line of the log. Returns `None` if the line was cut off, because a JSON object without
/// its end isn't valid JSON. A line that lacks only its line ending is accepted.
fn parse(line: &[u8]) -> Option<Logged> {
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64, loss: f32) -> Line {
        let report = serde_json::json!({
            "step": step, "epoch": 0, "loss": 0.0, "learning_rate": 1e-3, "grad_norm": 0.5,
            "tokens_seen": 8 * (step + 1),
        });
        let mut report: StepReport = serde_json::from_value(report).unwrap();
        report.loss = loss; // JSON has no number for NaN.
        Line::Step {
            report,
            tokens_per_second: 100.0,
        }
    }

    fn saved(steps_done: u64) -> Line {
        let path = "run/checkpoints/step".to_owned();
        Line::Saved { steps_done, path }
    }

    fn write(folder: &Path, steps_done: u64, lines: impl IntoIterator<Item = Line>) {
        let mut log = Log::open(folder, steps_done).unwrap();
        for line in lines {
            log.write(&line).unwrap();
        }
    }

    /// Reads the log in a folder and returns, for each of its lines, how many training steps had
    /// been done when the line was written.
    fn steps(folder: &Path) -> Vec<u64> {
        let text = read(folder).unwrap().unwrap();
        lines(&text).map(|line| line.steps_done()).collect()
    }

    #[test]
    fn a_run_that_goes_back_has_each_step_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let first = [step(0, 0.5), saved(1), step(1, 0.25), step(2, 0.125)];
        write(path, 0, first);
        assert_eq!(steps(path), [1, 1, 2, 3]);
        // Adds what two killed processes leave behind in the log: the first was killed while it was
        // writing a line, and the second had resumed the run after step 1, but was killed before it
        // saved a checkpoint. The outdated lines must then still be in the log.
        let mut file = append(path.join(LOG)).unwrap();
        file.write_all(b"{\"event\":\"st").unwrap();
        write(path, 1, [step(1, 0.25)]);
        assert_eq!(steps(path), [1, 1, 2, 3, 2], "nothing is cut before it");
        write(path, 1, [step(1, 0.25), saved(2), step(2, 0.125)]);
        assert_eq!(steps(path), [1, 1, 2, 2, 3]);
    }

    /// Checks that the last line of a log can be read even if its last byte, the line ending, was
    /// lost in a power failure, and that a resumed run adds its own lines after this line.
    #[test]
    fn a_line_without_its_end_is_whole_before_and_after_the_log_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        write(path, 0, [step(0, 0.5), saved(1)]);
        let file = File::options().write(true).open(path.join(LOG)).unwrap();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        assert_eq!(steps(path), [1, 1]);
        write(path, 1, [step(1, 0.25), saved(2)]);
        assert_eq!(steps(path), [1, 1, 2, 2]);
    }

    #[test]
    fn a_log_that_is_too_long_is_gone_on_with_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, [step(0, 0.5)]);
        let path = folder.path().join(LOG);
        // Appends zeros until the log is too large to be read.
        append(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        write(folder.path(), 7, [step(7, 0.125), saved(8)]);
        assert!(std::fs::metadata(&path).unwrap().len() > MAX_BYTES + 100);
        assert_eq!(read(folder.path()).unwrap(), None);
    }

    /// Checks that the log can still be read after a loss that is NaN or infinite has been logged,
    /// although JSON can't represent such numbers.
    #[test]
    fn losses_that_are_no_numbers_are_lines_too() {
        let folder = tempfile::tempdir().unwrap();
        let evaluation = serde_json::json!({
            "steps_done": 3, "epoch": 0, "train_loss": 0.0, "val_loss": null, "tokens_seen": 24,
        });
        let mut evaluation: Evaluation = serde_json::from_value(evaluation).unwrap();
        evaluation.train_loss = f64::NAN;
        let all = [
            step(1, f32::NAN),
            step(2, f32::INFINITY),
            Line::Eval(evaluation),
        ];
        write(folder.path(), 0, all);
        assert_eq!(steps(folder.path()), [2, 3, 3]);
    }
}
