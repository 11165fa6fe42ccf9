//! One writer of files: no source but `atomic-file`'s creates, renames or copies files and folders.
//!
//! So what it promises, that a crash leaves the old or the new and that no link is followed, holds
//! for all.
//! Tests write as they like, and so does `test-support`, which only tests use.

use std::path::Path;

use anyhow::Result;
use regex::Regex;

use super::{read, shown};
use crate::workspace::files_below;

/// What creates, renames or copies.
const CALLS: &str = "File::create|File::options|OpenOptions|fs::write|fs::rename|fs::copy\
                     |fs::hard_link|create_dir|generate_to";

/// Whose sources do so, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/files/atomic-file/", "it is the writer"),
    ("crates/tools/test-support/", "only tests use it"),
    ("fuzz/", "it makes the folders that are tried"),
    ("xtask/src/tidy/writers.rs", "it names the calls"),
];

/// Lines of sources that call one of them, tests left out.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in files_below(root, "rs") {
        let name = shown(root, &path);
        let is_source = name.contains("/src/") || name.starts_with("tests/notebooks/");
        if !is_source || EXCEPTIONS.iter().any(|(path, _)| name.starts_with(path)) {
            continue;
        }
        let text = read(&path)?;
        for (line, call) in calls(&text)? {
            faults.push(format!(
                "{name}:{line}: `{call}`: atomic-file is the one writer of files"
            ));
        }
    }
    Ok(faults)
}

/// The calls in a source before its tests, with their lines from 1; what a comment says is no call.
fn calls(text: &str) -> Result<Vec<(usize, &str)>> {
    let calls = Regex::new(CALLS)?;
    let code = text.lines().take_while(|line| *line != "#[cfg(test)]");
    let code = (1..)
        .zip(code)
        .filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found = code.filter_map(|(number, line)| Some((number, calls.find(line)?.as_str())));
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_and_comments_and_tests_are_left_alone() {
        let source = "//! fs::write\nfn a() {\n    fs::rename(a, b);\n}\n#[cfg(test)]\nmod tests { fs::copy }\n";
        assert_eq!(calls(source).unwrap(), [(3, "fs::rename")]);
    }
}
