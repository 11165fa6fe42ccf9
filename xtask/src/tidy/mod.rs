//! `cargo xtask tidy`: the house rules that neither rustc nor clippy knows, also run as a test.
//!
//! Each rule returns its faults as `path: what`; a rule that has an exception names it with its
//! reason.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::workspace::{files_below, print, root};

mod circles;
mod dependencies;
mod documented;
mod layers;
mod links;
mod prose;
mod thread_locals;

/// A rule: its name, and the faults it finds below the workspace's root.
type Rule = (&'static str, fn(&Path) -> Result<Vec<String>>);

const RULES: &[Rule] = &[
    ("the layers match docs/ARCHITECTURE.md", layers::faults),
    (
        "the external crates match docs/ARCHITECTURE.md",
        dependencies::faults,
    ),
    ("no files of a crate use each other", circles::faults),
    ("a file describes itself, and is narrow", files),
    ("no result depends on a thread-local", thread_locals::faults),
    ("the notebooks introduce each idea", prose::faults),
    ("README names the oldest supported Rust", oldest_rust),
    ("links of the documentation lead somewhere", links::faults),
    (
        "items and cells that the documentation names exist",
        documented::faults,
    ),
];

/// The oldest supported Rust: README's is Cargo.toml's, which `.ci/run` builds with.
fn oldest_rust(root: &Path) -> Result<Vec<String>> {
    let [manifest, readme] = [
        read(&root.join("Cargo.toml"))?,
        read(&root.join("README.md"))?,
    ];
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "));
    let version = line
        .context("Cargo.toml: no rust-version")?
        .trim_matches('"');
    let stated = format!("({version} or newer)");
    Ok(match readme.contains(&stated) {
        true => Vec::new(),
        false => vec![format!(
            "README.md: {stated} expected, the rust-version of Cargo.toml"
        )],
    })
}

/// The most columns of a comment, as of code.
const MAX_COLUMNS: usize = 100;

/// Checks every rule and prints the faults.
///
/// # Errors
/// There are faults, or a file could not be read.
pub(crate) fn run() -> Result<()> {
    let mut total = 0;
    for (name, rule) in RULES {
        let faults = rule(&root())?;
        let verdict = if faults.is_empty() { "ok  " } else { "FAIL" };
        print(&format!("{verdict} {name}\n"))?;
        for fault in &faults {
            print(&format!("     {fault}\n"))?;
        }
        total += faults.len();
    }
    if total > 0 {
        bail!("{total} faults");
    }
    Ok(())
}

/// Files whose first line isn't a description, or whose comments are too wide.
fn files(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in files_below(root, "rs") {
        let (text, path) = (read(&path)?, path.display());
        if !text.starts_with("//!") && !text.starts_with("#![doc = include_str!(") {
            faults.push(format!(
                "{path}: a file begins with `//!` and its description"
            ));
        }
        // Code is rustfmt's business, which leaves comments as they are.
        let is_wide =
            |line: &str| line.trim_start().starts_with("//") && line.chars().count() > MAX_COLUMNS;
        if let Some(line) = text.lines().position(is_wide) {
            let line = line + 1;
            faults.push(format!(
                "{path}:{line}: a comment over {MAX_COLUMNS} columns"
            ));
        }
    }
    Ok(faults)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_is_tidy() {
        for (name, rule) in super::RULES {
            assert_eq!(
                rule(&super::root()).unwrap(),
                Vec::<String>::new(),
                "{name}"
            );
        }
    }
}
