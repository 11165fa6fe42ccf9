//! Names in docs/book-map.md and docs/errata.md: each item in Rust, and each case of `verify`, exists.
//!
//! An item is looked for by name in its crate's sources; that it stands in the module the path says is not checked.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use super::code::{code_of, lines_with_word};
use super::shown;
use crate::verify::table;
use crate::workspace::files_below;

const PAGES: [&str; 2] = ["docs/book-map.md", "docs/errata.md"];

/// Names that nothing has.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let cases: BTreeSet<String> = table::load()?.into_iter().map(|case| case.id).collect();
    let mut faults = Vec::new();
    for page in PAGES {
        let text = std::fs::read_to_string(root.join(page)).with_context(|| page.to_owned())?;
        for (line, name) in names(&text) {
            if is_case(&name) {
                if !cases.contains(&name) {
                    faults.push(format!("{page}:{line}: there is no case `{name}`"));
                }
            } else if let Some((krate, path)) = name.split_once("::") {
                let sources = root
                    .join("crates")
                    .join(krate.replace('_', "-"))
                    .join("src");
                faults.extend(
                    missing(root, &sources, path)
                        .map(|fault| format!("{page}:{line}: `{name}`: {fault}")),
                );
            }
        }
    }
    Ok(faults)
}

/// What stands between backticks, with its line from 1.
fn names(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        found.extend(
            line.split('`')
                .skip(1)
                .step_by(2)
                .map(|name| (index + 1, name.to_owned())),
        );
    }
    found
}

/// `seed001.in23`, `ch04.ex4.1`; `ch04` alone is a filter.
fn is_case(name: &str) -> bool {
    let (head, rest) = name.split_once('.').unwrap_or((name, ""));
    let digits = head.trim_start_matches("seed").trim_start_matches("ch");
    let known = head.len() > digits.len() && !digits.is_empty();
    known
        && digits.chars().all(|character| character.is_ascii_digit())
        && !rest.is_empty()
        && rest != "ipynb"
}

/// The first part of `path` that the sources don't define.
fn missing(root: &Path, sources: &Path, path: &str) -> Option<String> {
    let files = files_below(sources, "rs");
    if files.is_empty() {
        return Some(format!("there is no {}", shown(root, sources)));
    }
    let code: Vec<(bool, String)> = files
        .iter()
        .filter_map(|file| {
            std::fs::read_to_string(file)
                .ok()
                .map(|text| (file.ends_with("lib.rs"), code_of(&text)))
        })
        .collect();
    let defined = |name: &str| {
        code.iter().any(|(is_root, code)| {
            let keywords = ["fn", "struct", "enum", "trait", "const", "mod", "type"];
            (*is_root && !lines_with_word(code, name).is_empty())
                || keywords
                    .iter()
                    .any(|keyword| !lines_with_word(code, &format!("{keyword} {name}")).is_empty())
        })
    };
    path.split("::")
        .find(|name| !defined(name))
        .map(|name| format!("the sources don't define {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_and_items_are_told_apart() {
        assert!(is_case("seed001.in23") && is_case("ch04.ex4.1") && is_case("ch04.gpt.py"));
        assert!(
            !is_case("errata.b1")
                && !is_case("ch04")
                && !is_case("gpt::GptModel")
                && !is_case("seed")
        );
    }

    #[test]
    fn an_item_that_is_not_there_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("lib.rs"),
            "//! x\nmod a;\npub use a::Thing;\n// Nothing\n",
        )
        .unwrap();
        std::fs::write(
            folder.path().join("a.rs"),
            "//! x\npub struct Thing;\nimpl Thing { pub fn make() {} }\n",
        )
        .unwrap();
        let missing = |path| missing(folder.path(), folder.path(), path);
        assert_eq!(missing("Thing::make"), None);
        assert!(missing("Nothing").is_some());
        assert!(missing("Thing::break_it").is_some());
    }
}
