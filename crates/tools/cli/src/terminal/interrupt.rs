//! Handles signals that ask the program to end.
//!
//! There are two kinds of signals. A *request*, such as Ctrl-C, comes from the user or the system.
//! A *warning* comes from a batch system before a job reaches its time limit. After the first
//! signal of either kind, a training run finishes the current step, saves and ends. A second
//! request ends the program immediately, but a second warning doesn't.
//!
//! Signals that were ignored when the program started stay ignored. This is the case with `nohup`,
//! and for background jobs of some shells.

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

/// Requests: Ctrl-C, a request to terminate, and the end of the terminal session.
#[cfg(unix)]
const REQUESTS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
#[cfg(not(unix))]
const REQUESTS: [i32; 2] = [SIGINT, SIGTERM];

/// Warnings before a job is ended. Slurm sends the signal that is chosen with `--signal`, Grid
/// Engine sends SIGUSR1 or SIGUSR2, and the kernel sends SIGXCPU once per second after the limit on
/// CPU time is exceeded.
#[cfg(unix)]
const WARNINGS: [i32; 3] = [SIGUSR1, SIGUSR2, SIGXCPU];
#[cfg(not(unix))]
const WARNINGS: [i32; 0] = [];

/// Number that is added to the number of a signal to get the exit code, as in shells.
const SIGNAL_EXIT_CODE: i32 = 128;

/// Tells whether a signal has asked the program to end, and which one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Whether the next request ends the program immediately.
    ends_at_once: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Handles Ctrl-C. All other signals keep their usual effect.
    pub(crate) fn listen_to_ctrl_c() -> Result<Self> {
        let interrupt = Self::default();
        interrupt.hear(&[SIGINT])?;
        Ok(interrupt)
    }

    /// Handles requests and warnings. After the first of them, `message` is printed to standard
    /// error.
    ///
    /// If several ranks train together, pass the message on one rank and an empty string on the
    /// others, so that it is printed only once.
    pub(crate) fn listen(message: &'static str) -> Result<Self> {
        let interrupt = Self::default();
        let heard = interrupt.hear(&[&REQUESTS[..], &WARNINGS].concat())?;
        if !message.is_empty() {
            let wait = interrupt.wait(&heard)?;
            let answering = Builder::new().spawn(move || {
                wait();
                // Standard error may be closed, which isn't a reason to fail.
                let _ = io::stderr().write_all(message.as_bytes());
            });
            answering.context("can't start the thread that handles Ctrl-C")?;
        }
        Ok(interrupt)
    }

    /// Registers the handlers of those signals that aren't ignored, and returns these signals.
    fn hear(&self, signals: &[i32]) -> Result<Vec<i32>> {
        let ignored = ignored();
        let heard = signals.iter().copied();
        let heard: Vec<i32> = heard
            .filter(|signal| ignored >> (signal - 1) & 1 == 0)
            .collect();
        for &signal in &heard {
            if REQUESTS.contains(&signal) {
                // The order of registration matters: the handler that ends the program must see the
                // flag that an earlier signal has set, and not the flag of the same signal.
                let ends = &self.ends_at_once;
                flag::register_conditional_shutdown(
                    signal,
                    SIGNAL_EXIT_CODE + signal,
                    Arc::clone(ends),
                )?;
                flag::register(signal, Arc::clone(ends))?;
            }
            flag::register(signal, Arc::clone(&self.asked))?;
            flag::register_usize(signal, Arc::clone(&self.signal), signal as usize)?;
        }
        Ok(heard)
    }

    /// Returns a function that waits for the first of these signals.
    #[cfg(unix)]
    fn wait(&self, heard: &[i32]) -> Result<impl FnOnce() + Send + 'static> {
        let mut signals = signal_hook::iterator::Signals::new(heard)?;
        Ok(move || {
            let _ = signals.forever().next();
        })
    }

    /// Returns a function that waits for the first request. It checks repeatedly because Windows
    /// can't wake a thread for a signal.
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

    /// Sets what the next Ctrl-C does: if `ends_at_once` is true, it ends the program immediately;
    /// otherwise, [`asked`](Self::asked) returns true after it.
    pub(crate) fn set(&self, ends_at_once: bool) {
        self.asked.store(ends_at_once, Ordering::SeqCst);
        self.ends_at_once.store(ends_at_once, Ordering::SeqCst);
    }

    /// Returns the exit code of a program that a signal has ended early. It isn't 0, because the
    /// work is incomplete.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.signal.load(Ordering::SeqCst) {
            0 => ExitCode::SUCCESS,
            signal => ExitCode::from(SIGNAL_EXIT_CODE as u8 + signal as u8),
        }
    }
}

/// Returns the signals that were ignored when the program started: bit N - 1 stands for signal N.
/// On systems other than Linux, the result is 0.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with an error. Otherwise, the signal
/// SIGXFSZ would kill the process.
pub(crate) fn outlive_large_files() -> io::Result<()> {
    #[cfg(unix)]
    flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
    Ok(())
}
