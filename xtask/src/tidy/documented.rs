//! Names in docs/book-map.md and docs/errata.md: each item and each cell exists, and the notebooks
//! of a row use its items.
//!
//! An item is looked for by name in its crate's sources; that it stands in the module the path says
//! is not checked.

use std::path::Path;

use anyhow::Result;
use notebooks::{PROGRAMS, Program, cells};

use super::read;
use crate::workspace::{crate_folder, files_below};

const PAGES: [&str; 2] = ["docs/book-map.md", "docs/errata.md"];

/// Names that nothing has, and items that the cells beside them don't use.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for page in PAGES {
        for (index, line) in read(&root.join(page))?.lines().enumerate() {
            let at = format!("{page}:{}", index + 1);
            let names: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
            let mut programs = Vec::new();
            for (program, cell) in names.iter().filter_map(|name| cell(name)) {
                programs.push(program);
                if !cells(&program.unrun("")).any(|known| known.is_called(cell)) {
                    faults.push(format!("{at}: there is no cell `{} {cell}`", program.name));
                }
            }
            for name in names {
                let Some((krate, path)) = name.split_once("::") else {
                    continue;
                };
                let Some(folder) = crate_folder(root, krate) else {
                    faults.push(format!("{at}: `{name}`: there is no crate {krate}"));
                    continue;
                };
                let sources = folder.join("src");
                if let Some(part) = path.split("::").find(|part| !defined(&sources, part)) {
                    faults.push(format!(
                        "{at}: `{name}`: the sources of {krate} don't define {part}"
                    ));
                }
                let last = path.rsplit("::").next().unwrap_or(path);
                if !programs.is_empty()
                    && !programs
                        .iter()
                        .any(|program| has_word(program.source, last))
                {
                    faults.push(format!(
                        "{at}: `{name}`: the cells of this row don't use it"
                    ));
                }
            }
        }
    }
    Ok(faults)
}

/// The notebook and the cell or section that `ch03 In [36]` names.
fn cell(name: &str) -> Option<(&'static Program, &str)> {
    let (notebook, cell) = name.split_once(' ')?;
    let program = PROGRAMS.iter().find(|program| program.name == notebook)?;
    Some((program, cell))
}

fn defined(sources: &Path, name: &str) -> bool {
    const KEYWORDS: [&str; 8] = [
        "fn", "struct", "enum", "trait", "const", "mod", "type", "use",
    ];
    files_below(sources, "rs")
        .iter()
        .filter_map(|file| read(file).ok())
        .any(|text| {
            let line_defines = |line: &str| {
                let line = line
                    .trim_start()
                    .trim_start_matches("pub ")
                    .trim_start_matches("pub(crate) ");
                KEYWORDS.iter().any(|keyword| {
                    line.strip_prefix(keyword)
                        .is_some_and(|rest| rest.starts_with(' ') && has_word(rest, name))
                })
            };
            text.lines().any(line_defines)
        })
}

fn has_word(text: &str, word: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back().is_some_and(is_word);
        let after = text[start + word.len()..]
            .chars()
            .next()
            .is_some_and(is_word);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_items_are_told_apart() {
        assert!(
            cell("ch03 In [36]")
                .is_some_and(|(program, cell)| program.name == "ch03" && cell == "In [36]")
        );
        assert!(cell("gpt::GptModel").is_none() && cell("cargo xtask").is_none());
    }

    #[test]
    fn an_item_is_found_where_it_is_defined_and_not_where_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("a.rs"),
            "//! x\npub struct Thing;\nimpl Thing { \n    pub fn make() {}\n}\n// Nothing\n",
        )
        .unwrap();
        assert!(defined(folder.path(), "Thing") && defined(folder.path(), "make"));
        assert!(!defined(folder.path(), "Nothing") && !defined(folder.path(), "mak"));
    }
}
