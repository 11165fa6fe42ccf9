//! `log.jsonl`: what happened in a run, one JSON object per line, whole after a crash but for a last half line.
//!
//! `{"event":"step",...}`, `"eval"`, `"sample"`, `"saved"`, and `"start"` at each start.
//! What a resumed run does again is taken out first, so its losses are those of a run that never stopped.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use atomic_file::write_atomically;
use checkpoint::{is_file, open_file};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use train::{Evaluation, StepReport};

use crate::runs::LOG;

/// The most bytes of a log, which has some two hundred a step.
const MOST_BYTES: u64 = 1 << 30;

/// The most bytes of a line; a sample is the longest.
const MOST_LINE_BYTES: u64 = 16 << 20;

/// A line of the log; numbers that are not finite become `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Line {
    /// The run begins, or goes on after `steps_done`.
    Start {
        steps_done: u64,
        parameters: usize,
        tokens_per_step: u64,
        options: Value,
    },
    /// One optimizer step.
    Step {
        step: u64,
        epoch: u64,
        loss: Option<f32>,
        learning_rate: f64,
        grad_norm: Option<f64>,
        tokens_seen: u64,
        tokens_per_second: f64,
    },
    /// One evaluation.
    Eval {
        step: u64,
        epoch: u64,
        train_loss: Option<f64>,
        val_loss: Option<f64>,
        tokens_seen: u64,
    },
    /// A sample of text, after so many steps.
    Sample { steps_done: u64, text: String },
    /// A checkpoint, after so many steps.
    Saved { steps_done: u64, path: String },
}

impl Line {
    pub(crate) fn step(report: &StepReport, tokens_per_second: f64) -> Self {
        Self::Step {
            step: report.step,
            epoch: report.epoch,
            loss: finite(report.loss, f32::is_finite),
            learning_rate: report.learning_rate,
            grad_norm: finite(report.grad_norm, f64::is_finite),
            tokens_seen: report.tokens_seen,
            tokens_per_second,
        }
    }

    pub(crate) fn eval(evaluation: &Evaluation) -> Self {
        Self::Eval {
            step: evaluation.steps_done.saturating_sub(1),
            epoch: evaluation.epoch,
            train_loss: finite(evaluation.train_loss, f64::is_finite),
            val_loss: evaluation.val_loss.filter(|loss| loss.is_finite()),
            tokens_seen: evaluation.tokens_seen,
        }
    }

    /// Whether a run that goes on after `steps_done` steps will not write this line again.
    fn stays(&self, steps_done: u64) -> bool {
        match *self {
            Self::Step { step, .. } | Self::Eval { step, .. } => step < steps_done,
            Self::Start { steps_done: at, .. }
            | Self::Sample { steps_done: at, .. }
            | Self::Saved { steps_done: at, .. } => at <= steps_done,
        }
    }
}

fn finite<T: Copy>(value: T, is_finite: fn(T) -> bool) -> Option<T> {
    is_finite(value).then_some(value)
}

/// A log being written.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    path: PathBuf,
    /// What a run that goes on from its end would log again.
    at_the_end: Vec<Line>,
}

impl Log {
    /// Opens the log of a run that goes on after `steps_done` steps; 0 begins it anew.
    pub(crate) fn open(folder: &Path, steps_done: u64) -> Result<Self> {
        let path = folder.join(LOG);
        let kept: Vec<Line> = match steps_done {
            0 => Vec::new(),
            _ => read(folder)?
                .into_iter()
                .filter(|line| line.stays(steps_done))
                .collect(),
        };
        write_atomically(&path, |file| {
            for line in &kept {
                serde_json::to_writer(&mut *file, line)?;
                file.write_all(b"\n")?;
            }
            Ok(())
        })?;
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.with_context(|| path.display().to_string())?;
        let mut at_the_end = kept;
        at_the_end.retain(|line| match *line {
            Line::Eval { step, .. } => step + 1 == steps_done,
            Line::Sample { steps_done: at, .. } => at == steps_done,
            _ => false,
        });
        Ok(Self {
            file,
            path,
            at_the_end,
        })
    }

    /// Adds a line, at once; but not what a finished run logged before it was resumed.
    pub(crate) fn write(&mut self, line: &Line) -> Result<()> {
        if self.at_the_end.contains(line) {
            return Ok(());
        }
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let written = self.file.write_all(&text);
        written.with_context(|| self.path.display().to_string())
    }
}

/// All lines of a run's log that are whole; none if there is no log.
pub(crate) fn read(folder: &Path) -> Result<Vec<Line>> {
    let path = folder.join(LOG);
    if !is_file(&path)? {
        return Ok(Vec::new());
    }
    let (file, length) = open_file(&path)?;
    if length > MOST_BYTES {
        bail!(
            "{}: the file has {length} bytes, more than the {MOST_BYTES} of any log",
            path.display()
        );
    }
    let mut file = BufReader::new(file.take(length));
    let (mut all, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let mut start = (&mut file).take(MOST_LINE_BYTES);
        let n = start.read_until(b'\n', &mut line);
        if n.with_context(|| path.display().to_string())? == 0 {
            return Ok(all);
        }
        // What is longer than any line is none, and neither are its parts.
        all.extend(serde_json::from_slice::<Line>(&line).ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64, loss: f32) -> Line {
        Line::step(
            &StepReport {
                step,
                epoch: 0,
                loss,
                learning_rate: 1e-3,
                grad_norm: f64::NAN,
                tokens_seen: 8 * (step + 1),
            },
            100.0,
        )
    }

    #[test]
    fn a_resumed_log_has_each_step_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open(folder.path(), 0).unwrap();
        for i in 0..5 {
            log.write(&step(i, 1.0 / (i as f32 + 3.0))).unwrap();
        }
        let all = read(folder.path()).unwrap();
        let mut log = Log::open(folder.path(), 3).unwrap();
        for i in 3..5 {
            log.write(&step(i, 1.0 / (i as f32 + 3.0))).unwrap();
        }
        assert_eq!(read(folder.path()).unwrap(), all);
    }

    #[test]
    fn numbers_that_are_not_finite_are_null() {
        let folder = tempfile::tempdir().unwrap();
        Log::open(folder.path(), 0)
            .unwrap()
            .write(&step(0, f32::INFINITY))
            .unwrap();
        let text = std::fs::read_to_string(folder.path().join(LOG)).unwrap();
        let line: Value = serde_json::from_str(&text).unwrap();
        assert!(line["loss"].is_null() && line["grad_norm"].is_null());
    }
}
