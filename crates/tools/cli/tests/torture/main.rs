//! Systematically tries to break training runs and models: with replaced files, extreme values of
//! flags, failing system calls, power failures, too little memory, and several processes at the
//! same time.
//!
//! By default, only a selection of the test cases is run. If the environment variable `TORTURE` is
//! set to 1, all cases are run, and the numbers of cases and faults that they print can be copied
//! to `docs/reliability.md`.
//!
//! A case counts as a fault if the program panics, hangs, aborts, uses too much memory, prints more
//! than one line for an error, or damages files that it shouldn't change.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![cfg(target_os = "linux")] // The tests need `ulimit`, `mkfifo` and strace.

mod at_once;
mod calls;
mod disk;
mod files;
mod flags;
mod jobs;
mod limits;
mod outputs;
mod poor_fs;
mod sandbox;
