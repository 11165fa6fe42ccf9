//! `cargo xtask golden-doc`: docs/golden.md, written from the table of figures so that the two can't differ.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::verify::rows;
use crate::verify::table::{self, Case, Figure, Kind};
use crate::workspace;

const HEAD: &str = "\
# The golden figures

This page is written by `cargo xtask golden-doc` from `xtask/goldens/`; a test fails when it is stale.

Every figure that the documents and the book's notebooks print, and that follows from a seed, the GPT-2 vocabulary or the book's text, is recomputed by `cargo xtask verify` and compared, number by number.
A figure is the printed digits, the place where they stand and the inputs; none was ever taken from our own output.

| printed | compared |
|---|---|
| text, ids, shapes, counts | exactly |
| a number with `d` decimals | within `0.5 * 10^-d + 1e-5 * max(1, abs(printed))` |
| a number in scientific notation | the same rule on its mantissa |
| a whole number printed as a float | within `1e-5 * max(1, abs(printed))` |
| all digits of a float | within a relative 1e-5 |
| rounding noise around 0 | within 1e-6 |
| the initial losses of chapter 5's training | within one unit of the last decimal |
| the rows of chapter 5's training table | within 5e-3 |

Documents 000 to 004 are the five seed documents; \"line\" is a line of their file, \"cell\" counts a notebook's cells from 0, \"In\" is the execution count it shows.
Cases marked \"text\" read the-verdict.txt: `cargo xtask verify --book-text FILE`.
Cases of the tier `train` take minutes: `cargo xtask verify train --book-text FILE`.
";

/// The titles of the sections, by the beginning of the ids.
const SECTIONS: [(&str, &str); 8] = [
    ("seed000.", "Document 000: exercises of chapter 3"),
    ("seed001.", "Document 001: chapter 3"),
    ("seed002.", "Document 002: notes on self-attention"),
    ("seed003.", "Document 003: a blog on chapters 2 to 5"),
    ("seed004.", "Document 004: a course worksheet"),
    ("ch02.", "The book's chapter 2"),
    ("ch04.", "The book's chapter 4"),
    ("ch05.", "The book's chapter 5"),
];

fn path() -> PathBuf {
    workspace::root().join("docs/golden.md")
}

/// Writes the page.
///
/// # Errors
/// The table is faulty, or the page can't be written.
pub(crate) fn write() -> Result<()> {
    std::fs::write(path(), render()?).with_context(|| format!("cannot write {}", path().display()))
}

fn render() -> Result<String> {
    let cases = table::load()?;
    let mut page = HEAD.to_owned();
    for (prefix, title) in SECTIONS {
        write!(
            page,
            "\n## {title}\n\n| case | printed at | what | inputs | compared |\n|---|---|---|---|---|\n"
        )?;
        for case in cases.iter().filter(|case| case.id.starts_with(prefix)) {
            writeln!(page, "{}", line(case)?)?;
        }
    }
    page.push_str("\n## Printed, but not checked\n\n| place | reason |\n|---|---|\n");
    for row in rows::load()? {
        if let Some(reason) = row.absent {
            writeln!(page, "| {} | {} |", cell(&row.row), cell(&reason))?;
        }
    }
    Ok(page)
}

fn line(case: &Case) -> Result<String> {
    let inputs: Vec<String> = case
        .inputs_as_text()
        .into_iter()
        .map(|(key, value)| format!("{key} = {}", short(&value)))
        .collect();
    let compared: Result<Vec<String>> = case.figures.iter().map(compared).collect();
    let text = if case.needs_book_text { " (text)" } else { "" };
    Ok(format!(
        "| `{}`{text} | {} | {} | {} | {} |",
        case.id,
        cell(&case.source),
        cell(&case.what),
        cell(&inputs.join(", ")),
        cell(&compared?.join("; "))
    ))
}

fn compared(figure: &Figure) -> Result<String> {
    let name = &figure.name;
    Ok(match figure.kind {
        Kind::Numbers => format!("{name}: {}", plural(figure.literals()?.len(), "number")),
        Kind::Ids => format!("{name}: {}", plural(figure.whole_numbers()?.len(), "id")),
        Kind::Shape => format!("{name}: [{}]", figure.text()?.replace(' ', ", ")),
        Kind::Count => format!("{name}: {}", figure.text()?),
        Kind::Text => format!("{name}: \"{}\"", short(figure.text()?)),
        Kind::Strings => format!("{name}: {}", plural(figure.strings()?.len(), "string")),
        Kind::Identity => name.clone(),
    })
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// At most 60 characters.
fn short(text: &str) -> String {
    if text.chars().count() <= 60 {
        return text.to_owned();
    }
    text.chars().take(57).chain("...".chars()).collect()
}

/// Text that can stand in a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('\n', " / ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_up_to_date() {
        let written = std::fs::read_to_string(super::path()).unwrap_or_default();
        assert!(
            written == super::render().unwrap(),
            "docs/golden.md is stale: run `cargo xtask golden-doc`"
        );
    }

    #[test]
    fn every_case_is_in_a_section() {
        for case in crate::verify::table::load().unwrap() {
            let sections = super::SECTIONS
                .iter()
                .filter(|(prefix, _)| case.id.starts_with(prefix))
                .count();
            assert_eq!(sections, 1, "{}", case.id);
        }
    }
}
