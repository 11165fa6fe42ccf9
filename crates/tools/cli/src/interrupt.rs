//! Ctrl-C: once asks for an end in good order, twice ends the process.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

/// The exit code of a program that was interrupted: 128 + SIGINT.
pub(crate) const INTERRUPTED: i32 = 130;

/// Whether somebody asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from here on (to a request to terminate, too), and answers the first with `message`.
    ///
    /// Of several ranks that are asked, one has a message.
    pub(crate) fn listen(message: &'static str) -> Result<Self> {
        let interrupt = Self::default();
        let asked = Arc::clone(&interrupt.0);
        ctrlc::set_handler(move || {
            if asked.swap(true, Ordering::SeqCst) {
                std::process::exit(INTERRUPTED);
            }
            // Standard error may be closed: no reason to fail.
            let _ = std::io::stderr().write_all(message.as_bytes());
        })?;
        Ok(interrupt)
    }

    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether the next Ctrl-C ends the process at once.
    pub(crate) fn set(&self, ends_at_once: bool) {
        self.0.store(ends_at_once, Ordering::SeqCst);
    }
}
