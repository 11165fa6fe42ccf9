//! Attacks on a run or a model, systematically: replaced files, extreme flags, each system call
//! failing, power cuts, several processes at once.
//!
//! `cargo test` runs a part of the cases; with `TORTURE=1` all of them, with the figures of
//! docs/reliability.md.
//! A case is a fault if the program panics, hangs, aborts, takes memory that nothing justifies,
//! fails in more than one line, or damages what it should not touch.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![cfg(target_os = "linux")] // for ulimit, mkfifo and strace

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
