//! Tests that the console session in the README shows what the program really prints.

use crate::support::{Ran, folder};

const README: &str = include_str!("../../README.md");

/// Returns true if the program's output `printed` matches the output `shown` in the README, in
/// which each `...` stands for any text.
fn matches(shown: &str, printed: &str) -> bool {
    let mut rest = printed;
    for (i, part) in shown.split("...").enumerate() {
        match rest.find(part) {
            Some(at) if at == 0 || i > 0 => rest = &rest[at + part.len()..],
            _ => return false,
        }
    }
    rest.is_empty() || shown.trim_end().ends_with("...")
}

#[test]
fn the_session_in_the_readme_prints_what_it_shows() {
    let folder = folder();
    let session = README.split("```console\n").nth(1).unwrap();
    let session = session.split("```").next().unwrap();
    for step in session.split("$ gpt ").skip(1) {
        let (command, shown) = step.split_once('\n').unwrap();
        let words = shlex::split(command).unwrap();
        let ran: Ran = folder.command_with(words).output().unwrap().into();
        assert_eq!(ran.code, Some(0), "gpt {command}\n{}", ran.stderr);
        let shown = shown.trim_end();
        assert!(
            matches(shown, ran.stdout.trim_end()),
            "gpt {command}\nexpected:\n{shown}\ngot:\n{}",
            ran.stdout
        );
    }
}
