//! Ctrl-C: once asks the run to stop after its step and save, twice ends the process.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

/// The exit code of a program that was interrupted: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// Whether somebody asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from here on (to a request to terminate, too).
    ///
    /// Of several ranks that are asked, `tells` is one.
    pub(crate) fn listen(tells: bool) -> Result<Self> {
        let interrupt = Self::default();
        let asked = Arc::clone(&interrupt.0);
        ctrlc::set_handler(move || {
            if asked.swap(true, Ordering::SeqCst) {
                std::process::exit(INTERRUPTED);
            }
            if !tells {
                return;
            }
            // Standard error may be closed: no reason to fail.
            let message = b"\nstopping after this step and saving (Ctrl-C again stops at once)\n";
            let _ = std::io::stderr().write_all(message);
        })?;
        Ok(interrupt)
    }

    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
