//! The page of one notebook: sections, listings, cells with their outputs, pictures and errata, in order.

use std::fmt::Write;

use anyhow::{Context, Result};
use notebooks::{Cell, Finished, Item, Kind, Outcome, PROGRAMS, Program, Record, item};
use pictures::html;
use pictures::html::escape;

use super::digits::Difference;
use super::documents::{Erratum, Row};
use super::highlight::highlight;
use super::{Book, STYLE, anchor, file_name};
use crate::workspace::root;

/// The whole page.
///
/// # Errors
/// A listing's file can't be read, or the outline does not fit what ran.
pub(super) fn page(program: &Program, finished: &Finished, book: &Book) -> Result<String> {
    let outline = program.outline()?;
    let mut body = format!("<h1>{}</h1>\n", escape(program.title));
    body += &neighbours(program);
    let sections: Vec<(&str, &str)> = outline
        .items
        .iter()
        .filter_map(|part| match part {
            Item::Section { number, title } => Some((number.as_str(), title.as_str())),
            _ => None,
        })
        .collect();
    body += "<nav aria-label=\"Sections\"><ol>\n";
    for (number, title) in &sections {
        let id = anchor('s', &[number]);
        writeln!(
            body,
            "<li><a href=\"#{id}\">{} {}</a></li>",
            escape(number),
            escape(title)
        )?;
    }
    body += "</ol></nav>\n";
    let here = |erratum: &&Erratum, cell: Option<&str>| {
        let mut places = erratum.places.iter();
        places.any(|(name, at)| *name == program.name && at.as_deref() == cell)
    };
    // An erratum stands at its cell or section, if there is one of that name.
    let named = |name: &str| {
        outline
            .cells()
            .any(|cell| cell.cell == name || cell.section == name)
    };
    let of_all = book.errata.iter().filter(|erratum| {
        let mut places = erratum.places.iter();
        places.any(|(name, at)| *name == program.name && !at.as_deref().is_some_and(named))
    });
    let of_all: String = of_all.map(erratum).collect();
    if !of_all.is_empty() {
        body += &format!("<h2 id=\"errata\">Errata of the document</h2>\n{of_all}");
    }

    let mut outcomes = finished.cells.iter();
    let (mut open, mut previous) = (false, String::new());
    for part in &outline.items {
        match part {
            Item::Section { number, title } => {
                if open {
                    body += "</section>\n";
                }
                open = true;
                previous.clear();
                let id = anchor('s', &[number]);
                writeln!(
                    body,
                    "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{} {}</h2>",
                    escape(number),
                    escape(title)
                )?;
                body += &documentation(program, number, book)?;
                let errata = book
                    .errata
                    .iter()
                    .filter(|erratum| here(erratum, Some(number)));
                body.extend(errata.map(erratum));
            }
            Item::Listing { path, start } => {
                let source =
                    std::fs::read_to_string(root().join(path)).with_context(|| path.clone())?;
                let line = source
                    .lines()
                    .position(|line| line.trim_start().starts_with(start.as_str()));
                let link = book.source(path, line.map_or(1, |line| line + 1));
                writeln!(
                    body,
                    "<h3 id=\"{}\">Listing {link}</h3>",
                    anchor('l', &[path, start])
                )?;
                writeln!(
                    body,
                    "<pre tabindex=\"0\"><code>{}</code></pre>",
                    highlight(&item(&source, start)?)
                )?;
            }
            Item::Picture { name, line, code } => {
                let picture = finished.pictures.iter().find(|(at, _)| at == line);
                writeln!(
                    body,
                    "<h3 id=\"{}\">{} {}</h3>",
                    anchor('p', &[name]),
                    escape(name),
                    book.source(program.path, *line as usize)
                )?;
                match picture {
                    Some((_, picture)) => body += &html::figure(picture),
                    None => body += "<p class=\"dim\">not drawn: its cells were not run</p>\n",
                }
                writeln!(
                    body,
                    "<details><summary>How it is drawn</summary><pre tabindex=\"0\"><code>{}</code></pre></details>",
                    highlight(code)
                )?;
            }
            Item::Cell(cell) => {
                let (_, outcome) = outcomes
                    .next()
                    .context("a cell of the outline has an outcome")?;
                let id = anchor('c', &[&cell.section, &cell.name]);
                let link = book.source(program.path, cell.line as usize);
                if previous == cell.cell {
                    writeln!(body, "<div id=\"{id}\">")?;
                } else {
                    writeln!(
                        body,
                        "<div id=\"{id}\">\n<h3>{} {link}</h3>",
                        escape(&cell.cell)
                    )?;
                    let errata = book
                        .errata
                        .iter()
                        .filter(|erratum| here(erratum, Some(&cell.cell)));
                    body.extend(errata.map(erratum));
                }
                previous.clone_from(&cell.cell);
                body += &cell_html(cell, outcome);
                body += "</div>\n";
            }
        }
    }
    if open {
        body += "</section>\n";
    }
    for left_out in &finished.left_out {
        writeln!(
            body,
            "<p class=\"dim\">Left out: {}, {} figures: {}</p>",
            escape(left_out.cell),
            left_out.figures,
            escape(left_out.why)
        )?;
    }
    Ok(html::page(program.title, STYLE, &body))
}

