//! Tries extreme values for each flag that the help lists. These values are numbers at the limits
//! of their types, and strings and paths that contain invalid UTF-8 or control characters.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;
use std::time::Duration;

use crate::sandbox::{
    command_line, folder_with_a_run, gpt, is_long, program, report, train, words,
};

/// Numbers at the limits of various types, and other special numbers.
const EDGES: [&str; 14] = [
    "0",
    "1",
    "-1",
    "18446744073709551615",
    "9223372036854775808",
    "NaN",
    "9223372036854775807",
    "18446744073709551616",
    "4294967296",
    "inf",
    "-0",
    "1e308",
    "5e-324",
    "",
];

/// Number of extreme values (the first ones in [`EDGES`]) that a test tries for each flag, unless
/// all test cases were requested with the environment variable `TORTURE`.
const QUICK_EDGES: usize = 4;

/// Time limit for a command. If a command exceeds this limit, it is killed, but this isn't a fault,
/// because a valid value may request hours of work.
const RUNS_ON: Duration = Duration::from_secs(2);

/// Returns a training command, a generation command and an evaluation command to which the tested
/// `flag` can be added. They contain all required arguments, except for this flag.
fn commands(flag: &str) -> [Vec<OsString>; 3] {
    let mut training = train(flag);
    if flag != "--out-dir" {
        training.extend(words("--out-dir new"));
    }
    let generate = match flag {
        "--tokens" => words("generate -m run"),
        "--model" => words("generate --tokens 1 -n 2"),
        "--max-new-tokens" => words("generate --tokens 1 -m run"),
        _ => words("generate --tokens 1 -n 2 -m run"),
    };
    let eval = match flag {
        "--file" => words("eval -m run"),
        "--model" => words("eval -f data.bin"),
        _ => words("eval -f data.bin -m run"),
    };
    [training, generate, eval]
}

/// Reads the help of `command` and returns all flags whose value name is one of `kinds`. For
/// example, `N` is the value name of a flag that the help shows as `--flag <N>`.
fn flags(command: &str, kinds: &[&str]) -> Vec<String> {
    let help = Command::new(program())
        .args([command, "--help"])
        .output()
        .expect("gpt runs");
    let help = String::from_utf8(help.stdout).expect("text");
    let mut flags = Vec::new();
    for line in help.lines() {
        let Some((flag, rest)) = line
            .split_once("--")
            .and_then(|(_, rest)| rest.split_once(' '))
        else {
            continue;
        };
        let is_flag = line.trim_start().starts_with('-');
        if is_flag
            && kinds
                .iter()
                .any(|kind| rest.starts_with(&format!("<{kind}>")))
        {
            flags.push(format!("--{flag}"));
        }
    }
    flags
}

/// Runs commands with unusual values of their flags, and panics if a command crashes or prints an
/// improper error message. Tries each of the `values` for each flag whose value name in the help,
/// such as `N`, is one of `kinds`.
fn sweep(what: &str, kinds: &[&str], values: &[OsString], least: usize) {
    let (mut cases, mut faults) = (0, Vec::new());
    let good = folder_with_a_run();
    for (i, command) in ["train", "generate", "eval"].into_iter().enumerate() {
        for flag in flags(command, kinds) {
            for value in values {
                cases += 1;
                let mut arguments = commands(&flag)[i].clone();
                let mut word = OsString::from(format!("{flag}="));
                word.push(value);
                arguments.push(word);
                let ended = gpt(good.path(), &arguments, RUNS_ON);
                // A process without an exit status was killed because it reached the time limit.
                // This isn't counted as a fault, because a valid value may request hours of work.
                let runs_on = ended.status.is_none();
                if let (Some(fault), false) = (ended.fault(), runs_on) {
                    faults.push(format!("{}: {fault}", command_line(&arguments)));
                }
                let _ = std::fs::remove_dir_all(good.path().join("new"));
            }
        }
    }
    assert!(cases >= least, "the help lists only {cases} cases");
    report(what, cases, &faults);
}

#[test]
fn numbers_at_their_edges_are_taken_or_refused_in_a_line() {
    let edges = match is_long() {
        true => &EDGES[..],
        false => &EDGES[..QUICK_EDGES],
    };
    let values: Vec<OsString> = edges.iter().map(OsString::from).collect();
    sweep("numbers", &["N", "X", "P"], &values, 30 * values.len());
}

#[test]
fn texts_that_are_no_utf8_are_taken_or_refused_in_a_line() {
    let values = [b"o\xff".to_vec(), b"o\n\x1b[31mEVIL\x07".to_vec()];
    let values = values.map(OsString::from_vec);
    let kinds = [
        "FILE",
        "DIR",
        "FILE|DIR",
        "NAME",
        "TEXT",
        "FILE.toml",
        "BUILD",
        "1,2,3",
    ];
    sweep("texts", &kinds, &values, 12);
}
