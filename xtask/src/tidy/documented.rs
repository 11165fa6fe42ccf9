//! Names in docs/book-map.md and docs/errata.md: each item and each cell exists, and the notebooks
//! of a row use its items.

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
                    fault(format!("there is no cell `{} {cell}`", program.name));
                }
            }
            for item in items {
                if !is_defined(&item, &sources)? {
                    fault(format!("nothing is called `{item}`"));
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

/// True if the sources use the crate of an item's path, and define all that follows in it.
fn is_defined(item: &str, sources: &str) -> Result<bool> {
    let mut parts = item.split("::");
    let mut patterns = vec![format!(r"\buse {}::", parts.next().unwrap_or_default())];
    patterns.extend(parts.map(|name| {
        format!(r"(?m)^ *(pub )?(const )?(struct|enum|trait|fn|const|type|mod) {name}\b")
    }));
    for pattern in patterns {
        if !Regex::new(&pattern)?.is_match(sources) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_an_item_if_its_crate_and_all_its_parts_are_there() {
        let sources =
            "use gpt::GptModel;\npub struct GptModel {\nimpl GptModel {\n    pub const fn forward(";
        for (item, defined) in [
            ("gpt::GptModel", true),
            ("gpt::GptModel::forward", true),
            ("gpt::GptMod", false),
            ("gpt::GptModel::forwards", false),
            ("nothing::GptModel", false),
        ] {
            assert_eq!(is_defined(item, sources).unwrap(), defined, "{item}");
        }
    }
}
