//! What a user sees while a model trains: a bar on a terminal, plain lines on a pipe.
//!
//! The bar is on standard error, lines are on standard output; if nobody reads those any more, training goes on.

use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use train::{Evaluation, StepReport};

use crate::output::{escaped, print};

/// How much of the newest step's speed goes into the shown one.
const NEWEST: f64 = 0.1;

#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    step_lines: bool,
    log_interval: u64,
    max_steps: u64,
    tokens_per_step: u64,
    last: Instant,
    /// Seconds a step, smoothed.
    pace: Option<f64>,
}

impl Progress {
    pub(crate) fn new(
        steps_done: u64,
        max_steps: u64,
        tokens_per_step: u64,
        log_interval: u64,
    ) -> Self {
        let bar = ProgressBar::with_draw_target(Some(max_steps), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:30.cyan/black.bright} {pos}/{len} {msg}");
        bar.set_style(
            style
                .expect("the template is well formed")
                .progress_chars("━╸─"),
        );
        bar.set_position(steps_done);
        Self {
            step_lines: bar.is_hidden() || !stdout().is_terminal(),
            bar,
            log_interval,
            max_steps,
            tokens_per_step,
            last: Instant::now(),
            pace: None,
        }
    }

    /// A line above the bar.
    pub(crate) fn line(&self, text: &str) {
        self.bar.suspend(|| {
            // A reader that has gone doesn't stop the run.
            let _ = print(format!("{}\n", escaped(text)));
        });
    }

    /// One optimizer step is done; tells its tokens a second.
    pub(crate) fn step(&mut self, report: &StepReport) -> f64 {
        let seconds = self.last.elapsed().as_secs_f64().max(1e-9);
        let pace = match self.pace {
            Some(pace) => pace + NEWEST * (seconds - pace),
            None => seconds,
        };
        self.pace = Some(pace);
        let done = report.step + 1;
        let speed = self.tokens_per_step as f64 / pace;
        let left = left(Duration::from_secs_f64(
            (pace * self.max_steps.saturating_sub(done) as f64).min(1e9),
        ));
        let StepReport {
            loss,
            learning_rate,
            grad_norm,
            ..
        } = report;
        self.bar.set_position(done);
        self.bar
            .set_message(format!("loss {loss:.3}  {speed:.0} tokens/s  {left} left"));
        let due = done.is_multiple_of(self.log_interval) || done == 1 || done == self.max_steps;
        if self.step_lines && due {
            self.line(&format!(
                "step {done}/{}: loss {loss:.4}, lr {learning_rate:.2e}, grad norm {grad_norm:.3}, {speed:.0} tokens/s, {left} left",
                self.max_steps
            ));
        }
        self.last = Instant::now();
        self.tokens_per_step as f64 / seconds
    }

    /// One evaluation is done.
    pub(crate) fn evaluation(&mut self, evaluation: &Evaluation) {
        let validation = match evaluation.val_loss {
            Some(loss) => format!(", validation loss {loss:.4}"),
            None => String::new(),
        };
        self.line(&format!(
            "step {}/{}: training loss {:.4}{validation}",
            evaluation.step + 1,
            self.max_steps,
            evaluation.train_loss
        ));
    }

    /// What happened since the last step was no training: it doesn't count for the speed.
    pub(crate) fn pause_over(&mut self) {
        self.last = Instant::now();
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// `1:02:03`, or `2:03`
fn left(time: Duration) -> String {
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
    fn time_left_is_shown_as_a_clock_does() {
        assert_eq!(left(Duration::from_secs(7)), "0:07");
        assert_eq!(left(Duration::from_secs(3723)), "1:02:03");
    }
}
