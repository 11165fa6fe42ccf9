//! `cargo xtask practice` as a reader uses it, in a temporary folder.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use practice::EXERCISES;

/// Runs the command with lines typed by the reader; returns whether it succeeds, and what it
/// prints.
fn practice(folder: &Path, arguments: &[&str], typed: &str) -> (bool, String) {
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
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(!printed.contains("panicked"), "{arguments:?}: {printed}");
    (output.status.success(), printed)
}

/// One exercise has a syntax error, another is solved; the watch mode continues with the next one.
#[test]
fn a_broken_file_blocks_no_other_exercise() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, list) = practice(folder.path(), &[], "");
    assert!(
        list.contains(&format!("0 of {} done", EXERCISES.len())),
        "{list}"
    );
    let file = |name: &str| folder.path().join(format!("src/bin/{name}.rs"));
    let [broken, solved, next] = [0, 1, 2].map(|place| &EXERCISES[place]);
    std::fs::write(file(broken.name), "fn main() {").expect("a file");
    std::fs::write(file(solved.name), solved.solution()).expect("a file");

    let (is_done, checked) = practice(folder.path(), &[solved.number], "");
    assert!(
        is_done && checked.contains("checks passed") && !checked.contains("wrong"),
        "{checked}"
    );
    let (is_done, checked) = practice(folder.path(), &[broken.number], "");
    assert!(
        !is_done && checked.contains("it doesn't compile yet"),
        "{checked}"
    );
    let (_, list) = practice(folder.path(), &[], "");
    assert!(
        list.contains(&format!("1 of {} done", EXERCISES.len())),
        "{list}"
    );

    let (_, watched) = practice(folder.path(), &["--watch", next.number], "h\nn\nq\n");
    assert!(watched.contains("not written yet"), "{watched}");
    assert!(watched.contains(next.hints()[0]), "{watched}");
    let behind = &EXERCISES[3];
    assert!(watched.contains(behind.title()), "{watched}");

    let endless = "fn main() { loop { println!(\"again\") } }";
    std::fs::write(file(next.name), endless).expect("a file");
    let (is_done, checked) = practice(folder.path(), &[next.number], "");
    let end = "a loop that never ends?";
    assert!(!is_done && checked.contains(end) && checked.len() < 2_000_000);
}

/// A damaged file of the progress is named; nothing else of the folder is touched.
#[test]
fn damaged_progress_is_an_error_with_its_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (is_done, list) = practice(folder.path(), &[], "");
    assert!(is_done, "{list}");
    let name = EXERCISES[0].name;
    for damage in [
        String::new(),
        "[]".to_owned(),
        format!("{{\"{name}\": 5}}"),
        format!("{{\"{name}\": {{\"passed\": -1}}}}"),
    ] {
        let state = folder.path().join("state.json");
        std::fs::write(&state, &damage).expect("a file");
        for arguments in [&[][..], &[EXERCISES[0].number, "--hint"]] {
            let (is_done, printed) = practice(folder.path(), arguments, "");
            assert!(!is_done && printed.contains("state.json"), "{printed}");
        }
        assert_eq!(std::fs::read_to_string(&state).expect("a file"), damage);
    }
}
