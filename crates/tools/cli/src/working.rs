//! Long work speaks: after a second a line on standard error says what is being done, on a terminal
//! also how far it is.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::tell;

/// Work is quick that ends within this.
const QUICK: Duration = Duration::from_secs(1);
/// The time between two updates of a terminal.
const OFTEN: Duration = Duration::from_millis(250);

/// Something that may take long; its line goes when this is dropped.
pub(crate) struct Working {
    bar: ProgressBar,
    /// Dropped, it says that the work is over.
    over: Option<Sender<()>>,
    teller: Option<JoinHandle<()>>,
}

impl Working {
    /// Work in so many parts, or 0 if that isn't known.
    pub(crate) fn on(what: &'static str, total: u64) -> Self {
        let template = match total {
            0 => "{msg}: {elapsed}",
            _ => "{msg}: {percent}%, {elapsed}, {eta} left",
        };
        let style = ProgressStyle::with_template(template).expect("the templates are well formed");
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let bar = bar.with_style(style).with_message(what);
        let (over, is_over) = channel();
        let shown = bar.clone();
        // Where no thread can be started the work is done without a word.
        let teller = Builder::new().spawn(move || {
            let waited: Result<(), _> = is_over.recv_timeout(QUICK);
            match waited {
                Err(RecvTimeoutError::Timeout) if stderr().is_terminal() => {
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                    shown.enable_steady_tick(OFTEN);
                }
                Err(RecvTimeoutError::Timeout) => tell(&format!("{what}: 1 s")),
                _ => {}
            }
        });
        Self {
            bar,
            over: Some(over),
            teller: teller.ok(),
        }
    }

    /// Sets the number of parts that are done.
    pub(crate) fn has_done(&self, parts: u64) {
        self.bar.set_position(parts);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.over = None;
        let _ = self.teller.take().map(JoinHandle::join);
        self.bar.finish_and_clear();
    }
}
