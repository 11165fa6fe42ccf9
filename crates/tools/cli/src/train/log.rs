//! `log.jsonl`: what happened in a run, one JSON object per line, whole after a crash but for a
//! last half line.
//!
//! `{"event":"step",...}`, `"eval"`, `"sample"`, `"saved"`, and `"start"` at each start.
//! What a resumed run does again is cut off first, so its losses are those of a run that never
//! stopped. However long the run, its log is read from the end, or in samples.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use atomic_file::{append, is_file, open_file};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use train::{Evaluation, StepReport};

use crate::runs::LOG;

/// The most bytes of a log that [`read`] reads whole, some 300,000 steps.
const MOST_BYTES: u64 = 64 << 20;

/// Of a longer one it reads so many pieces.
const PIECES: u64 = 1024;

/// The most bytes of a line; a sample is the longest.
const MOST_LINE_BYTES: u64 = 16 << 20;

/// A line of the log.
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

impl Line {
    /// A line as it stands in a log.
    fn parse(text: &[u8]) -> Option<Self> {
        let mut line: Map<String, Value> = serde_json::from_slice(text).ok()?;
        // Evaluations once named the step that they followed, counted from 0.
        if line.get("event")? == "eval"
            && let Some(step) = line.remove("step")
        {
            let steps_done = step.as_u64()?.saturating_add(1);
            line.insert("steps_done".to_owned(), steps_done.into());
        }
        serde_json::from_value(line.into()).ok()
    }

    /// Optimizer steps when it was written.
    fn steps_done(&self) -> u64 {
        match self {
            Self::Step { report, .. } => report.step.saturating_add(1),
            Self::Eval(evaluation) => evaluation.steps_done,
            Self::Start { steps_done, .. }
            | Self::Sample { steps_done, .. }
            | Self::Saved { steps_done, .. } => *steps_done,
        }
    }

    /// Whether a run that goes on from its end would log it again.
    fn is_of_the_end(&self) -> bool {
        matches!(self, Self::Eval(_) | Self::Sample { .. })
    }
}

/// A log being written.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    path: PathBuf,
    /// Evaluations and samples of the last step.
    at_the_end: Vec<Line>,
}

impl Log {
    /// Opens the log of a run that goes on after `steps_done` steps; 0 begins it anew.
    pub(crate) fn open(folder: &Path, steps_done: u64) -> Result<Self> {
        let path = folder.join(LOG);
        let file = append(&path)?;
        let (length, at_the_end) = match steps_done {
            0 => (0, Vec::new()),
            _ => kept(&path, steps_done)?,
        };
        let cut = file.set_len(length);
        cut.with_context(|| path.display().to_string())?;
        Ok(Self {
            file,
            path,
            at_the_end,
        })
    }

    /// The evaluation of the last step.
    pub(crate) fn evaluation(&self) -> Option<Evaluation> {
        self.at_the_end.iter().find_map(|line| match line {
            Line::Eval(evaluation) => Some(*evaluation),
            _ => None,
        })
    }

    /// Whether there is a sample of the last step.
    pub(crate) fn has_sample(&self) -> bool {
        let mut lines = self.at_the_end.iter();
        lines.any(|line| matches!(line, Line::Sample { .. }))
    }

    /// Adds a line, at once; but not what a finished run logged before it was resumed.
    pub(crate) fn write(&mut self, line: Line) -> Result<()> {
        if self.at_the_end.contains(&line) {
            return Ok(());
        }
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        let written = self.file.write_all(&text);
        written.with_context(|| self.path.display().to_string())?;
        let now = line.steps_done();
        self.at_the_end.retain(|line| line.steps_done() == now);
        self.at_the_end
            .extend(Some(line).filter(Line::is_of_the_end));
        Ok(())
    }
}

/// The bytes of a log that stay when a run goes on after `steps_done` steps, and the evaluations
/// and samples at their end.
fn kept(path: &Path, steps_done: u64) -> Result<(u64, Vec<Line>)> {
    let (file, length) = open_file(path)?;
    let mut lines = Backwards::new(path, &file, 0..length);
    let (mut length, mut at_the_end) = (None, Vec::new());
    while let Some((end, text)) = lines.next_back()? {
        // What is no line, or a half one, goes if it is at the end.
        let Some(line) = Line::parse(&text) else {
            continue;
        };
        let at = line.steps_done();
        if at > steps_done || !text.ends_with(b"\n") {
            continue;
        }
        length.get_or_insert(end);
        if at < steps_done {
            break;
        }
        at_the_end.extend(Some(line).filter(Line::is_of_the_end));
    }
    Ok((length.unwrap_or(0), at_the_end))
}

/// The lines of a part of a file, the last one first.
struct Backwards<'a> {
    path: &'a Path,
    file: &'a File,
    /// The bytes that haven't been read, and those that have and weren't given out, behind them.
    unread: Range<u64>,
    held: Vec<u8>,
}

impl<'a> Backwards<'a> {
    fn new(path: &'a Path, file: &'a File, part: Range<u64>) -> Self {
        Self {
            path,
            file,
            unread: part,
            held: Vec::new(),
        }
    }

