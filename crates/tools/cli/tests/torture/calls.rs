//! Tests commands that write files. For each of their system calls, one test case makes the call
//! fail, and another one kills the process at this call. Afterwards, the files must be complete,
//! and the exit code must tell correctly whether the command has succeeded.
//!
//! strace makes the system calls fail. If strace isn't installed, the tests are skipped with a
//! note.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::jobs::{Job, conversions, trainings};
use crate::sandbox::{PATIENCE, copy_of, every, gpt_under, is_long, report};

/// System calls that change files and folders or lock files. The short form of the tests uses only
/// these calls.
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

/// Other system calls that access files.
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

/// Returns true if strace is installed and has the permission to trace programs.
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

/// Returns how often a command makes each system call. If several threads make the same call, only
/// the thread that makes it most often is counted.
fn count(job: &Job, calls: &[&str]) -> BTreeMap<String, usize> {
    let folder = copy_of(job.before.path());
    let trace = folder.path().join("trace");
    // Some architectures lack the system calls `rename`, `mkdir` and `unlink`. The question mark
    // tells strace to ignore unknown calls.
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
    // strace counts the calls of each thread separately.
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

/// Tests all cases in the long form of the tests, and one of every `short` cases in the short form.
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

/// Makes one system call of a command fail, or kills the command at this call, and checks the files
/// afterwards. Returns a description of the fault, or `None` if there is none.
fn inject(job: &Job, call: &str, injection: &str, when: usize) -> Option<String> {
    let folder = copy_of(job.before.path());
    let strace = format!(
        "exec strace -f -o /dev/null -e trace={call} -e inject={call}:{injection}:when={when}"
    );
    let ended = gpt_under(&strace, folder.path(), &job.command, PATIENCE);
    // The standard library panics if it can't close a folder that it has listed. This panic doesn't
    // count as a fault, but the files must still be intact.
    let listing = ended.stderr.contains("unexpected error during closedir");
    if ended.status.is_none() || (ended.stderr.contains("panicked") && !listing) {
        return Some(format!("it hangs or panics: {}", ended.stderr));
    }
    let fault = (job.fault)(folder.path(), ended.is_ok(), &ended.stderr);
    fault.map(|fault| format!("{fault}; its message: {}", ended.stderr))
}
