//! Checks the links in Markdown files, and the names of Rust files that are written between
//! backticks. A relative link must lead to an existing file, and each Rust file must exist.

use std::path::Path;

use anyhow::Result;
use regex::Regex;

use super::read;
use crate::workspace::files_below;

/// Returns the links whose target doesn't exist, and the names of Rust files that don't exist.
pub(super) fn violations(root: &Path) -> Result<Vec<String>> {
    // Matches code blocks, names of Rust files between backticks, other inline code, and the
    // targets of links without their fragments. Only the names of Rust files and the targets of
    // links are captured.
    let parts = Regex::new(r"(?s)```.*?```|`([\w/-]+\.rs)`|`[^`]*`|\]\(([^)\s#]+)")?;
    let mut violations = Vec::new();
    let sources = files_below(root, "rs");
    // The files in `practice/src/bin` don't exist until `cargo xtask practice` is run for the first
    // time.
    let exists = |name: &str| {
        name.starts_with("practice/src/bin") || sources.iter().any(|path| path.ends_with(name))
    };
    for path in files_below(root, "md") {
        let text = read(&path)?;
        let names = parts.captures_iter(&text).filter_map(|part| part.get(1));
        for name in names.map(|name| name.as_str()).filter(|name| !exists(name)) {
            violations.push(format!(
                "{}: the text mentions {name}, which doesn't exist",
                path.display()
            ));
        }
        let links = parts.captures_iter(&text).filter_map(|part| part.get(2));
        let links = links.map(|link| link.as_str());
        let files = links.filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        let folder = path.parent().unwrap_or(root);
        for file in files.filter(|file| !folder.join(file).exists()) {
            violations.push(format!(
                "{}: the text contains a link to {file}, which doesn't exist",
                path.display()
            ));
        }
    }
    Ok(violations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_found_and_code_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[a](a.md#top) [b](#top) [c](https://x.y) `[d](none.md)`\n```\n[e](none.md)\n```\n[f](none.md) \
                    `src/here.rs`, `here.rs` and `gone.rs`";
        std::fs::write(folder.path().join("a.md"), text).unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src/here.rs"), "").unwrap();
        let violations = violations(folder.path()).unwrap();
        assert!(
            violations.len() == 2
                && violations[0].ends_with("a.md: the text mentions gone.rs, which doesn't exist")
        );
        assert!(
            violations[1]
                .ends_with("a.md: the text contains a link to none.md, which doesn't exist")
        );
    }
}
