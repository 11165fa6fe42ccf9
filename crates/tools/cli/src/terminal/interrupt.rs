//! Signals that ask a run to end: Ctrl-C and its kind, and the warnings of batch systems. The run
//! ends after a step and saves. A second request, but not a second warning, ends the process at
//! once.
//!
//! Signals that the program was started to ignore (by `nohup`, or as a shell's background job) stay
//! ignored.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Builder;

use anyhow::{Context, Result};
#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Requests: Ctrl-C, the end of a job, and a closed terminal.
#[cfg(unix)]
const REQUESTS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
#[cfg(not(unix))]
const REQUESTS: [i32; 2] = [SIGINT, SIGTERM];

/// Warnings that a job will end soon. Slurm sends the signal of `--signal`, Grid Engine SIGUSR1 or
/// SIGUSR2, and the kernel SIGXCPU in each second beyond a limit of processor time.
#[cfg(unix)]
const WARNINGS: [i32; 3] = [SIGUSR1, SIGUSR2, SIGXCPU];
#[cfg(not(unix))]
const WARNINGS: [i32; 0] = [];

/// The exit code of a program that a signal ended, as shells count.
const BY_SIGNAL: i32 = 128;

/// A request to stop, once there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    /// True if the next request ends the process.
    ends_at_once: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Listens to Ctrl-C alone; other signals end the process.
    pub(crate) fn listen_to_ctrl_c() -> Result<Self> {
        let interrupt = Self::default();
        interrupt.hear(&[SIGINT])?;
        Ok(interrupt)
    }

    /// Listens from here on, and answers the first request or warning with `message`.
    ///
    /// Of several ranks one has a message, so that it is shown once; the others' is empty.
    pub(crate) fn listen(message: &'static str) -> Result<Self> {
        let interrupt = Self::default();
        let heard = interrupt.hear(&[&REQUESTS[..], &WARNINGS].concat())?;
        if !message.is_empty() {
            let wait = interrupt.wait(&heard)?;
            let answering = Builder::new().spawn(move || {
                wait();
                // Standard error may be closed: no reason to fail.
                let _ = io::stderr().write_all(message.as_bytes());
            });
            answering.context("can't start the thread that handles Ctrl-C")?;
        }
        Ok(interrupt)
    }

    /// Registers the signals that aren't ignored, and returns them.
    fn hear(&self, signals: &[i32]) -> Result<Vec<i32>> {
        let ignored = ignored();
        let heard = signals.iter().copied();
        let heard: Vec<i32> = heard
            .filter(|signal| ignored >> (signal - 1) & 1 == 0)
            .collect();
        for &signal in &heard {
            if REQUESTS.contains(&signal) {
                // In this order: the second of two signals finds what the first one has left.
                let ends = &self.ends_at_once;
                flag::register_conditional_shutdown(signal, BY_SIGNAL + signal, Arc::clone(ends))?;
                flag::register(signal, Arc::clone(ends))?;
            }
            flag::register(signal, Arc::clone(&self.asked))?;
            flag::register_usize(signal, Arc::clone(&self.signal), signal as usize)?;
        }
        Ok(heard)
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
        self.ends_at_once.store(ends_at_once, Ordering::SeqCst);
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
