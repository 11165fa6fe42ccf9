//! Handles signals that ask the program to end.
//!
//! Two kinds of signals can ask the program to end. A *request*, such as Ctrl-C, comes from the
//! user or the system. A *warning* comes from a batch system before a job reaches its time limit.
//! After the first signal of either kind, a training run finishes the current step, saves and ends.
//! A second request ends the program immediately, but a second warning doesn't.
//!
//! Signals that were ignored when the program started stay ignored. For example, `nohup` starts
//! programs that ignore SIGHUP, and some shells start background jobs that ignore SIGINT.

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

/// Signals that ask the program to end: SIGINT (Ctrl-C), SIGTERM (the default signal of `kill`)
/// and, on Unix, SIGHUP (the end of the terminal session).
#[cfg(unix)]
const REQUESTS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
#[cfg(not(unix))]
const REQUESTS: [i32; 2] = [SIGINT, SIGTERM];

/// Signals that warn a job that it will soon be ended. Slurm sends the signal that is chosen with
/// `--signal`, Grid Engine sends SIGUSR1 or SIGUSR2, and the kernel sends SIGXCPU once per second
/// after a process has exceeded its limit on CPU time.
#[cfg(unix)]
const WARNINGS: [i32; 3] = [SIGUSR1, SIGUSR2, SIGXCPU];
#[cfg(not(unix))]
const WARNINGS: [i32; 0] = [];

/// Number that is added to a signal's number to get the exit code of a program that was ended by
/// the signal, as in shells.
const SIGNAL_EXIT_CODE: i32 = 128;

/// Shared flags that tell whether a signal has asked the program to end, and which signal it was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Whether the next request ends the program immediately.
    ends_at_once: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Starts handling Ctrl-C. All other signals keep their usual effect.
    pub(crate) fn listen_to_ctrl_c() -> Result<Self> {
        let interrupt = Self::default();
        interrupt.hear(&[SIGINT])?;
        Ok(interrupt)
    }

    /// Starts handling requests and warnings. When the first of these signals arrives, `message` is
    /// printed to standard error.
    ///
    /// If several ranks train together, one of them should pass the message and the others an empty
    /// string, so that the message is printed only once.
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

    /// Registers handlers for those of the `signals` that aren't ignored, and returns the signals
    /// that are handled.
    fn hear(&self, signals: &[i32]) -> Result<Vec<i32>> {
        let ignored = ignored();
        let heard = signals.iter().copied();
        let heard: Vec<i32> = heard
            .filter(|signal| ignored >> (signal - 1) & 1 == 0)
            .collect();
        for &signal in &heard {
            if REQUESTS.contains(&signal) {
                // The handlers of a signal run in the order of their registration. The handler that
                // ends the program is registered first, so the flag that it checks can only have
                // been set by an earlier signal.
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

    /// Returns a function that waits for the first signal. It checks a flag repeatedly, because a
    /// signal can't wake a thread on Windows.
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

    /// Sets the effect of the next Ctrl-C. If `ends_at_once` is true, Ctrl-C ends the program
    /// immediately. Otherwise, it only causes [`asked`](Self::asked) to return true.
    pub(crate) fn set(&self, ends_at_once: bool) {
        self.asked.store(ends_at_once, Ordering::SeqCst);
        self.ends_at_once.store(ends_at_once, Ordering::SeqCst);
    }

    /// Returns the exit code of a program that a signal has ended early. The exit code isn't 0,
    /// because the program hasn't finished its work.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.signal.load(Ordering::SeqCst) {
            0 => ExitCode::SUCCESS,
            signal => ExitCode::from(SIGNAL_EXIT_CODE as u8 + signal as u8),
        }
    }
}

/// Returns a bit mask of the signals that this process ignores. Bit N - 1 stands for signal N. On
/// systems other than Linux, the mask is 0.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Handles the signal SIGXFSZ, so that a write beyond the limit on file sizes (`ulimit -f`) fails
/// with an error. Without a handler, the signal would kill the process.
pub(crate) fn outlive_large_files() -> io::Result<()> {
    #[cfg(unix)]
    flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
    Ok(())
}
