//! Checks that no result depends on a thread-local variable. Results may depend only on arguments
//! and fields.
//!
//! While a thread waits in rayon, it may execute a different task. A setting that is stored in a
//! thread-local variable would then also apply to that task. Therefore, only the thread-local
//! variables in [`ALLOWED`] may exist. The list gives the reason why no result depends on them.

use std::path::Path;

use anyhow::Result;
use regex::Regex;

use super::read;
use crate::workspace::files_below;

/// Source folders of the crates that compute results.
const COMPUTING_CRATES: [&str; 5] = [
    "crates/engine/kernels/src",
    "crates/tensor-ops/src",
    "crates/attention/src",
    "crates/gpt/src",
    "crates/generate/src",
];

/// File and name of each allowed thread-local variable, and the reason why no result depends on it.
const ALLOWED: [(&str, &str, &str); 6] = [
    ("pack.rs", "A_PANELS", "memory, written before it is read"),
    ("pack.rs", "PAIRS", "memory, written before it is read"),
    ("pack.rs", "B_PANELS", "memory, written before it is read"),
    ("pack.rs", "BLOCK", "memory, written before it is read"),
    (
        "awake.rs",
        "INSIDE",
        "decides which thread waits, not what is computed",
    ),
    (
        "amx.rs",
        "STATE",
        "the registers of an emulated processor, in a test",
    ),
];

/// Returns the thread-local variables that aren't allowed.
pub(super) fn violations(root: &Path) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    for path in COMPUTING_CRATES
        .iter()
        .flat_map(|folder| files_below(&root.join(folder), "rs"))
    {
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for name in thread_locals(&read(&path)?)? {
            if !ALLOWED
                .iter()
                .any(|(of, allowed, _)| *of == file && *allowed == name)
            {
                violations.push(format!(
                    "{}: the variable {name} is thread-local; make it an argument or a field, or add \
                     it to thread_locals.rs with the reason why no result depends on it",
                    path.display()
                ));
            }
        }
    }
    Ok(violations)
}

/// Returns the names of the thread-local variables in a source file.
fn thread_locals(source: &str) -> Result<Vec<String>> {
    let name = Regex::new(r"static (?:mut )?(\w+)")?;
    let mut names = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find("thread_local") {
        rest = &rest[at + "thread_local".len()..];
        // The macro `thread_local!` is followed by a block, which may declare several variables.
        // The attribute `#[thread_local]` is followed by a line with one variable.
        let block = match rest.find('{').filter(|_| rest.starts_with('!')) {
            Some(open) => &rest[open..open + closing_brace(&rest[open..])],
            None => rest.lines().nth(1).unwrap_or_default(),
        };
        names.extend(name.captures_iter(block).map(|found| found[1].to_owned()));
    }
    Ok(names)
}

/// Returns the index of the brace that closes the block at the beginning of `text`.
fn closing_brace(text: &str) -> usize {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_locals_are_found_by_name_in_both_forms() {
        let source = "static A: u8 = 0;\nthread_local! {\n    /// One { or two }.\n    static B: Cell<u8> \
                      = const { Cell::new(0) };\n    static C: u8 = 1;\n}\nstatic D: u8 = 2;\n\
                      #[thread_local]\nstatic mut E: u8 = 3;\nstatic F: u8 = 4;\n";
        assert_eq!(thread_locals(source).unwrap(), ["B", "C", "E"]);
    }
}
