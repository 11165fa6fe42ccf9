//! What docs/book-map.md and docs/errata.md say of a cell: the items to read about, the listing's
//! number, the document's error.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use notebooks::{PROGRAMS, Program};

use crate::workspace::{crate_folder, crate_folders, files_below, root};

/// Of which notebook, and its cell, its section or its check.
pub(super) type NamedCell = (&'static Program, String);

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
    pub(super) cells: Vec<NamedCell>,
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
        let (items, cells) = names(&columns.join(" "));
        Some(Row {
            section: first.clone(),
            listing,
            rust,
            items,
            cells,
        })
    });
    Ok(rows.collect())
}

/// What a line names between backticks: items, `gpt::GptModel`, and cells, `ch03 In [36]`.
pub(super) fn names(line: &str) -> (Vec<String>, Vec<NamedCell>) {
    let names = || line.split('`').skip(1).step_by(2);
    let items = names().filter(|name| name.contains("::"));
    let cells = names().filter_map(|name| {
        let (notebook, cell) = name.split_once(' ')?;
        let program = PROGRAMS.iter().find(|program| program.name == notebook)?;
        Some((program, cell.to_owned()))
    });
    (items.map(str::to_owned).collect(), cells.collect())
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
    let nowhere = || format!("no crate defines `{item}`");
    let mut name = parts.next().with_context(nowhere)?;
    let mut home = crate_folder(&root(), krate).with_context(nowhere)?;
    let (mut krate, mut module) = (krate.to_owned(), String::new());
    let mut kind = defined(&home, &ITEMS, name);
    if kind.is_none() && home.join(format!("src/{name}.rs")).exists() {
        module = format!("{name}/");
        name = parts.next().with_context(nowhere)?;
        kind = defined(&home, &ITEMS, name);
    }
    if kind.is_none() {
        // Another crate's, that this one re-exports.
        home = crate_folders(&root())
            .into_iter()
            .find(|folder| defined(folder, &ITEMS, name).is_some())
            .with_context(nowhere)?;
        kind = defined(&home, &ITEMS, name);
        let folder = home.file_name().with_context(nowhere)?;
        krate = folder.to_string_lossy().replace('-', "_");
    }
    let kind = kind.with_context(nowhere)?;
    let member = match parts.next() {
        None => String::new(),
        Some(member) => {
            let kind = defined(&home, &MEMBERS, member).with_context(nowhere)?;
            format!("#{kind}.{member}")
        }
    };
    Ok(format!("{krate}/{module}{kind}.{name}.html{member}"))
}

/// How the line of an item begins, and what rustdoc calls it.
const ITEMS: [(&str, &str); 6] = [
    ("pub struct ", "struct"),
    ("pub enum ", "enum"),
    ("pub trait ", "trait"),
    ("pub fn ", "fn"),
    ("pub const ", "constant"),
    ("pub type ", "type"),
];
const MEMBERS: [(&str, &str); 4] = [
    ("    pub fn ", "method"),
    ("    fn ", "method"),
    ("    pub const fn ", "method"),
    ("    pub const ", "associatedconstant"),
];

/// The kind of what a crate's sources define by this name.
fn defined(krate: &Path, kinds: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let of_line = |line: &str| {
        kinds.iter().find_map(|(start, kind)| {
            let rest = line.strip_prefix(start)?.strip_prefix(name)?;
            (!rest.starts_with(word)).then_some(*kind)
        })
    };
    let files = files_below(&krate.join("src"), "rs");
    let mut texts = files
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok());
    texts.find_map(|text| text.lines().find_map(of_line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_found_where_it_is_defined_and_not_where_it_is_named() {
        for wrong in [
            "gpt::GptMod",
            "gpt::GptModel::forwards",
            "nothing::GptModel",
            "gpt",
        ] {
            let error = documentation(wrong).unwrap_err().to_string();
            assert_eq!(error, format!("no crate defines `{wrong}`"));
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
    fn items_and_cells_are_told_apart() {
        let (items, cells) = names("| `gpt::GptModel` | `ch03 In [36]`, `cargo xtask` |");
        assert_eq!(items, ["gpt::GptModel"]);
        assert_eq!((cells[0].0.name, cells[0].1.as_str()), ("ch03", "In [36]"));
        assert_eq!(cells.len(), 1);
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
