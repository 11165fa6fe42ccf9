//! The command `cargo xtask tidy`, which checks the rules of this project that rustc and clippy
//! don't know. A test runs the same checks.
//!
//! Each rule returns one line per violation, such as `path: problem`. If a rule has exceptions, its
//! source file lists them, together with the reasons.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::workspace::{files_below, print, root};

mod cycles;
mod dependencies;
mod documented;
mod layers;
mod links;
mod messages;
mod prose;
mod thread_locals;

/// The name of a rule, and a function that returns the violations of the rule in the workspace at
/// the given path.
type Rule = (&'static str, fn(&Path) -> Result<Vec<String>>);

const RULES: &[Rule] = &[
    ("the layers match docs/ARCHITECTURE.md", layers::violations),
    (
        "the external crates match docs/ARCHITECTURE.md",
        dependencies::violations,
    ),
    (
        "the modules of a crate don't depend on each other in cycles",
        cycles::violations,
    ),
    (
        "source files begin with a description, and comments aren't too wide",
        files,
    ),
    (
        "no result depends on a thread-local variable",
        thread_locals::violations,
    ),
    ("the notebooks explain what they show", prose::violations),
    (
        "the README states the oldest supported version of Rust",
        oldest_rust,
    ),
    (
        "the links and file names in the documentation are valid",
        links::violations,
    ),
    (
        "the items and cells in the documentation exist",
        documented::violations,
    ),
    (
        "the messages quoted in tests and README files exist",
        messages::violations,
    ),
];

/// Checks that the README states the oldest supported version of Rust, which is the `rust-version`
/// in Cargo.toml. `.ci/run` builds the workspace with this version.
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
            "README.md: the file must state the rust-version of Cargo.toml in the form \"{stated}\""
        )],
    })
}

/// Largest width of a comment in characters.
const MAX_COLUMNS: usize = 100;

/// Checks all rules and prints the violations.
///
/// # Errors
///
/// Returns an error if there are violations or if a file can't be read.
pub(crate) fn run() -> Result<()> {
    let mut total = 0;
    for (name, rule) in RULES {
        let violations = rule(&root())?;
        let verdict = if violations.is_empty() {
            "ok  "
        } else {
            "FAIL"
        };
        print(&format!("{verdict} {name}\n"))?;
        for violation in &violations {
            print(&format!("     {violation}\n"))?;
        }
        total += violations.len();
    }
    if total > 0 {
        bail!("the rules have {total} violations");
    }
    Ok(())
}

/// Checks that every source file begins with a description and that its comments aren't too wide.
fn files(root: &Path) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    for path in files_below(root, "rs") {
        let (text, path) = (read(&path)?, path.display());
        if !text.starts_with("//!") && !text.starts_with("#![doc = include_str!(") {
            violations.push(format!(
                "{path}: the file must begin with `//!` and a description"
            ));
        }
        // Only comments are checked because rustfmt limits the width of code.
        let is_wide =
            |line: &str| line.trim_start().starts_with("//") && line.chars().count() > MAX_COLUMNS;
        if let Some(line) = text.lines().position(is_wide) {
            let line = line + 1;
            violations.push(format!(
                "{path}:{line}: the comment extends past column {MAX_COLUMNS}; split the line"
            ));
        }
    }
    Ok(violations)
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
