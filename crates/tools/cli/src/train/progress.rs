//! Shows the progress of a training run. If standard error is a terminal, a progress bar is drawn
//! there. If standard output or standard error goes to a file or pipe, a line about the progress is
//! also printed to standard output after every ten steps.
//!
//! The bar is drawn on standard error, and the lines are printed to standard output. If writing to
//! standard output fails, for example because a pipe was closed, the training continues, and the
//! program reports the error when it ends.

use std::fmt::Display;
use std::io::{IsTerminal, stdout};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use train::{Evaluation, StepReport};

use crate::terminal::output::{note, print};

/// Number of training steps from one progress line to the next. Such lines are printed if standard
/// output or standard error isn't a terminal.
const STEPS_PER_LINE: u64 = 10;

/// Displays the progress of a training run. When this value is dropped, the progress bar
/// disappears.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    step_lines: bool,
    max_steps: u64,
    tokens_per_step: u64,
    /// Time from which the duration of the current training step is measured. This is the time at
    /// which the previous step ended or, if other work such as an evaluation followed that step,
    /// the time at which that work ended.
    last: Instant,
}

impl Progress {
    pub(crate) fn new(steps_done: u64, max_steps: u64, tokens_per_step: u64) -> Self {
        let style = "{wide_bar:.cyan/black.bright} {pos}/{len} {msg} {eta}";
        let style = ProgressStyle::with_template(style).expect("it is well formed");
        let bar = ProgressBar::with_draw_target(Some(max_steps), ProgressDrawTarget::stderr());
        let bar = bar.with_style(style.progress_chars("━╸─"));
        Self {
            step_lines: bar.is_hidden() || !stdout().is_terminal(),
            bar: bar.with_position(steps_done),
            max_steps,
            tokens_per_step,
            last: Instant::now(),
        }
    }

    /// Prints a line above the bar.
    pub(crate) fn line(&self, text: &str) {
        // Errors in writing are reported at the end of the program.
        let _ = self.bar.suspend(|| print(format!("{text}\n")));
    }

    /// Prints a note to standard error, above the progress bar. This also works if standard output
    /// is closed.
    pub(crate) fn note(&self, text: &impl Display) {
        self.bar.suspend(|| note(&text.to_string()));
    }

    /// Shows the result of a training step. Returns the speed of this step in tokens per second.
    pub(crate) fn step(&mut self, report: &StepReport) -> f64 {
        let seconds = self.last.elapsed().as_secs_f64().max(1e-9);
        let (done, speed) = (report.step + 1, self.tokens_per_step as f64 / seconds);
        let (loss, total) = (report.loss, self.max_steps);
        self.bar.set_position(done);
        self.bar
            .set_message(format!("loss {loss:.3}  {speed:.0} tokens/s"));
        if self.step_lines && (done.is_multiple_of(STEPS_PER_LINE) || done == 1 || done == total) {
            let rate = report.learning_rate;
            self.line(&format!(
                "step {done}/{total}: loss {loss:.4}, lr {rate:.2e}, {speed:.0} tokens/s"
            ));
        }
        self.pause_over();
        speed
    }

    /// Shows an evaluation.
    pub(crate) fn evaluation(&self, evaluation: &Evaluation) {
        let validation = match evaluation.val_loss {
            Some(loss) => format!(", validation loss {loss:.4}"),
            None => String::new(),
        };
        self.line(&format!(
            "step {}/{}: training loss {:.4}{validation}",
            evaluation.steps_done, self.max_steps, evaluation.train_loss
        ));
    }

    /// Restarts the clock after an evaluation or similar work, so that the time spent on it doesn't
    /// lower the reported training speed.
    pub(crate) fn pause_over(&mut self) {
        self.last = Instant::now();
    }
}