    /// A line with its end, and where it ends.
    fn next_back(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        loop {
            let before = self.held.len().saturating_sub(1);
            let cut = self.held[..before].iter().rposition(|&byte| byte == b'\n');
            if cut.is_some() || (self.unread.is_empty() && !self.held.is_empty()) {
                let end = self.unread.end + self.held.len() as u64;
                let line = self.held.split_off(cut.map_or(0, |cut| cut + 1));
                return Ok(Some((end, line)));
            }
            if self.unread.is_empty() {
                return Ok(None);
            }
            if self.held.len() as u64 > MOST_LINE_BYTES {
                bail!(
                    "{}: {} bytes without an end of line, which no run has logged; \
                     move the file away to go on without it",
                    self.path.display(),
                    self.held.len()
                );
            }
            let unread = self.unread.end - self.unread.start;
            let n = unread.min(self.held.len().max(1 << 16) as u64);
            self.unread.end -= n;
            let mut chunk = vec![0; n as usize];
            let read = self.file.seek(SeekFrom::Start(self.unread.end));
            let read = read.and_then(|_| self.file.read_exact(&mut chunk));
            read.with_context(|| self.path.display().to_string())?;
            chunk.append(&mut self.held);
            self.held = chunk;
        }
    }
}

/// The lines of a run's log that are whole, none if there is no log; of a very long one, pieces
/// from its beginning to its end.
pub(crate) fn read(folder: &Path) -> Result<Vec<Line>> {
    let path = folder.join(LOG);
    if !is_file(&path)? {
        return Ok(Vec::new());
    }
    let (file, length) = open_file(&path)?;
    let (pieces, bytes) = match length <= MOST_BYTES {
        true => (1, length),
        false => (PIECES, MOST_BYTES / PIECES),
    };
    let mut all = Vec::new();
    for piece in (0..pieces).rev() {
        let start = (length - bytes) * piece / (pieces - 1).max(1);
        let mut lines = Backwards::new(&path, &file, start..start + bytes);
        while let Some((_, text)) = lines.next_back()? {
            // Without its end it is half a line, also where it happens to be JSON.
            all.extend(Line::parse(&text).filter(|_| text.ends_with(b"\n")));
        }
    }
    all.reverse();
    Ok(all)
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

    #[test]
    fn a_resumed_log_has_each_step_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open(folder.path(), 0).unwrap();
        for i in 0..5 {
            log.write(step(i, 1.0 / (i as f32 + 3.0))).unwrap();
        }
        let all = read(folder.path()).unwrap();
        let mut log = Log::open(folder.path(), 3).unwrap();
        for i in 3..5 {
            log.write(step(i, 1.0 / (i as f32 + 3.0))).unwrap();
        }
        assert_eq!(read(folder.path()).unwrap(), all);

        // A line without its end counts for nobody.
        let half = serde_json::to_vec(&step(5, 0.5)).unwrap();
        log.file.write_all(&half).unwrap();
        assert_eq!(read(folder.path()).unwrap(), all);
        Log::open(folder.path(), 6).unwrap();
        assert_eq!(read(folder.path()).unwrap(), all);
    }

    /// A log of more than a gibibyte is cut, gone on with, and drawn from pieces of it.
    #[test]
    fn a_long_log_is_read_from_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open(folder.path(), 0).unwrap();
        log.write(step(0, 0.5)).unwrap();
        log.file.set_len(1100 << 20).unwrap(); // zeros in place of a million steps
        log.file.write_all(b"\n").unwrap();
        for i in 5..9 {
            log.write(step(i, 0.25)).unwrap();
        }
        log.file.write_all(b"{\"event\":\"st").unwrap();
        let mut log = Log::open(folder.path(), 7).unwrap();
        log.write(step(7, 0.125)).unwrap();
        let losses: Vec<_> = read(folder.path())
            .unwrap()
            .into_iter()
            .map(|line| match line {
                Line::Step { report, .. } => (report.step, report.loss),
                line => panic!("{line:?}"),
            })
            .collect();
        assert_eq!(losses, [(0, 0.5), (5, 0.25), (6, 0.25), (7, 0.125)]);
    }

    #[test]
    fn an_evaluation_may_name_the_step_that_it_followed() {
        let line = |steps: &str| {
            let rest = r#""epoch":0,"train_loss":0.5,"val_loss":null,"tokens_seen":8}"#;
            Line::parse(format!(r#"{{"event":"eval",{steps},{rest}"#).as_bytes())
        };
        assert!(line(r#""step":6"#).is_some());
        assert_eq!(line(r#""step":6"#), line(r#""steps_done":7"#));
    }

    /// JSON has no number for it, and a line that is not read would be cut off.
    #[test]
    fn losses_that_are_no_numbers_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let evaluation = Evaluation {
            steps_done: 3,
            epoch: 0,
            train_loss: f64::NAN,
            val_loss: None,
            tokens_seen: 24,
        };
        let mut log = Log::open(folder.path(), 0).unwrap();
        log.write(step(1, f32::NAN)).unwrap();
        log.write(step(2, f32::INFINITY)).unwrap();
        log.write(Line::Eval(evaluation)).unwrap();
        let again = Log::open(folder.path(), 3).unwrap();
        assert!(again.evaluation().unwrap().train_loss.is_nan());
        let is_nan = |line: &Line| match line {
            Line::Step { report, .. } => report.loss.is_nan(),
            _ => true,
        };
        let lines = read(folder.path()).unwrap();
        assert!(lines.len() == 3 && lines.iter().all(is_nan), "{lines:?}");
    }
}
