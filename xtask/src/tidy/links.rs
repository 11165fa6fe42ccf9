//! Links in Markdown files, and source files named in backticks: a relative link must lead to a
//! file, and a file named like one of ours must exist.

use std::path::Path;

use anyhow::Result;
use regex::Regex;

use super::read;
use crate::workspace::files_below;

/// Links that lead nowhere, and names of Rust files that don't exist.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    // Code, or the target of a link up to its `#`.
    let parts = Regex::new(r"(?s)```.*?```|`([\w/-]+\.rs)`|`[^`]*`|\]\(([^)\s#]+)")?;
    let mut faults = Vec::new();
    let sources = files_below(root, "rs");
    // `cargo xtask practice` makes files of the reader's.
    let exists = |name: &str| {
        name.starts_with("practice/src/bin") || sources.iter().any(|path| path.ends_with(name))
    };
    for path in files_below(root, "md") {
        let text = read(&path)?;
        let names = parts.captures_iter(&text).filter_map(|part| part.get(1));
        for name in names.map(|name| name.as_str()).filter(|name| !exists(name)) {
            faults.push(format!("{}: {name} doesn't exist", path.display()));
        }
        let links = parts.captures_iter(&text).filter_map(|part| part.get(2));
        let links = links.map(|link| link.as_str());
        let files = links.filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        let folder = path.parent().unwrap_or(root);
        for file in files.filter(|file| !folder.join(file).exists()) {
            faults.push(format!("{}: {file} doesn't exist", path.display()));
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found_and_code_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[a](a.md#top) [b](#top) [c](https://x.y) `[d](none.md)`\n```\n[e](none.md)\n```\n[f](none.md) \
                    `src/here.rs`, `here.rs` and `gone.rs`";
        std::fs::write(folder.path().join("a.md"), text).unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src/here.rs"), "").unwrap();
        let faults = faults(folder.path()).unwrap();
        assert!(faults.len() == 2 && faults[0].ends_with("a.md: gone.rs doesn't exist"));
        assert!(faults[1].ends_with("a.md: none.md doesn't exist"));
    }
}
