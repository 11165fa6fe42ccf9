//! The view of a model that trains: a bar on a terminal, plain lines on a pipe.
//!
//! The bar is on standard error, lines are on standard output; if those can't be written any more,
//! training continues, and the program reports it at its end.

use std::fmt::Display;
use std::io::{IsTerminal, stdout};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use train::{Evaluation, StepReport};

use crate::terminal::output::{note, print};

/// Steps between plain lines.
const EVERY: u64 = 10;

/// The bar goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    step_lines: bool,
    max_steps: u64,
    tokens_per_step: u64,
    /// The end of the last step, or of later work.
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

    /// A line above the bar.
    pub(crate) fn line(&self, text: &str) {
        // Write errors are reported at the end.
        let _ = self.bar.suspend(|| print(format!("{text}\n")));
    }

    /// A line on standard error, regardless of standard output.
    pub(crate) fn note(&self, text: &impl Display) {
        self.bar.suspend(|| note(&text.to_string()));
    }

    /// Shows an optimizer step; returns its tokens a second.
    pub(crate) fn step(&mut self, report: &StepReport) -> f64 {
        let seconds = self.last.elapsed().as_secs_f64().max(1e-9);
        let (done, speed) = (report.step + 1, self.tokens_per_step as f64 / seconds);
        let (loss, total) = (report.loss, self.max_steps);
        self.bar.set_position(done);
        self.bar
            .set_message(format!("loss {loss:.3}  {speed:.0} tokens/s"));
        if self.step_lines && (done.is_multiple_of(EVERY) || done == 1 || done == total) {
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

    /// Excludes the time since the last step, which wasn't training, from the speed.
    pub(crate) fn pause_over(&mut self) {
        self.last = Instant::now();
    }
}
