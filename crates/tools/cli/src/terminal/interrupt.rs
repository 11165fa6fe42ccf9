//! Handles signals that ask the program to end.
//!
//! Two kinds of signals ask the program to end. A *request*, such as Ctrl-C, comes from the user or
//! the system. A *warning* comes from a batch system before a job reaches its time limit. After the
//! first signal of either kind, a training run finishes the current step, saves a checkpoint and
//! ends. A second request ends the program immediately, but a second warning doesn't.
//!
//! Signals that were ignored when the program started remain ignored. For example, `nohup` starts
//! programs in such a way that they ignore SIGHUP, and some shells start background jobs in such a
//! way that they ignore SIGINT.

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

/// Signals by which the user or the system asks the program to end: SIGINT (Ctrl-C), SIGTERM (the
/// default signal of `kill`) and, on Unix, SIGHUP (the end of the terminal session).
#[cfg(unix)]
const REQUESTS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
#[cfg(not(unix))]
const REQUESTS: [i32; 2] = [SIGINT, SIGTERM];

/// Signals that warn the program that it will soon be ended. Slurm sends the signal that the user
/// selects with `--signal`, Grid Engine sends SIGUSR1 or SIGUSR2, and the kernel sends SIGXCPU once
/// per second after a process has exceeded its CPU time limit.
#[cfg(unix)]
const WARNINGS: [i32; 3] = [SIGUSR1, SIGUSR2, SIGXCPU];
#[cfg(not(unix))]
const WARNINGS: [i32; 0] = [];

/// Offset between a signal's number and the exit code of a program that the signal has ended. For
/// example, SIGINT has the number 2, so the exit code is 130. Shells use the same offset.
const SIGNAL_EXIT_CODE: i32 = 128;

/// Tells whether a signal, such as Ctrl-C, has asked the program to end, and which signal it was.
/// The signal handlers set the flags, and the program reads them, for example after each training
/// step. All clones share the same flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Whether the next request ends the program immediately.
    ends_at_once: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Starts handling Ctrl-C. All other signals keep their default effect.
    pub(crate) fn listen_to_ctrl_c() -> Result<Self> {
        let interrupt = Self::default();
        interrupt.hear(&[SIGINT])?;
        Ok(interrupt)
    }

    /// Installs handlers for the signals that ask the program to end (`REQUESTS`) and for the
    /// signals that warn it that it will soon be ended (`WARNINGS`). When the first of these
    /// signals arrives, prints `message` to standard error.
    ///
    /// `message` tells the user what the program does next. If several MPI ranks (processes) train
    /// together, only one of them should pass a message, so that it is printed only once. The other
    /// ranks should pass an empty string.
    pub(crate) fn listen(message: &'static str) -> Result<Self> {
        let interrupt = Self::default();
        let heard = interrupt.hear(&[&REQUESTS[..], &WARNINGS].concat())?;
        if !message.is_empty() {
            let wait = interrupt.wait(&heard)?;
            let answering = Builder::new().spawn(move || {
                wait();
                // An error while printing the message is ignored, because the program must still be
                // able to finish its step and save a checkpoint if standard error is closed.
                let _ = io::stderr().write_all(message.as_bytes());
            });
            answering.context("can't start the thread that handles Ctrl-C")?;
        }
        Ok(interrupt)
    }

    /// Registers handlers for those of the given `signals` that this process doesn't ignore.
    /// Returns the signals for which handlers were registered.
    fn hear(&self, signals: &[i32]) -> Result<Vec<i32>> {
        let ignored = ignored();
        let heard = signals.iter().copied();
        let heard: Vec<i32> = heard
            .filter(|signal| ignored >> (signal - 1) & 1 == 0)
            .collect();
        for &signal in &heard {
            if REQUESTS.contains(&signal) {
                // The handlers of a signal run in the order in which they are registered here. The
                // first handler ends the program if the flag `ends_at_once` is set, and the second
                // handler sets this flag. The first Ctrl-C therefore only sets the flag, and the
                // second Ctrl-C ends the program.
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

    /// Returns a function that blocks the calling thread until the first of the signals in `heard`
    /// arrives.
    #[cfg(unix)]
    fn wait(&self, heard: &[i32]) -> Result<impl FnOnce() + Send + 'static> {
        let mut signals = signal_hook::iterator::Signals::new(heard)?;
        Ok(move || {
            let _ = signals.forever().next();
        })
    }

    /// Returns a function that blocks the calling thread until the first signal arrives. Unlike the
    /// version for Unix, this function polls the flag `asked`, because a signal can't wake up a
    /// thread on Windows.
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

    /// Determines what the next Ctrl-C does. If `ends_at_once` is true, it ends the program
    /// immediately. Otherwise, it only makes [`asked`](Self::asked) return true, so that the
    /// program can end in an orderly way. Until then, `asked` returns false.
    pub(crate) fn set(&self, ends_at_once: bool) {
        self.asked.store(ends_at_once, Ordering::SeqCst);
        self.ends_at_once.store(ends_at_once, Ordering::SeqCst);
    }

    /// Returns the exit code of the program. This is 128 plus the number of the signal that ended
    /// the program early, or 0 if no signal has arrived.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.signal.load(Ordering::SeqCst) {
            0 => ExitCode::SUCCESS,
            signal => ExitCode::from(SIGNAL_EXIT_CODE as u8 + signal as u8),
        }
    }
}

/// Returns the set of signals that this process ignores, as a bit mask in which bit N - 1
/// represents signal N. On systems other than Linux, the mask is 0.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Handles SIGXFSZ, which would otherwise end the process when a file exceeds the limit on file
/// sizes (`ulimit -f`). With this handler, the write fails with an error instead.
pub(crate) fn outlive_large_files() -> io::Result<()> {
    #[cfg(unix)]
    flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
    Ok(())
}
