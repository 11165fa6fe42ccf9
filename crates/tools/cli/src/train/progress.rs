//! The view of a model that trains: a bar on a terminal, plain lines on a pipe.
//!
//! The bar is on standard error, lines are on standard output; if those can't be written any more,
//! training goes on.

use std::cell::OnceCell;
use std::fmt::Display;
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use train::{Evaluation, StepReport};

use super::log::Line;
use super::setup::Setup;
use crate::output::{is_closed, note, print, print_json};

/// The share of the newest step's speed in the shown one.
const NEWEST: f64 = 0.1;

/// The bar's columns at most, and at least: a terminal with fewer than three times these shows
/// none.
const BAR: usize = 30;
const SHORTEST_BAR: usize = 12;

/// The bar goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Whether standard output holds JSON and no lines for people.
    json: bool,
    /// Why something couldn't be written there, unless its reader has gone.
    unwritten: OnceCell<anyhow::Error>,
    step_lines: bool,
    log_interval: u64,
    max_steps: u64,
    tokens_per_step: u64,
    last: Instant,
    /// Seconds per step, smoothed.
    pace: Option<f64>,
}

impl Progress {
    pub(crate) fn new(setup: &Setup, steps_done: u64, json: bool) -> Self {
        let max_steps = setup.training.max_steps;
        let bar = ProgressBar::with_draw_target(Some(max_steps), ProgressDrawTarget::stderr());
        bar.set_position(steps_done);
        Self {
            step_lines: bar.is_hidden() || !stdout().is_terminal(),
            bar,
            json,
            unwritten: OnceCell::new(),
            log_interval: setup.options.log_interval as u64,
            max_steps,
            tokens_per_step: setup.tokens_per_step(),
            last: Instant::now(),
            pace: None,
        }
    }

    /// A line above the bar.
    pub(crate) fn line(&self, text: &str) {
        if self.json {
            return;
        }
        self.shown(|| Ok(print(format!("{text}\n"))?));
    }

    /// A line on standard error, whatever standard output is.
    pub(crate) fn note(&self, text: &impl Display) {
        self.bar.suspend(|| note(&text.to_string()));
    }

    /// A line of the log on standard output, if that is JSON.
    pub(crate) fn json(&self, line: &Line) {
        if self.json {
            self.shown(|| print_json(line));
        }
    }

    /// Writes to standard output; a failure doesn't stop the run.
    fn shown(&self, print: impl FnOnce() -> anyhow::Result<()>) {
        if let Err(error) = self.bar.suspend(print)
            && !is_closed(&error)
        {
            let _ = self.unwritten.set(error); // the first is kept
        }
    }

    /// The first failure to write to standard output, if there was one.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        match self.unwritten.into_inner() {
            Some(error) => Err(error.context("standard output")),
            None => Ok(()),
        }
    }

    /// The time that so many steps take.
    fn time_of(&self, steps: u64) -> Option<String> {
        let seconds = (self.pace? * steps as f64).min(1e9);
        Some(clock(Duration::from_secs_f64(seconds)))
    }

    /// Shows an optimizer step; returns its tokens a second.
    pub(crate) fn step(&mut self, report: &StepReport) -> f64 {
        let seconds = self.last.elapsed().as_secs_f64().max(1e-9);
        let pace = match self.pace {
            Some(pace) => pace + NEWEST * (seconds - pace),
            None => seconds,
        };
        self.pace = Some(pace);
        let done = report.step + 1;
        let speed = self.tokens_per_step as f64 / pace;
        let left = self.time_of(self.max_steps.saturating_sub(done));
        let left = left.unwrap_or_default();
        let (style, columns) = style(usize::from(Term::stderr().size().1));
        self.bar.set_style(style);
        self.bar.set_position(done);
        self.bar.set_message(fitting(
            [
                format!("{done}/{} loss {:.3}", self.max_steps, report.loss),
                format!("{left} left"),
                format!("{speed:.0} tokens/s"),
            ],
            columns,
        ));
        let due = done.is_multiple_of(self.log_interval) || done == 1 || done == self.max_steps;
        if self.step_lines && due {
            self.line(&format!(
                "step {done}/{}: loss {:.4}, lr {:.2e}, grad norm {:.3}, {speed:.0} tokens/s, {left} left",
                self.max_steps, report.loss, report.learning_rate, report.grad_norm
            ));
        }
        self.last = Instant::now();
        self.tokens_per_step as f64 / seconds
    }

    /// Shows an evaluation.
    pub(crate) fn evaluation(&mut self, evaluation: &Evaluation) {
        let validation = match evaluation.val_loss {
            Some(loss) => format!(", validation loss {loss:.4}"),
            None => String::new(),
        };
        self.line(&format!(
            "step {}/{}: training loss {:.4}{validation}",
            evaluation.steps_done, self.max_steps, evaluation.train_loss
        ));
    }

    /// Leaves the time since the last step, which was no training, out of the speed.
    pub(crate) fn pause_over(&mut self) {
        self.last = Instant::now();
    }
}

/// The bar's style on a terminal of so many columns, and the columns for the numbers: a third of
/// them, at most 30, are the bar's.
fn style(columns: usize) -> (ProgressStyle, usize) {
    let bar = (columns / 3).min(BAR);
    let (template, numbers) = match bar < SHORTEST_BAR {
        true => ("{wide_msg}".to_owned(), columns),
        false => (
            format!("{{bar:{bar}.cyan/black.bright}} {{wide_msg}}"),
            columns - bar - 1,
        ),
    };
    let style = ProgressStyle::with_template(&template);
    let style = style.expect("the templates are well formed");
    (style.progress_chars("━╸─"), numbers)
}

/// The parts that a line has room for, from the first.
fn fitting(parts: [String; 3], columns: usize) -> String {
    let [mut line, rest @ ..] = parts;
    for part in rest {
        match line.len() + 2 + part.len() <= columns {
            true => line = line + "  " + &part,
            false => break,
        }
    }
    line
}

/// `1:02:03`, or `2:03`
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_a_narrow_terminal_is_left_out_whole() {
        let line = |columns| {
            fitting(
                ["51/60 loss 5.231", "0:00 left", "12338 tokens/s"].map(Into::into),
                columns,
            )
        };
        assert_eq!(line(43), "51/60 loss 5.231  0:00 left  12338 tokens/s");
        assert_eq!(line(42), "51/60 loss 5.231  0:00 left");
        assert_eq!(line(26), "51/60 loss 5.231");
    }

    #[test]
    fn a_bar_fits_50_columns() {
        for columns in [36, 50, 80, 120] {
            let numbers = style(columns).1;
            assert!(
                (23..columns - 11).contains(&numbers),
                "{columns}: {numbers}"
            );
        }
        assert_eq!(style(30).1, 30);
    }

    #[test]
    fn time_left_is_shown_as_a_clock_does() {
        assert_eq!(clock(Duration::from_secs(7)), "0:07");
        assert_eq!(clock(Duration::from_secs(3723)), "1:02:03");
    }
}
