//! Links in Markdown files: a relative one must lead to a file.

use std::path::Path;

use anyhow::Result;
use regex::Regex;

use super::read;
use crate::workspace::files_below;

/// Links that lead nowhere.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    // Code, or the target of a link up to its `#`.
    let parts = Regex::new(r"(?s)```.*?```|`[^`]*`|\]\(([^)\s#]+)")?;
    let mut faults = Vec::new();
    for path in files_below(root, "md") {
        let text = read(&path)?;
        let links = parts.captures_iter(&text).filter_map(|part| part.get(1));
        let links = links.map(|link| link.as_str());
        let files = links.filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        let folder = path.parent().unwrap_or(root);
        for file in files.filter(|file| !folder.join(file).exists()) {
            faults.push(format!("{}: there is no {file}", path.display()));
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
        let text = "[a](a.md#top) [b](#top) [c](https://x.y) `[d](none.md)`\n```\n[e](none.md)\n```\n[f](none.md)";
        std::fs::write(folder.path().join("a.md"), text).unwrap();
        let faults = faults(folder.path()).unwrap();
        assert!(faults.len() == 1 && faults[0].ends_with("a.md: there is no none.md"));
    }
}
