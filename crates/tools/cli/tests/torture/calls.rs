//! Tests what happens if a system call fails while a command writes files, or if the process is
//! killed at that moment. For each system call of the command, one test case makes the call fail,
//! and another one kills the process. Afterwards, no file may be damaged, and the exit code must
//! correctly state whether the command succeeded.
//!
//! The tests use strace to make system calls fail. If strace isn't installed, they are skipped with
//! a note.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::jobs::{Job, conversions, trainings};
use crate::sandbox::{PATIENCE, copy_of, every, gpt_under, is_long, report};

/// System calls that create, rename, delete, sync or lock files and folders. A normal test run,
/// which tries only a selection of the cases, is limited to these calls.
const QUICK: [&str; 12] = [
    "fsync",
    "link",
    "linkat",
    "rename",
    "renameat",
    "renameat2",
    "mkdir",
    "mkdirat",
    "unlink",
    "unlinkat",
    "rmdir",
    "flock",
];

/// System calls with which commands access files, in addition to those in [`QUICK`]. The tests make
/// these calls fail only if the environment variable `TORTURE` is set, which requests all test
/// cases.
const LONG: [&str; 8] = [
    "openat",
    "write",
    "read",
    "statx",
    "getdents64",
    "copy_file_range",
    "close",
    "ftruncate",
];

/// Returns true if strace is installed and is allowed to trace processes. Otherwise, prints a note
/// that the test is skipped.
pub(crate) fn has_strace() -> bool {
    let tried = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status();
    let works = tried.is_ok_and(|status| status.success());
    if !works {
        println!("skipped: strace isn't installed, or it isn't allowed to trace processes");
    }
    works
}

/// Runs a command once without errors, and returns how often it makes each of the system calls, so
/// that a test can then let each of them fail. Because strace counts the calls of each thread
/// separately, the result for a call is the largest number that a single thread makes.
fn count(job: &Job, calls: &[&str]) -> BTreeMap<String, usize> {
    let folder = copy_of(job.before.path());
    let trace = folder.path().join("trace");
    // Some architectures lack the system calls `rename`, `mkdir` and `unlink`. strace would reject
    // their names there, but it ignores an unknown name that begins with a question mark.
    let traced: Vec<String> = calls.iter().map(|call| format!("?{call}")).collect();
    let strace = format!("exec strace -f -o trace -e 'trace={}'", traced.join(","));
    let ended = gpt_under(&strace, folder.path(), &job.command, PATIENCE);
    assert!(ended.is_ok(), "{}", ended.stderr);
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for line in fs::read_to_string(&trace).expect("a trace").lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let name = call.trim_start().split('(').next().unwrap_or_default();
        if calls.contains(&name) {
            *counts
                .entry((name.to_owned(), thread.to_owned()))
                .or_default() += 1;
        }
    }
    // strace's `when` option counts the calls of each thread separately.
    let mut most = BTreeMap::new();
    for ((name, _), n) in counts {
        let entry = most.entry(name).or_insert(0);
        *entry = n.max(*entry);
    }
    most
}

#[test]
fn each_call_of_a_run_that_saves_may_fail_or_be_the_last() {
    each_call_may_fail_or_be_the_last(trainings, 16);
}

#[test]
fn each_call_of_a_conversion_may_fail_or_be_the_last() {
    each_call_may_fail_or_be_the_last(conversions, 5);
}

/// Repeats each command many times. Each time, a different one of its system calls fails, or the
/// process is killed at this call. If the environment variable `TORTURE` is set, tries all of these
/// cases, with all kinds of system calls and errors. Otherwise, tries only one in every `short`
/// cases, with fewer kinds of calls and errors.
fn each_call_may_fail_or_be_the_last(jobs: fn() -> Vec<Job>, short: usize) {
    if !has_strace() {
        return;
    }
    let calls = match is_long() {
        true => [&QUICK[..], &LONG].concat(),
        false => QUICK.to_vec(),
    };
    let injections = match is_long() {
        true => &[
            "error=EIO",
            "error=ENOSPC",
            "error=EMFILE",
            "error=EACCES",
            "signal=KILL",
        ][..],
        false => &["error=EIO", "signal=KILL"][..],
    };
    for job in jobs() {
        let counts = count(&job, &calls);
        assert!(counts["fsync"] > 1 && counts.len() > 2, "{counts:?}");
        let (mut kills, mut failures, mut faults) = (0, 0, Vec::new());
        let cases = counts.iter().flat_map(|(call, n)| {
            let whens = injections.iter().map(move |injection| (injection, 1..=*n));
            whens.flat_map(move |(injection, n)| n.map(move |when| (call, injection, when)))
        });
        for (call, injection, when) in cases.step_by(every(short)) {
            match *injection {
                "signal=KILL" => kills += 1,
                _ => failures += 1,
            }
            if let Some(fault) = inject(&job, call, injection, when) {
                faults.push(format!("{call} {when}, {injection}: {fault}"));
            }
        }
        println!("{}: {failures} failing calls, {kills} kills", job.name);
        report(job.name, kills + failures, &faults);
    }
}

/// Runs a command, makes one of its system calls fail or kills the process at this call, and checks
/// the files afterwards. Returns a description of what went wrong, or `None` if the command behaved
/// correctly.
fn inject(job: &Job, call: &str, injection: &str, when: usize) -> Option<String> {
    let folder = copy_of(job.before.path());
    let strace = format!(
        "exec strace -f -o /dev/null -e trace={call} -e inject={call}:{injection}:when={when}"
    );
    let ended = gpt_under(&strace, folder.path(), &job.command, PATIENCE);
    // If the kernel reports an error when a folder is closed after its entries have been listed,
    // Rust's standard library panics. This panic isn't counted as a fault of the program, but the
    // files must still be intact.
    let listing = ended.stderr.contains("unexpected error during closedir");
    if ended.status.is_none() || (ended.stderr.contains("panicked") && !listing) {
        return Some(format!("it hangs or panics: {}", ended.stderr));
    }
    let fault = (job.fault)(folder.path(), ended.is_ok(), &ended.stderr);
    fault.map(|fault| format!("{fault}; its message: {}", ended.stderr))
}
