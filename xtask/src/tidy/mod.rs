//! `cargo xtask tidy`: the house rules that a machine can check, also run as a test.
//!
//! Each rule returns its faults as `path:line: what`; a rule that has an exception names it with its reason.

use std::path::Path;

use anyhow::{Result, bail};

use crate::workspace;

mod code;
mod documented;
mod layers;
mod links;
mod manifests;
mod sources;

/// A rule: its name, and the faults it finds below the workspace's root.
type Rule = (&'static str, fn(&Path) -> Result<Vec<String>>);

const RULES: &[Rule] = &[
    (
        "the layers are those of docs/ARCHITECTURE.md",
        layers::faults,
    ),
    ("no package can be published", manifests::faults),
    ("sources keep the house style", sources::faults),
    ("links of the documentation lead somewhere", links::faults),
    (
        "items and cases that the documentation names exist",
        documented::faults,
    ),
];

/// Checks every rule and prints the faults.
///
/// # Errors
/// There are faults, or a file could not be read.
pub(crate) fn run() -> Result<()> {
    let mut total = 0;
    for (name, rule) in RULES {
        let faults = rule(&workspace::root())?;
        println!("{} {name}", if faults.is_empty() { "ok  " } else { "FAIL" });
        for fault in &faults {
            println!("     {fault}");
        }
        total += faults.len();
    }
    if total > 0 {
        bail!("{total} faults");
    }
    Ok(())
}

/// `path` as it is written in messages: from the root, with forward slashes.
fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_is_tidy() {
        for (name, rule) in super::RULES {
            assert_eq!(
                rule(&crate::workspace::root()).unwrap(),
                Vec::<String>::new(),
                "{name}"
            );
        }
    }
}
