//! `log.jsonl`: what happened in a run, one JSON object per line.
//!
//! `{"event":"step",...}`, `"eval"`, `"sample"`, `"saved"`, and `"start"` at each start.
//! A run that goes on from a checkpoint does again what was logged behind it, or a kill left half a
//! line: that is cut at the first save, so that until then nothing is lost, and the losses are
//! those of a run that never stopped. The file is read whole, or, if it is too long, not at all.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use atomic_file::{append, is_file, read_small_file, write_atomically};
use serde::{Deserialize, Serialize};
use train::{Evaluation, StepReport};

use crate::output::note;
use crate::runs::LOG;

/// The most bytes of a log that is read, some million steps.
const MOST_BYTES: u64 = 256 << 20;

/// A line to be written.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Line {
    /// The run begins, or goes on after `steps_done`.
    Start {
        steps_done: u64,
        parameters: usize,
        tokens_per_step: u64,
        options: serde_json::Value,
    },
    /// One optimizer step.
    Step {
        #[serde(flatten)]
        report: StepReport,
        tokens_per_second: f64,
    },
    /// One evaluation.
    Eval(Evaluation),
    /// A sample of text, after so many steps.
    Sample { steps_done: u64, text: String },
    /// A checkpoint, after so many steps.
    Saved { steps_done: u64, path: String },
}

/// A line that was read: of its fields, those that are used again.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Logged {
    pub(crate) event: String,
    /// A step's number, counted from 0.
    step: Option<u64>,
    /// Optimizer steps before it, in lines of all other events.
    steps_done: Option<u64>,
    pub(crate) tokens_per_step: Option<u64>,
    pub(crate) loss: Option<f64>,
    pub(crate) train_loss: Option<f64>,
    pub(crate) val_loss: Option<f64>,
    #[serde(default)]
    epoch: u64,
    #[serde(default)]
    tokens_seen: u64,
}

impl Logged {
    /// Optimizer steps when it was written.
    pub(crate) fn steps_done(&self) -> u64 {
        let after_step = self.step.map(|step| step.saturating_add(1));
        after_step.or(self.steps_done).unwrap_or(0)
    }

    fn evaluation(&self) -> Option<Evaluation> {
        (self.event == "eval").then(|| Evaluation {
            steps_done: self.steps_done(),
            epoch: self.epoch,
            train_loss: self.train_loss.unwrap_or(f64::NAN),
            val_loss: self.val_loss,
            tokens_seen: self.tokens_seen,
        })
    }
}

/// A log being written.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    /// The bytes behind the checkpoint that the run goes on from, which are cut at the first save.
    behind: Range<u64>,
    /// The last evaluation, and the steps after the last sample.
    pub(crate) evaluation: Option<Evaluation>,
    sampled_after: Option<u64>,
}

impl Log {
    /// Opens the log of a run that goes on after `steps_done` steps.
    pub(crate) fn open(folder: &Path, steps_done: u64) -> Result<Self> {
        let path = folder.join(LOG);
        let text = read(folder)?;
        let mut log = Self {
            file: append(&path)?,
            path,
            behind: 0..0,
            evaluation: None,
            sampled_after: None,
        };
        let Some(text) = text else {
            return Ok(log);
        };
        let (mut end, mut kept) = (0, 0);
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            end += line.len();
            let Some(line) = parse(line) else { continue };
            if line.steps_done() > steps_done || steps_done == 0 {
                break;
            }
            kept = end;
            log.evaluation = line.evaluation().or(log.evaluation);
            log.sampled_after = (line.event == "sample")
                .then(|| line.steps_done())
                .or(log.sampled_after);
        }
        if !text.is_empty() && !text.ends_with(b"\n") {
            log.append(b"\n")?;
        }
        let length = log
            .file
            .metadata()
            .with_context(|| log.path.display().to_string())?;
        log.behind = kept as u64..length.len();
        Ok(log)
    }

    /// True if there is a sample after so many steps.
    pub(crate) fn has_sample(&self, steps_done: u64) -> bool {
        self.sampled_after == Some(steps_done)
    }

    /// Adds a line, at once.
    pub(crate) fn write(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.append(&text)?;
        match line {
            Line::Eval(evaluation) => self.evaluation = Some(*evaluation),
            Line::Sample { steps_done, .. } => self.sampled_after = Some(*steps_done),
            Line::Saved { .. } => self.cut_behind()?,
            _ => {}
        }
        Ok(())
    }

    fn append(&mut self, text: &[u8]) -> Result<()> {
        let written = self.file.write_all(text);
        written.with_context(|| self.path.display().to_string())
    }

    /// Cuts what the run has done again since it was opened.
    fn cut_behind(&mut self) -> Result<()> {
        let (start, end) = (self.behind.start as usize, self.behind.end as usize);
        if self.behind.is_empty() {
            return Ok(());
        }
        let text = read_small_file(&self.path, MOST_BYTES)?;
        write_atomically(&self.path, |file| {
            file.write_all(&text[..start])?;
            file.write_all(text.get(end..).unwrap_or_default())
        })?;
        self.file = append(&self.path)?;
        self.behind = 0..0;
        Ok(())
    }
}

