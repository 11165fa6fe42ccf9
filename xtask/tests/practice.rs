//! `cargo xtask practice` as a reader uses it, in a temporary folder.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use practice::EXERCISES;

/// Runs the command with lines typed by the reader; returns what it prints.
fn practice(folder: &Path, arguments: &[&str], typed: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("practice")
        .args(arguments)
        .arg("--folder")
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("xtask runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(typed.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// One exercise has a syntax error, another is solved; the watch mode continues with the next one.
#[test]
fn a_broken_file_blocks_no_other_exercise() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let list = practice(folder.path(), &[], "");
    assert!(
        list.contains(&format!("0 of {} done", EXERCISES.len())),
        "{list}"
    );
    let file = |name: &str| folder.path().join(format!("src/bin/{name}.rs"));
    let [broken, solved, next] = [0, 1, 2].map(|place| &EXERCISES[place]);
    std::fs::write(file(broken.name), "fn main() {").expect("a file");
    std::fs::write(file(solved.name), solved.solution()).expect("a file");

    let checked = practice(folder.path(), &[solved.number], "");
    assert!(
        checked.contains("checks passed") && !checked.contains("wrong"),
        "{checked}"
    );
    let checked = practice(folder.path(), &[broken.number], "");
    assert!(checked.contains("it doesn't compile yet"), "{checked}");
    let list = practice(folder.path(), &[], "");
    assert!(
        list.contains(&format!("1 of {} done", EXERCISES.len())),
        "{list}"
    );

    let watched = practice(folder.path(), &["--watch", next.number], "h\nn\nq\n");
    assert!(watched.contains("not written yet"), "{watched}");
    assert!(watched.contains(next.hints()[0]), "{watched}");
    let behind = &EXERCISES[3];
    assert!(watched.contains(behind.title()), "{watched}");
}
