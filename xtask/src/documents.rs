//! Reads the tables in docs/book-map.md, which is called the map, and in docs/errata.md, which is
//! called the errata. The map lists the Rust items and the notebook cells for each section and
//! listing of the book. The errata list the errors in the book and its notebooks.

use anyhow::{Context, Result};
use notebooks::{PROGRAMS, Program};

use crate::workspace::root;

/// A notebook, and the name of one of its cells, sections or checks.
pub(super) type NamedCell = (&'static Program, String);

/// A row of the map.
pub(super) struct Row {
    /// Number and title of the section, such as `3.6.2 weight splits`. A row about exercises
    /// contains their numbers instead, such as `exercise 5.2, 5.3`.
    pub(super) section: String,
    /// Numbers of the book's listings, or an empty string.
    pub(super) listing: String,
    /// The column that names the items in Rust.
    pub(super) rust: String,
    /// Paths of the items, such as `gpt::GptModel`.
    pub(super) items: Vec<String>,
    pub(super) cells: Vec<NamedCell>,
}

impl Row {
    /// Returns true if `words` refers to this row by the number of its section, exercise or
    /// listing, such as `5.2`, `ex5.2` or `Listing 3.5`.
    pub(super) fn is_called(&self, words: &str) -> bool {
        let lower = words.to_lowercase();
        let mut listings = self.listing.split(", ");
        let mut numbers = self.section.split([',', ' ']);
        match self.section.strip_prefix("exercise ") {
            Some(these) => {
                let asked = lower.strip_prefix("ex");
                asked.is_some() && these.split(", ").any(|number| asked == Some(number))
            }
            None => {
                listings.any(|number| lower == format!("listing {number}"))
                    || words.contains('.') && numbers.any(|number| number == words)
            }
        }
    }

    /// Returns true if `words` is the path of one of this row's items, or a component of the path
    /// other than the crate's name, such as `GptModel`. A component can be spelled as in Rust or as
    /// in Python.
    pub(super) fn has_item(&self, words: &str) -> bool {
        let mut parts = self.items.iter().flat_map(|item| item.split("::").skip(1));
        parts.any(|part| plain(part) == plain(words)) || self.items.iter().any(|item| item == words)
    }
}

/// Converts a name to lowercase and removes underscores, hyphens and spaces, so that `GPTModel` and
/// `Gpt_Model` become equal.
pub(super) fn plain(name: &str) -> String {
    let letters = name.chars().filter(|c| !['_', ' ', '-'].contains(c));
    letters.flat_map(char::to_lowercase).collect()
}

/// Looks up a name that the book uses but this project doesn't. For a class or function, returns
/// the item that corresponds to it. For a figure, such as `Figure 3.18`, returns its section.
/// Returns `None` if the map doesn't contain the name.
///
/// # Errors
///
/// Returns an error if the map can't be read.
pub(super) fn our_name_of(words: &str) -> Result<Option<String>> {
    let figure = plain(words).strip_prefix("figure").map(str::to_owned);
    let number = |text: &str| -> Option<(u32, u32)> {
        let (chapter, figure) = text.split_once('.')?;
        Some((chapter.parse().ok()?, figure.parse().ok()?))
    };
    for columns in rows("docs/book-map.md")? {
        let [theirs, here] = &columns[..] else {
            continue;
        };
        let range = theirs
            .strip_prefix("Figure ")
            .and_then(|range| range.split_once(" to "));
        let is_it = match (range, &figure) {
            (Some((first, last)), Some(figure)) => {
                let asked = number(figure);
                asked.is_some() && (number(first)..=number(last)).contains(&asked)
            }
            (None, _) => quoted(theirs).any(|name| plain(name) == plain(words)),
            _ => false,
        };
        if is_it {
            return Ok(Some(here.trim_matches('`').to_owned()));
        }
    }
    Ok(None)
}

/// A row of the errata.
pub(super) struct Erratum {
    /// Number of the erratum, such as `B3`.
    pub(super) number: String,
    /// Location of the error in the book or notebook, in the words of docs/errata.md.
    pub(super) place: String,
    pub(super) wrong: String,
    pub(super) right: String,
}

impl Erratum {
    /// Returns the notebooks that contain the error, each with the name of a cell. The name is
    /// empty if docs/errata.md mentions only the notebook.
    pub(super) fn places(&self) -> impl Iterator<Item = (&'static Program, &str)> {
        named(&self.place)
    }
}

/// Returns the rows of the map.
///
/// # Errors
///
/// Returns an error if the page can't be read.
pub(super) fn map() -> Result<Vec<Row>> {
    let rows = rows("docs/book-map.md")?.into_iter().filter_map(|columns| {
        let (items, cells) = names(&columns.join(" "));
        let [section, listing, rust, _] = columns.try_into().ok()?;
        Some(Row {
            section,
            listing,
            rust,
            items,
            cells,
        })
    });
    Ok(rows.collect())
}

/// Returns the items, such as `gpt::GptModel`, and the cells, such as `ch03 In [36]`, whose names
/// appear between backticks in a line.
pub(super) fn names(line: &str) -> (Vec<String>, Vec<NamedCell>) {
    let items = quoted(line).filter(|name| name.contains("::"));
    let cells = named(line).filter(|(_, cell)| !cell.is_empty());
    let cells = cells.map(|(program, cell)| (program, cell.to_owned()));
    (items.map(str::to_owned).collect(), cells.collect())
}

/// Returns the notebooks whose names appear between backticks in a line, each with the name of a
/// cell. If a notebook's name appears alone, as in `ch03`, the name of the cell is empty.
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

/// Returns the rows of the errata.
///
/// # Errors
///
/// Returns an error if the page can't be read.
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

/// Returns the columns of each row of all tables on a page, excluding the header rows.
///
/// # Errors
///
/// Returns an error if the page can't be read.
pub(super) fn rows(page: &str) -> Result<Vec<Vec<String>>> {
    let path = root().join(page);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('|')) {
        if line.starts_with("|---") {
            rows.pop(); // The row before this one is the header.
            continue;
        }
        let columns = line.trim_matches('|').replace("\\|", "\0");
        let columns = columns
            .split('|')
            .map(|text| text.trim().replace('\0', "|"));
        rows.push(columns.collect());
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

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