/// Reads a run's log; `None`, with a note, if it is too long.
pub(crate) fn read(folder: &Path) -> Result<Option<Vec<u8>>> {
    let path = folder.join(LOG);
    if !is_file(&path)? {
        return Ok(Some(Vec::new()));
    }
    match read_small_file(&path, MOST_BYTES) {
        Err(error) if error.source.kind() == ErrorKind::FileTooLarge => {
            note(&format!("{error}: {}; it stays as it is", error.source));
            Ok(None)
        }
        text => Ok(Some(text?)),
    }
}

/// The lines of a log that are whole.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = Logged> {
    text.split_inclusive(|&byte| byte == b'\n')
        .filter_map(parse)
}

/// A line with its end; without it, it is half a line, also where it happens to be JSON.
fn parse(line: &[u8]) -> Option<Logged> {
    serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64, loss: f32) -> Line {
        let report = StepReport {
            step,
            epoch: 0,
            loss,
            learning_rate: 1e-3,
            grad_norm: 0.5,
            tokens_seen: 8 * (step + 1),
        };
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

    /// The event of each line, with its step.
    fn events(folder: &Path) -> String {
        let text = read(folder).unwrap().unwrap();
        let events = lines(&text).map(|line| format!("{} {}", line.event, line.steps_done()));
        events.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_run_that_goes_back_has_each_step_once_and_cuts_nothing_before_its_first_save() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        write(
            path,
            0,
            [step(0, 0.5), saved(1), step(1, 0.25), step(2, 0.125)],
        );
        assert_eq!(events(path), "step 1, saved 1, step 2, step 3");
        // Killed in the middle of a line, and again before it has saved.
        append(path.join(LOG))
            .unwrap()
            .write_all(b"{\"event\":\"st")
            .unwrap();
        write(path, 1, [step(1, 0.25)]);
        assert_eq!(events(path), "step 1, saved 1, step 2, step 3, step 2");
        write(path, 1, [step(1, 0.25), saved(2), step(2, 0.125)]);
        assert_eq!(events(path), "step 1, saved 1, step 2, saved 2, step 3");
        // One that was never saved begins again.
        write(path, 0, [step(0, 0.5), saved(1)]);
        assert_eq!(events(path), "step 1, saved 1");
    }

    #[test]
    fn a_log_that_is_too_long_is_gone_on_with_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, [step(0, 0.5)]);
        let path = folder.path().join(LOG);
        append(&path).unwrap().set_len(MOST_BYTES + 1).unwrap(); // of zeros
        write(folder.path(), 7, [step(7, 0.125), saved(8)]);
        assert!(std::fs::metadata(&path).unwrap().len() > MOST_BYTES + 100);
        assert_eq!(read(folder.path()).unwrap(), None);
    }

    /// JSON has no number for it.
    #[test]
    fn losses_that_are_no_numbers_are_lines_too() {
        let folder = tempfile::tempdir().unwrap();
        let evaluation = Evaluation {
            steps_done: 3,
            epoch: 0,
            train_loss: f64::NAN,
            val_loss: None,
            tokens_seen: 24,
        };
        let all = [
            step(1, f32::NAN),
            step(2, f32::INFINITY),
            Line::Eval(evaluation),
        ];
        write(folder.path(), 0, all);
        assert_eq!(events(folder.path()), "step 2, step 3, eval 3");
        let again = Log::open(folder.path(), 3).unwrap();
        assert!(again.evaluation.unwrap().train_loss.is_nan());
    }
}
