//! Names in docs/book-map.md and docs/errata.md: each item and each cell exists, and the notebooks
//! of a row use its items.

use std::path::Path;

use anyhow::Result;
use notebooks::cells;
use regex::Regex;

use super::read;
use crate::documents::{documentation, names};

const PAGES: [&str; 2] = ["docs/book-map.md", "docs/errata.md"];

/// Names that nothing has, and items that the cells beside them don't use.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for page in PAGES {
        for (index, line) in read(&root.join(page))?.lines().enumerate() {
            let mut fault = |what: String| faults.push(format!("{page}:{}: {what}", index + 1));
            let (items, named) = names(line);
            for (program, cell) in &named {
                if !cells(&program.unrun()).any(|known| known.is_called(cell)) {
                    fault(format!("there is no cell `{} {cell}`", program.name));
                }
            }
            for item in items {
                if let Err(error) = documentation(&item) {
                    fault(error.to_string());
                }
                let name = item.rsplit("::").next().unwrap_or(&item);
                let word = Regex::new(&format!(r"\b{name}\b"))?;
                let mut sources = named.iter().map(|(program, _)| program.source);
                if !named.is_empty() && !sources.any(|source| word.is_match(source)) {
                    fault(format!("`{item}`: the cells of this row don't use it"));
                }
            }
        }
    }
    Ok(faults)
}
