//! Checks the names of cells and items in docs/book-map.md and docs/errata.md. Every cell must
//! exist. If a line contains the names of notebooks, at least one of these notebooks must use each
//! item in this line. Otherwise, the items must occur somewhere in the crates.

use std::path::Path;

use anyhow::Result;
use notebooks::cells;
use regex::Regex;

use super::read;
use crate::documents::names;
use crate::workspace::files_below;

const PAGES: [&str; 2] = ["docs/book-map.md", "docs/errata.md"];

/// Returns a violation for each cell or item that [`PAGES`] mention although it doesn't exist, and
/// for each item that isn't used by any of the notebooks in the same line.
pub(super) fn violations(root: &Path) -> Result<Vec<String>> {
    let sources = files_below(&root.join("crates"), "rs").into_iter();
    let sources = sources
        .map(|path| read(&path))
        .collect::<Result<String>>()?;
    let mut violations = Vec::new();
    for page in PAGES {
        for (index, line) in read(&root.join(page))?.lines().enumerate() {
            let mut violation =
                |what: String| violations.push(format!("{page}:{}: {what}", index + 1));
            let (items, named) = names(line);
            for (program, cell) in &named {
                if !cells(&program.unrun()).any(|known| known.is_called(cell)) {
                    violation(format!("the cell `{} {cell}` doesn't exist", program.name));
                }
            }
            for item in items {
                let name = item.rsplit("::").next().unwrap_or(&item);
                let word = Regex::new(&format!(r"\b{name}\b"))?;
                let mut notebooks = named.iter().map(|(program, _)| program.source);
                if !named.is_empty() && !notebooks.any(|source| word.is_match(source)) {
                    violation(format!(
                        "the notebooks in this table row don't use the item `{item}`"
                    ));
                }
                if named.is_empty() && !word.is_match(&sources) {
                    violation(format!(
                        "the document contains `{item}`, but no crate has an item with this name"
                    ));
                }
            }
        }
    }
    Ok(violations)
}
