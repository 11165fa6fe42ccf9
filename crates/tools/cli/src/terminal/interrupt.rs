//! Ctrl-C and its kind: once asks for an end in good order, twice ends the process.
//!
//! Signals that the program was started to ignore (by `nohup`, or as a shell's background job) stay
//! ignored.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Builder;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A closed terminal; there is none on Windows.
#[cfg(unix)]
const ASKED_BY: [i32; 3] = [SIGINT, SIGTERM, signal_hook::consts::SIGHUP];
#[cfg(not(unix))]
const ASKED_BY: [i32; 2] = [SIGINT, SIGTERM];

/// The exit code of a program that a signal ended, as shells count.
const BY_SIGNAL: i32 = 128;

/// A request to stop, once there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Listens from here on, and answers the first request with `message`.
    ///
    /// Of several ranks one has a message, so that it is shown once; the others' is empty.
    pub(crate) fn listen(message: &'static str) -> Result<Self> {
        let interrupt = Self::default();
        let ignored = ignored();
        let heard = ASKED_BY.into_iter();
        let heard = heard.filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let heard: Vec<i32> = heard.collect();
        for &signal in &heard {
            // In this order: the second of two signals finds what the first one has left.
            let asked = &interrupt.asked;
            flag::register_conditional_shutdown(signal, BY_SIGNAL + signal, Arc::clone(asked))?;
            flag::register(signal, Arc::clone(asked))?;
            flag::register_usize(signal, Arc::clone(&interrupt.signal), signal as usize)?;
        }
        if !message.is_empty() {
            let wait = interrupt.wait(&heard)?;
            let answering = Builder::new().spawn(move || {
                wait();
                // Standard error may be closed: no reason to fail.
                let _ = io::stderr().write_all(message.as_bytes());
            });
            answering.context("could not start a thread that answers Ctrl-C")?;
        }
        Ok(interrupt)
    }

    /// A function that returns at the first of these signals.
    #[cfg(unix)]
    fn wait(&self, heard: &[i32]) -> Result<impl FnOnce() + Send + 'static> {
        let mut signals = signal_hook::iterator::Signals::new(heard)?;
        Ok(move || {
            let _ = signals.forever().next();
        })
    }

    /// A function that returns at the first request; Windows wakes no thread for one.
    #[cfg(not(unix))]
    fn wait(&self, _: &[i32]) -> Result<impl FnOnce() + Send + 'static> {
        const SOON: std::time::Duration = std::time::Duration::from_millis(100);
        let listening = self.clone();
        Ok(move || {
            while !listening.asked() {
                std::thread::sleep(SOON);
            }
        })
    }

    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Makes the next Ctrl-C end the process at once, or only ask for an end.
    pub(crate) fn set(&self, ends_at_once: bool) {
        self.asked.store(ends_at_once, Ordering::SeqCst);
    }

    /// The exit code of a program that was stopped in good order: not 0, because its work isn't
    /// complete.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.signal.load(Ordering::SeqCst) {
            0 => ExitCode::SUCCESS,
            signal => ExitCode::from(BY_SIGNAL as u8 + signal as u8),
        }
    }
}

/// The signals that were ignored when this program started, a bit each, if the system reports them
/// (Linux).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// A write beyond the file size limit (`ulimit -f`) becomes an error with the file's name instead
/// of killing the process.
pub(crate) fn outlive_large_files() -> io::Result<()> {
    #[cfg(unix)]
    flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
    Ok(())
}
