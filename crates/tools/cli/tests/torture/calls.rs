//! Each system call of a save failing, and the process killed at each of them: a resume finds a
//! complete checkpoint, and the message was true.
//!
//! It needs strace, which makes calls fail; without it the test says so and does nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::sandbox::{
    PATIENCE, copy_of, folder_with_a_run, gpt, gpt_under, is_long, report, words,
};

/// Calls that a save makes, in the short form.
const QUICK: [&str; 6] = ["fsync", "rename", "mkdir", "unlinkat", "rmdir", "flock"];

/// Calls that touch files, besides.
const LONG: [&str; 8] = [
    "openat",
    "write",
    "read",
    "statx",
    "getdents64",
    "unlink",
    "close",
    "ftruncate",
];

fn resume(steps: u32) -> Vec<OsString> {
    words(&format!(
        "train --resume run --save-interval 1 --keep 1 --max-steps {steps}"
    ))
}

/// The weights of the newest checkpoint of the run.
fn weights(folder: &Path) -> Option<Vec<u8>> {
    let latest = fs::read(folder.join("run/latest.json")).ok()?;
    let latest: serde_json::Value = serde_json::from_slice(&latest).ok()?;
    let newest = latest["checkpoints"].as_array()?.last()?.as_str()?;
    fs::read(
        folder
            .join("run/checkpoints")
            .join(newest)
            .join("model.safetensors"),
    )
    .ok()
}

/// How often each call is made by a run of two more steps.
fn count(good: &Path, calls: &[&str]) -> BTreeMap<String, usize> {
    let folder = copy_of(good);
    let trace = folder.path().join("trace");
    let strace = ["strace", "-f", "-o", trace.to_str().expect("text"), "-e"];
    let calls_option = format!("trace={}", calls.join(","));
    let strace = [&strace[..], &[&calls_option]].concat();
    let ended = gpt_under(&strace, folder.path(), &resume(4), PATIENCE);
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
    // strace counts in each thread on its own.
    let mut most = BTreeMap::new();
    for ((name, _), n) in counts {
        let entry = most.entry(name).or_insert(0);
        *entry = n.max(*entry);
    }
    most
}

#[test]
fn each_call_of_a_save_may_fail_or_be_the_last() {
    let works = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status();
    if !works.is_ok_and(|status| status.success()) {
        println!("skipped: no strace, or it may not trace");
        return;
    }
    let good = folder_with_a_run();
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
    let counts = count(good.path(), &calls);
    assert!(counts["fsync"] > 10 && counts["rename"] > 5, "{counts:?}");
    let whole = copy_of(good.path());
    assert!(gpt(whole.path(), &resume(5), PATIENCE).is_ok());
    let expected = weights(whole.path()).expect("weights");
    let (mut cases, mut faults) = (0, Vec::new());
    for (call, n) in &counts {
        for injection in injections {
            for when in (1..=*n).step_by(if is_long() { 1 } else { 3 }) {
                cases += 1;
                let fault = inject(good.path(), &expected, call, injection, when);
                faults.extend(fault.map(|fault| format!("{call} {when}, {injection}: {fault}")));
            }
        }
    }
    report("failing calls and kills", cases, &faults);
}

/// Lets one call fail, and goes on.
fn inject(
    good: &Path,
    expected: &[u8],
    call: &str,
    injection: &str,
    when: usize,
) -> Option<String> {
    let folder = copy_of(good);
    let path = folder.path();
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:{injection}:when={when}");
    let strace = [
        "strace",
        "-f",
        "-o",
        "/dev/null",
        "-e",
        &trace,
        "-e",
        &inject,
    ];
    let ended = gpt_under(&strace, path, &resume(4), PATIENCE);
    // The standard library panics where a folder that it listed can't be closed; the checkpoints
    // must stay all the same.
    let listing = ended.stderr.contains("unexpected error during closedir");
    if ended.status.is_none() || (ended.stderr.contains("panicked") && !listing) {
        return Some(format!("it hangs or panics: {}", ended.stderr));
    }
    if let Some((_, kept)) = ended.stderr.split_once("the last checkpoint is kept: ") {
        let kept = kept.split([',', '\n']).next().unwrap_or_default();
        if !path.join(kept).join("manifest.json").exists() {
            return Some(format!("{kept} is not kept"));
        }
    }
    if weights(path).is_none() {
        return Some(format!("no checkpoint is left: {}", ended.stderr));
    }
    let after = gpt(path, &resume(5), PATIENCE);
    if !after.is_ok() {
        return Some(format!(
            "no resume: {} after {}",
            after.stderr, ended.stderr
        ));
    }
    if weights(path).as_deref() != Some(expected) {
        return Some("other bits".to_owned());
    }
    let left = fs::read_dir(path.join("run/checkpoints")).expect("a folder");
    let left = left.count();
    (left > 2).then(|| format!("{left} checkpoints are left"))
}
