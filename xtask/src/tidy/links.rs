//! Links in Markdown files: a relative one must lead to a file, and a `#title` to a heading of it.

use std::path::Path;

use anyhow::Result;
use regex::Regex;

use super::{read, shown};
use crate::workspace::files_below;

/// Links that lead nowhere.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in files_below(root, "md") {
        let text = read(&path)?;
        for (line, link) in links(&text)? {
            if let Some(reason) = broken(&path, &text, &link) {
                faults.push(format!("{}:{line}: {link}: {reason}", shown(root, &path)));
            }
        }
    }
    Ok(faults)
}

/// Why the link in the file `from` is broken.
fn broken(from: &Path, text: &str, link: &str) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, title) = link.split_once('#').unwrap_or((link, ""));
    let target = from.parent().unwrap_or(from).join(file);
    if !file.is_empty() && !target.exists() {
        return Some("there is no such file");
    }
    if title.is_empty() || !(file.is_empty() || file.ends_with(".md")) {
        return None;
    }
    let other = if file.is_empty() {
        None
    } else {
        std::fs::read_to_string(&target).ok()
    };
    let found = anchors(other.as_deref().unwrap_or(text)).any(|anchor| anchor == title);
    (!found).then_some("there is no such heading")
}

/// The targets of `[text](target)` outside code, with their lines from 1.
fn links(text: &str) -> Result<Vec<(usize, String)>> {
    let target = Regex::new(r"\]\(\s*([^)\s]*)[^)]*\)")?;
    let (mut found, mut in_code) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if !in_code {
            // What stands between backticks is code.
            let prose = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            let targets = target.captures_iter(&prose);
            found.extend(targets.map(|target| (index + 1, target[1].to_owned())));
        }
    }
    Ok(found)
}

/// The anchors that GitHub gives the headings.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|character| {
                character.is_alphanumeric() || matches!(character, ' ' | '-' | '_')
            });
            kept.map(|character| if character == ' ' { '-' } else { character })
                .collect()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found_and_code_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("b.md"), "# A title, here\n").unwrap();
        let text = "# Top\n[a](b.md) [b](b.md#a-title-here) [c](#top) [d](https://x.y) `[e](none.md)`\n```\n[f](none.md)\n```\n";
        std::fs::write(folder.path().join("a.md"), text).unwrap();
        assert_eq!(faults(folder.path()).unwrap(), Vec::<String>::new());
        std::fs::write(
            folder.path().join("c.md"),
            "[a](none.md)\n[b](b.md#none)\n[c](#none)\n",
        )
        .unwrap();
        let faults = faults(folder.path()).unwrap();
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(faults[0].starts_with("c.md:1: none.md"), "{faults:?}");
    }
}
