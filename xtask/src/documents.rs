//! What docs/book-map.md and docs/errata.md say of a cell: the items to read about, the listing's
//! number, the document's error.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use notebooks::{PROGRAMS, Program};

use crate::workspace::{crate_folder, crate_folders, files_below, root};

/// A row of the map.
pub(super) struct Row {
    /// The first column, `3.6.2 weight splits`.
    pub(super) section: String,
    /// The listing's number in the book, or nothing.
    pub(super) listing: String,
    /// The column that names the items.
    pub(super) rust: String,
    /// Paths of items.
    pub(super) items: Vec<String>,
    /// Of which notebook, and its cell, its section or its check.
    pub(super) cells: Vec<(&'static Program, String)>,
}

impl Row {
    /// Whether these words name it: a section's number, `Listing 3.5`, an item.
    pub(super) fn is_called(&self, words: &str) -> bool {
        let lower = words.to_lowercase();
        if let Some(number) = lower.strip_prefix("listing ") {
            return self
                .listing
                .to_lowercase()
                .split(", ")
                .any(|it| it == number);
        }
        let mut numbers = self.section.split([',', ' ']);
        let is_named =
            |item: &String| item == words || item.split("::").skip(1).any(|it| it == words);
        numbers.any(|number| number == words && number.contains('.'))
            && !self.section.starts_with("exercise")
            || (self.listing == words && !words.contains('.'))
            || self.items.iter().any(is_named)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listing = match self.listing.as_str() {
            "" => String::new(),
            number => format!(", listing {number}"),
        };
        write!(f, "{}{listing}: {}", self.section, self.rust)
    }
}

/// A row of the errata.
pub(super) struct Erratum {
    /// `B3`.
    pub(super) number: String,
    /// Where it stands, as the page says it.
    pub(super) place: String,
    pub(super) wrong: String,
    pub(super) right: String,
    /// Of the notebooks that it is in: the cell or section that the page names, if it names one.
    pub(super) places: Vec<(&'static str, Option<String>)>,
}

/// The rows of the map.
pub(super) fn map() -> Result<Vec<Row>> {
    let rows = rows("docs/book-map.md")?.into_iter().filter_map(|columns| {
        let [first, middle @ .., _] = columns.as_slice() else {
            return None;
        };
        let (listing, rust) = match middle {
            [listing, rust] => (listing.trim_matches('`').to_owned(), rust.clone()),
            _ => (String::new(), middle.concat()),
        };
        let line = columns.join(" ");
        let names: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        let cell = |name: &&str| {
            let (notebook, cell) = name.split_once(' ')?;
            let program = PROGRAMS.iter().find(|program| program.name == notebook)?;
            Some((program, cell.to_owned()))
        };
        Some(Row {
            section: first.clone(),
            listing,
            rust,
            items: names
                .iter()
                .filter(|name| name.contains("::"))
                .map(|&name| name.to_owned())
                .collect(),
            cells: names.iter().filter_map(cell).collect(),
        })
    });
    Ok(rows.collect())
}

/// The rows of the errata.
pub(super) fn errata() -> Result<Vec<Erratum>> {
    // The names that the page gives to the documents, the longest first.
    const DOCUMENTS: [(&str, &str); 6] = [
        ("ch03 exercises", "ch03_exercises"),
        ("ch03", "ch03"),
        ("ch02.ipynb", "ch02"),
        ("self-attention", "notes_self_attention"),
        ("Transformer", "notes_transformer"),
        ("worksheet", "worksheet"),
    ];
    let errata = rows("docs/errata.md")?.into_iter().filter_map(|columns| {
        let [number, place, wrong, right] = columns.try_into().ok()?;
        number.strip_prefix('B')?.parse::<u32>().ok()?;
        let mut places = Vec::new();
        for part in place.replace(", and ", "; ").split("; ") {
            let Some((name, program)) = DOCUMENTS.iter().find(|(name, _)| part.starts_with(name))
            else {
                continue;
            };
            let mut parts = part[name.len()..].split([',', ';']).map(str::trim);
            let cell = parts.find_map(|part| match part.strip_prefix("exercise ") {
                Some(number) => Some(format!("ex{number}")),
                None => part.starts_with("In [").then(|| part.to_owned()),
            });
            places.push((*program, cell));
        }
        Some(Erratum {
            number,
            place,
            wrong,
            right,
            places,
        })
    });
    Ok(errata.collect())
}

/// The columns of all tables of a page, heads left out.
fn rows(page: &str) -> Result<Vec<Vec<String>>> {
    let path = root().join(page);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut rows = Vec::new();
    for line in text.lines() {
        let Some(inside) = line
            .strip_prefix('|')
            .and_then(|line| line.strip_suffix('|'))
        else {
            continue;
        };
        if inside.starts_with("---") {
            rows.pop(); // the head
            continue;
        }
        let columns = inside.replace("\\|", "\u{0}");
        rows.push(
            columns
                .split('|')
                .map(|text| text.trim().replace('\u{0}', "|"))
                .collect(),
        );
    }
    Ok(rows)
}

/// Where rustdoc puts an item, below its folder `doc`.
///
/// # Errors
/// No crate defines it.
pub(super) fn documentation(item: &str) -> Result<String> {
    let mut parts = item.split("::");
    let krate = parts.next().unwrap_or_default();
    let is_crate = || format!("`{item}` is a crate or a module");
    let mut name = parts.next().with_context(is_crate)?;
    let home = crate_folder(&root(), krate);
    let mut module = String::new();
    if let Some(home) = &home
        && home.join(format!("src/{name}.rs")).exists()
        && kind(home, name).is_none()
    {
        module = format!("{name}/");
        name = parts.next().with_context(is_crate)?;
    }
    let (krate, kind) = match home.and_then(|home| kind(&home, name)) {
        Some(kind) => (krate.to_owned(), kind),
        // Another crate's, that this one re-exports.
        None => crate_folders(&root())
            .into_iter()
            .find_map(|folder| {
                let krate = folder.file_name()?.to_string_lossy().replace('-', "_");
                Some((krate, kind(&folder, name)?))
            })
            .with_context(|| format!("no crate defines `{item}`"))?,
    };
    let member = match parts.next() {
        None => String::new(),
        Some(constant) if constant.chars().all(|c| !c.is_lowercase()) => {
            format!("#associatedconstant.{constant}")
        }
        Some(method) if method.starts_with(char::is_lowercase) => format!("#method.{method}"),
        Some(variant) => format!("#variant.{variant}"),
    };
    Ok(format!("{krate}/{module}{kind}.{name}.html{member}"))
}

fn kind(krate: &Path, name: &str) -> Option<&'static str> {
    const KINDS: [(&str, &str); 6] = [
        ("pub struct ", "struct"),
        ("pub enum ", "enum"),
        ("pub trait ", "trait"),
        ("pub fn ", "fn"),
        ("pub const ", "constant"),
        ("pub type ", "type"),
    ];
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let files = files_below(&krate.join("src"), "rs");
    files
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .find_map(|text| {
            text.lines().find_map(|line| {
                KINDS.iter().find_map(|(start, kind)| {
                    let rest = line.strip_prefix(start)?.strip_prefix(name)?;
                    (!rest.starts_with(word)).then_some(*kind)
                })
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_of_the_map_has_a_page() {
        for row in map().unwrap() {
            for item in row.items {
                documentation(&item).unwrap();
            }
        }
        assert_eq!(
            documentation("gpt::LayerNorm").unwrap(),
            "tensor_ops/struct.LayerNorm.html"
        );
        assert_eq!(
            documentation("gpt::GptConfig::GPT2_124M").unwrap(),
            "gpt/struct.GptConfig.html#associatedconstant.GPT2_124M"
        );
    }

    #[test]
    fn every_erratum_is_in_a_notebook_and_every_cell_is_one() {
        let errata = errata().unwrap();
        assert_eq!(errata.len(), 27);
        for erratum in &errata {
            assert!(!erratum.places.is_empty(), "{}", erratum.number);
        }
        let b3 = errata
            .iter()
            .find(|erratum| erratum.number == "B3")
            .unwrap();
        assert_eq!(b3.places, [("worksheet", Some("In [28]".to_owned()))]);
        let b1 = errata
            .iter()
            .find(|erratum| erratum.number == "B1")
            .unwrap();
        assert_eq!(b1.places, [("ch03_exercises", Some("ex3.2".to_owned()))]);
    }
}
