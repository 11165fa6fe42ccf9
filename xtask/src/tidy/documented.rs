//! Names in docs/book-map.md and docs/errata.md: each cell exists, and each item is used in the
//! notebooks of its row, which compile, or stands somewhere in the crates.

use std::path::Path;

use anyhow::Result;
use notebooks::cells;
use regex::Regex;

use super::read;
use crate::documents::names;
use crate::workspace::files_below;

const PAGES: [&str; 2] = ["docs/book-map.md", "docs/errata.md"];

/// Names that nothing has, and items that the cells beside them don't use.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let sources = files_below(&root.join("crates"), "rs").into_iter();
    let sources = sources
        .map(|path| read(&path))
        .collect::<Result<String>>()?;
    let mut faults = Vec::new();
    for page in PAGES {
        for (index, line) in read(&root.join(page))?.lines().enumerate() {
            let mut fault = |what: String| faults.push(format!("{page}:{}: {what}", index + 1));
            let (items, named) = names(line);
            for (program, cell) in &named {
                if !cells(&program.unrun()).any(|known| known.is_called(cell)) {
                    fault(format!("no cell `{} {cell}`", program.name));
                }
            }
            for item in items {
                let name = item.rsplit("::").next().unwrap_or(&item);
                let word = Regex::new(&format!(r"\b{name}\b"))?;
                let mut notebooks = named.iter().map(|(program, _)| program.source);
                if !named.is_empty() && !notebooks.any(|source| word.is_match(source)) {
                    fault(format!("`{item}`: the cells of this row don't use it"));
                }
                if named.is_empty() && !word.is_match(&sources) {
                    fault(format!("nothing is called `{item}`"));
                }
            }
        }
    }
    Ok(faults)
}