/// The index, the notebook before and the one after.
fn neighbours(program: &Program) -> String {
    let place = PROGRAMS
        .iter()
        .position(|other| other.name == program.name)
        .unwrap_or(0);
    let link = |other: Option<&Program>, word: &str| {
        other.map_or(String::new(), |other| {
            format!(
                " · <a href=\"{}\">{word}: {}</a>",
                file_name(other),
                escape(other.name)
            )
        })
    };
    let before = place.checked_sub(1).and_then(|place| PROGRAMS.get(place));
    format!(
        "<nav aria-label=\"Notebooks\"><p><a href=\"index.html\">All notebooks</a>{}{}</p></nav>\n",
        link(before, "before"),
        link(PROGRAMS.get(place + 1), "after")
    )
}

/// Links to what the map names beside this section's cells.
fn documentation(program: &Program, section: &str, book: &Book) -> Result<String> {
    let outline = program.outline()?;
    let in_section = |name: &String| {
        outline.cells().any(|cell| {
            cell.section == section && [&cell.cell, &cell.name, &cell.section].contains(&name)
        })
    };
    // Rows without cells belong to the chapter's section of their number.
    let here = |row: &Row| {
        program.name.starts_with("ch0")
            && !program.name.contains('_')
            && row.section.split(' ').next() == Some(section)
    };
    let rows = book.map.iter().filter(|row| {
        here(row)
            || row
                .cells
                .iter()
                .any(|(of, cell)| of.name == program.name && in_section(cell))
    });
    let mut links: Vec<String> = Vec::new();
    for item in rows.flat_map(|row| &row.items) {
        let link = book.item(item)?;
        if !links.contains(&link) {
            links.push(link);
        }
    }
    Ok(if links.is_empty() {
        String::new()
    } else {
        format!("<p class=\"dim\">Documentation: {}</p>\n", links.join(", "))
    })
}

fn erratum(erratum: &Erratum) -> String {
    let text = |text: &str| {
        let parts = text.split('`').map(escape).enumerate();
        parts
            .map(|(index, part)| {
                if index % 2 == 1 {
                    format!("<code>{part}</code>")
                } else {
                    part
                }
            })
            .collect::<String>()
    };
    let number = &erratum.number;
    let computed = PROGRAMS
        .iter()
        .find(|program| program.name == "errata")
        .and_then(|program| program.outline().ok())
        .is_some_and(|outline| outline.cells().any(|cell| cell.section == *number));
    let name = if computed {
        format!(
            "<a href=\"errata.html#{}\">Erratum {number}</a>",
            anchor('s', &[number])
        )
    } else {
        format!("Erratum {number}")
    };
    format!(
        "<aside class=\"erratum\"><p><strong>{name}</strong> ({}): {}</p><p>Right: {}</p></aside>\n",
        text(&erratum.place),
        text(&erratum.wrong),
        text(&erratum.right)
    )
}

/// The code, the output beside the printed one, and the verdict.
fn cell_html(cell: &Cell, outcome: &Outcome) -> String {
    let code = format!(
        "<pre tabindex=\"0\"><code>{}</code></pre>\n",
        highlight(&cell.code)
    );
    code + &match outcome {
        Outcome::Ran(record) => output(record),
        Outcome::Skipped(why) => format!("<p class=\"dim\">{}</p>\n", escape(why)),
        Outcome::Lost(fault) => format!("<p class=\"fault\">{}</p>\n", escape(fault)),
    }
}

fn output(record: &Record) -> String {
    let block = |name: &str, html: &str| {
        format!("<div><h4>{name}</h4><pre tabindex=\"0\">{html}</pre></div>\n")
    };
    let mut html = String::from("<div class=\"outputs\">\n");
    match &record.printed {
        None => html += &block("computed", &escape(&record.ours)),
        Some(printed) => {
            let mut difference = Difference::of(&record.ours, printed);
            if record.verdict.faults.is_empty() && difference.is_form_alone() {
                difference = Difference::default();
            }
            let [ours, theirs] = difference.html(&record.ours, printed);
            html += &block("computed", &ours);
            html += &block("the document prints", &theirs);
        }
    }
    html += "</div>\n";
    let verdict = &record.verdict;
    let mut about = match record.kind {
        _ if verdict.figures == 0 => String::new(),
        Kind::Printed => "compared".to_owned(),
        Kind::Shown => "compared, by ndarray alone".to_owned(),
        Kind::Own => "compared, not counted as printed".to_owned(),
    };
    if verdict.figures > 0 {
        let figures = if verdict.figures == 1 {
            "figure"
        } else {
            "figures"
        };
        about = format!("{} {figures} {about}", verdict.figures);
    }
    if verdict.difference > 0.0 {
        about += &format!(
            "; the largest difference is {:.1e}, allowed {:.1e}",
            verdict.difference, verdict.allowed
        );
    }
    if let Some(why) = record.why {
        about += &format!("; looser than the printed digits: {why}");
    }
    if !about.is_empty() {
        html += &format!("<p class=\"dim\">{}</p>\n", escape(&about));
    }
    for fault in &verdict.faults {
        html += &format!("<p class=\"fault\">FAIL {}</p>\n", escape(fault));
    }
    html
}
