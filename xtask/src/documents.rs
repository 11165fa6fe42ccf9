//! The tables of docs/book-map.md and docs/errata.md, by cell: the items to read about, the
//! listing's number, the document's error.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use notebooks::{PROGRAMS, Program};
use regex::Regex;

use crate::workspace::{crate_folder, crate_folders, files_below, root};

/// A notebook, and the name of its cell, its section or its check.
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
    /// True if these words name it: a section's number, `Listing 3.5`, an item.
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
            || (self.listing == words && !words.is_empty() && !words.contains('.'))
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
    /// Its place in the document, in the page's words.
    pub(super) place: String,
    pub(super) wrong: String,
    pub(super) right: String,
}

impl Erratum {
    /// The notebooks that it is in, each with the cell that the page names, or an empty name.
    pub(super) fn places(&self) -> impl Iterator<Item = (&'static Program, &str)> {
        named(&self.place)
    }
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

/// The names between a line's backticks: items, `gpt::GptModel`, and cells, `ch03 In [36]`.
pub(super) fn names(line: &str) -> (Vec<String>, Vec<NamedCell>) {
    let items = quoted(line).filter(|name| name.contains("::"));
    let cells = named(line).filter(|(_, cell)| !cell.is_empty());
    let cells = cells.map(|(program, cell)| (program, cell.to_owned()));
    (items.map(str::to_owned).collect(), cells.collect())
}

/// The notebooks among these names, each with its cell, or an empty name: `ch03 In [36]`, `ch03`.
fn named(line: &str) -> impl Iterator<Item = (&'static Program, &str)> {
    quoted(line).filter_map(|name| {
        let (notebook, cell) = name.split_once(' ').unwrap_or((name, ""));
        let program = PROGRAMS.iter().find(|program| program.name == notebook)?;
        Some((program, cell))
    })
}

fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The rows of the errata.
pub(super) fn errata() -> Result<Vec<Erratum>> {
    let errata = rows("docs/errata.md")?.into_iter().filter_map(|columns| {
        let [number, place, wrong, right] = columns.try_into().ok()?;
        number.strip_prefix('B')?.parse::<u32>().ok()?;
        Some(Erratum {
            number,
            place,
            wrong,
            right,
        })
    });
    Ok(errata.collect())
}

/// The columns of all tables of a page, heads left out.
pub(super) fn rows(page: &str) -> Result<Vec<Vec<String>>> {
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

/// The path of an item's page, below rustdoc's folder `doc`.
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
    let mut kind = defined(&home, ITEM, name);
    if kind.is_none() && home.join(format!("src/{name}.rs")).exists() {
        module = format!("{name}/");
        name = parts.next().with_context(nowhere)?;
        kind = defined(&home, ITEM, name);
    }
    if kind.is_none() {
        // Another crate's, that this one re-exports.
        home = crate_folders(&root())
            .into_iter()
            .find(|folder| defined(folder, ITEM, name).is_some())
            .with_context(nowhere)?;
        kind = defined(&home, ITEM, name);
        let folder = home.file_name().with_context(nowhere)?;
        krate = folder.to_string_lossy().replace('-', "_");
    }
    let kind = kind.with_context(nowhere)?.replace("const", "constant");
    let member = match parts.next() {
        None => String::new(),
        Some(member) => match defined(&home, MEMBER, member)
            .with_context(nowhere)?
            .as_str()
        {
            "const" => format!("#associatedconstant.{member}"),
            _ => format!("#method.{member}"),
        },
    };
    Ok(format!("{krate}/{module}{kind}.{name}.html{member}"))
}

/// The beginning of a line that defines an item, or a member of one.
const ITEM: &str = "^pub (struct|enum|trait|fn|const|type)";
const MEMBER: &str = "^    (?:pub )?(?:const )?(fn|const)";

/// The kind of what a crate's sources define by this name.
fn defined(krate: &Path, start: &str, name: &str) -> Option<String> {
    let definition = Regex::new(&format!(r"(?m){start} {name}\b")).ok()?;
    let files = files_below(&krate.join("src"), "rs").into_iter();
    let mut texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    texts.find_map(|text| Some(definition.captures(&text)?[1].to_owned()))
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
            let places: Vec<_> = erratum.places().collect();
            assert!(!places.is_empty(), "{}", erratum.number);
        }
        let place = |number: &str| {
            let erratum = errata.iter().find(|it| it.number == number).unwrap();
            let places = erratum.places().map(|(program, cell)| (program.name, cell));
            places.collect::<Vec<_>>()
        };
        assert_eq!(place("B1"), [("ch03_exercises", "ex3.2")]);
        assert_eq!(place("B20"), [("notes_transformer", "")]);
    }
}
