//! Checks that the messages that are quoted in tests and in the sample sessions of README files
//! exist in the sources. Otherwise, a test that asserts that a message is absent would always pass
//! after the message has changed, and a README would show output that no program prints.
//!
//! A quoted message contains values where the source has placeholders, so the two can't be compared
//! directly. Therefore, the rule looks for sequences of [`MIN_WORDS`] plain words in the quoted
//! message. If there are any, at least one of them must occur in the sources. For example, "the
//! header has 9 bytes, but the file has only 4" contains "the header has" and "but the file".

use std::path::Path;

use anyhow::Result;
use regex::Regex;

use super::cycles::without_tests;
use super::read;
use crate::workspace::files_below;

/// Number of consecutive words that are searched for in the sources. The sources count as
/// containing a message if at least one sequence of this many words of the message occurs in them.
const MIN_WORDS: usize = 3;

/// Messages of other programs and of the standard library.
const OTHER_PROGRAMS: [&str; 3] = [
    "unexpected error during closedir",
    "memory allocation of ",
    "rustup target add",
];

/// Returns a violation for each quoted message that doesn't occur in the sources.
pub(super) fn violations(root: &Path) -> Result<Vec<String>> {
    let mut sources = String::new();
    for extension in ["rs", "js", "py"] {
        for path in files_below(root, extension) {
            if !is_test(root, &path) {
                sources += &format!("{}\n", joined(without_tests(&read(&path)?)));
            }
        }
    }
    let mut violations = Vec::new();
    for path in files_below(root, "rs") {
        if is_test(root, &path) {
            violations.extend(missing(&path, &quoted_in_test(&read(&path)?)?, &sources));
        }
    }
    for path in files_below(root, "md") {
        if path.ends_with("README.md") {
            violations.extend(missing(&path, &quoted_in_readme(&read(&path)?), &sources));
        }
    }
    Ok(violations)
}

/// Returns true if the file is in a folder of tests or benchmarks. The notebooks count as sources,
/// although they are below a folder named `tests`.
fn is_test(root: &Path, path: &Path) -> bool {
    let path = path.strip_prefix(root).unwrap_or(path);
    let is_tests = |part: &std::ffi::OsStr| part == "tests" || part == "benches";
    path.iter().any(is_tests) && !path.starts_with("tests/notebooks")
}

/// Joins the lines of string literals that end with a backslash, and removes other escapes.
fn joined(source: &str) -> String {
    let mut lines = source.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let text = lines.fold(first, |text, line| text + line.trim_start());
    text.replace("\\\"", "\"").replace("\\n", "\n")
}

/// Returns the string literals that a test expects in a message.
fn quoted_in_test(source: &str) -> Result<Vec<String>> {
    let literal = Regex::new(r#""((?:[^"\\]|\\(?s:.))*)""#)?;
    let before = r"(?:contains|starts_with|ends_with)\(\s*|expected\s*=\s*|to_string\(\),\s*";
    let checked = Regex::new(&format!(r"(?:{before}){literal}|\bholds\((?s:.*?)\);"))?;
    let checks = checked.find_iter(source).map(|found| found.as_str());
    let literals = checks.flat_map(|check| literal.captures_iter(check));
    let messages = literals.map(|found| joined(&found[1]));
    Ok(messages
        .filter(|it| !OTHER_PROGRAMS.contains(&it.as_str()))
        .collect())
}

/// Returns the lines that programs print in the sample sessions of a README. Lines that end with an
/// ellipsis or contain a `gpt generate` command are omitted because they contain generated text or
/// a prompt.
fn quoted_in_readme(text: &str) -> Vec<String> {
    let sessions = text.split("```console\n").skip(1);
    let sessions = sessions.filter_map(|session| session.split("```").next());
    let lines = sessions.flat_map(str::lines);
    let is_text = |line: &str| line.ends_with("...") || line.contains("gpt generate");
    let lines = lines.filter(|line| !line.starts_with("$ ") && !is_text(line));
    lines.map(str::to_owned).collect()
}

/// Returns a violation for each of the `messages`, which the file `path` quotes, that the sources
/// don't contain. This is the case if the message contains sequences of [`MIN_WORDS`] consecutive
/// plain words, but none of these sequences occurs in the sources.
fn missing(path: &Path, messages: &[String], sources: &str) -> Vec<String> {
    let mut violations = Vec::new();
    for message in messages {
        let runs = runs(message);
        let mut windows = runs.iter().flat_map(|run| run.windows(MIN_WORDS));
        let is_long = runs.iter().any(|run| run.len() >= MIN_WORDS);
        if is_long && !windows.any(|window| sources.contains(&window.join(" "))) {
            let path = path.display();
            violations.push(format!(
                "{path}: this file quotes the message {message:?}, but no source file contains it"
            ));
        }
    }
    violations
}

/// Returns the sequences of consecutive plain words in a message. A sequence ends at punctuation,
/// at a value such as a number or the name of a file, and at the end of a line or of a table
/// column.
fn runs(message: &str) -> Vec<Vec<&str>> {
    let mut runs = Vec::new();
    for part in message.lines().flat_map(|line| line.split("  ")) {
        runs.push(Vec::new());
        for token in part.split_whitespace() {
            let word = token.trim_end_matches([',', ';', ':', '.']);
            let is_word = !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || c == '\'');
            if let Some(run) = runs.last_mut().filter(|_| is_word) {
                run.push(word);
            }
            if !is_word || word != token {
                runs.push(Vec::new());
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_compared_without_their_values() {
        let sources =
            joined("bail!(\"the header has {n} bytes, \\\n     but the file has only {m}\")");
        let violations = |message: &str| {
            let message = [message.to_owned()];
            missing(Path::new("a.rs"), &message, &sources).len()
        };
        assert_eq!(
            violations("the header has 9 bytes, but the file has only 4"),
            0
        );
        assert_eq!(
            violations("a header of 9 bytes, and the file ends there"),
            1
        );
        assert_eq!(violations("too short"), 0);
    }

    #[test]
    fn quoted_messages_are_found_in_tests_and_sessions() {
        let test =
            "assert!(text.contains(\"a \\\"b\\\" \\\n   c\"));\n#[should_panic(expected = \"d\")]";
        assert_eq!(quoted_in_test(test).unwrap(), ["a \"b\" c", "d"]);
        let readme = "```console\n$ gpt\nprinted\nA text ...\n```\nother";
        assert_eq!(quoted_in_readme(readme), ["printed"]);
    }
}
