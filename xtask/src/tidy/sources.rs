//! Rules about every `.rs` file: it says what it is, it is short, and it leaves nothing behind.

use std::path::Path;

use anyhow::{Context, Result};

use super::code::{code_of, lines_with_word};
use super::shown;
use crate::workspace::files_below;

/// Where unsafe code may stand.
const KERNELS: &str = "crates/kernels/src/";

/// Other files with unsafe code, and why.
const UNSAFE_ELSEWHERE: &[(&str, &str)] = &[(
    "crates/caching-alloc/src/caching_allocator.rs",
    "an allocator, which binaries alone may choose",
)];

/// The most lines of a file that is not named below.
const MAX_LINES: usize = 400;

/// Files that may be longer, and why.
const LONG_FILES: &[(&str, &str)] = &[];

/// What is found in the sources below `root`.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in files_below(root, "rs") {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        faults.extend(file_faults(&shown(root, &path), &text));
    }
    for (file, _) in UNSAFE_ELSEWHERE.iter().chain(LONG_FILES) {
        if !root.join(file).exists() {
            faults.push(format!(
                "{file}: the exception for it is stale: there is no such file"
            ));
        }
    }
    Ok(faults)
}

fn file_faults(path: &str, text: &str) -> Vec<String> {
    let code = code_of(text);
    let mut faults = Vec::new();
    let is_root = path.ends_with("src/lib.rs");
    let readme = "#![doc = include_str!(\"../README.md\")]";
    if !(text.starts_with("//!") || is_root && text.starts_with(readme)) {
        faults.push(format!(
            "{path}:1: a file begins with `//!`, which says what it is"
        ));
    }
    if is_root {
        let items = [
            "fn",
            "struct",
            "enum",
            "trait",
            "impl",
            "const",
            "static",
            "type",
            "union",
            "macro_rules",
        ];
        for line in items.iter().flat_map(|item| lines_with_word(&code, item)) {
            faults.push(format!(
                "{path}:{line}: lib.rs holds modules, `pub use` and documentation alone"
            ));
        }
        let guarded = ["#![forbid(unsafe_code)]", "#![deny(unsafe_code)]"]
            .iter()
            .any(|guard| code.contains(guard));
        if !guarded && !KERNELS.starts_with(path.trim_end_matches("lib.rs")) {
            faults.push(format!(
                "{path}:1: the crate does not forbid or deny unsafe code"
            ));
        }
    }
    if !path.starts_with(KERNELS) && !named(UNSAFE_ELSEWHERE, path) {
        for line in lines_with_word(&code, "unsafe") {
            faults.push(format!(
                "{path}:{line}: unsafe code stands in {KERNELS} alone"
            ));
        }
    }
    for leftover in ["todo", "unimplemented", "dbg"] {
        for line in lines_with_word(&code, leftover) {
            if code
                .lines()
                .nth(line - 1)
                .is_some_and(|text| text.contains(&format!("{leftover}!")))
            {
                faults.push(format!("{path}:{line}: {leftover}! is left over"));
            }
        }
    }
    let lines = text.lines().count();
    if lines > MAX_LINES && !named(LONG_FILES, path) {
        faults.push(format!(
            "{path}: {lines} lines, over {MAX_LINES}: a file is one concept"
        ));
    }
    faults
}

fn named(exceptions: &[(&str, &str)], path: &str) -> bool {
    exceptions.iter().any(|(file, _)| *file == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        file_faults(path, text).len()
    }

    #[test]
    fn a_file_says_what_it_is() {
        assert_eq!(count("a/src/x.rs", "//! x\nfn x() {}\n"), 0);
        assert_eq!(count("a/src/x.rs", "fn x() {}\n"), 1);
        assert_eq!(count("a/build.rs", "fn main() {}\n"), 1);
    }

    #[test]
    fn lib_rs_holds_no_code() {
        let head = "#![doc = include_str!(\"../README.md\")]\n#![forbid(unsafe_code)]\nmod a;\npub use a::{fn_of, A};\n";
        assert_eq!(count("a/src/lib.rs", head), 0);
        assert_eq!(
            count("a/src/lib.rs", &format!("{head}pub fn x() {{}}\n")),
            1
        );
        assert_eq!(count("a/src/lib.rs", "//! a\nmod a;\n"), 1);
    }

    #[test]
    fn unsafe_code_and_leftovers_are_found_and_words_about_them_are_not() {
        assert_eq!(
            count(
                "a/src/x.rs",
                "//! unsafe\n// dbg!(x)\nconst A: &str = \"unsafe todo!()\";\n"
            ),
            0
        );
        assert_eq!(count("a/src/x.rs", "//! x\nfn f() { unsafe { g() } }\n"), 1);
        assert_eq!(
            count(
                "crates/kernels/src/x.rs",
                "//! x\nfn f() { unsafe { g() } }\n"
            ),
            0
        );
        for leftover in ["todo!()", "unimplemented!()", "dbg!(1)"] {
            assert_eq!(
                count("a/src/x.rs", &format!("//! x\nfn f() {{ {leftover} }}\n")),
                1,
                "{leftover}"
            );
        }
    }

    #[test]
    fn long_files_are_named() {
        let long = format!("//! x\n{}", "// x\n".repeat(MAX_LINES));
        assert_eq!(count("a/src/x.rs", &long), 1);
    }
}
