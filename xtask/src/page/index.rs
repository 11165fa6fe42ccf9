//! The index: every section, listing, picture, exercise and erratum, with a link to where it stands.

use std::fmt::Write;

use anyhow::Result;
use notebooks::{Item, PROGRAMS, Program, Tier};
use pictures::html;
use pictures::html::escape;

use super::documents::Row;
use super::{Book, STYLE, anchor, file_name};

/// The whole page; what a page that `exists` not has is named without a link.
///
/// # Errors
/// An outline can't be read, or an item of the map is nowhere.
pub(super) fn page(book: &Book, exists: &dyn Fn(&Program) -> bool) -> Result<String> {
    let link = |program: &Program, id: &str, text: &str| {
        if exists(program) {
            format!(
                "<a href=\"{}{id}\">{}</a>",
                file_name(program),
                escape(text)
            )
        } else {
            escape(text)
        }
    };
    let mut body = String::from(
        "<h1>The book's notebooks, in Rust</h1>\n\
         <p>The notebooks of “Build a Large Language Model (From Scratch)”, chapters 2 to 5, and of the notes on it, as programs: \
         the code of each cell, what it computes beside what the document prints, the digits that differ marked.</p>\n\
         <nav aria-label=\"On this page\"><p><a href=\"#sections\">Sections</a> · <a href=\"#listings\">Listings</a> · \
         <a href=\"#figures\">Figures</a> · <a href=\"#exercises\">Exercises</a> · <a href=\"#errata\">Errata</a></p></nav>\n",
    );
    let mut figures = String::new();
    body += "<h2 id=\"sections\">Sections</h2>\n";
    for program in PROGRAMS
        .iter()
        .filter(|program| program.tier != Tier::Errata)
    {
        writeln!(body, "<h3>{}</h3>\n<ul>", link(program, "", program.title))?;
        for part in program.outline()?.items {
            match part {
                Item::Section { number, title } => {
                    let name = format!("{number} {title}");
                    writeln!(
                        body,
                        "<li>{}</li>",
                        link(program, &format!("#{}", anchor('s', &[&number])), &name)
                    )?;
                }
                Item::Picture { name, .. } => {
                    let place = format!("#{}", anchor('p', &[&name]));
                    writeln!(
                        figures,
                        "<li>{} ({})</li>",
                        link(program, &place, &name),
                        program.name
                    )?;
                }
                _ => {}
            }
        }
        body += "</ul>\n";
    }
    let cells = |row: &Row| {
        let cells = row.cells.iter().map(|(program, name)| {
            let outline = program.outline().unwrap_or_default();
            let cell = outline
                .cells()
                .find(|cell| [&cell.cell, &cell.name, &cell.section].contains(&name));
            let place = cell.map(|cell| format!("#{}", anchor('c', &[&cell.section, &cell.name])));
            link(
                program,
                &place.unwrap_or_default(),
                &format!("{} {name}", program.name),
            )
        });
        cells.collect::<Vec<_>>().join(", ")
    };
    let mut table = |id: &str, title: &str, rows: Vec<(String, &Row)>| -> Result<()> {
        writeln!(
            body,
            "<h2 id=\"{id}\">{title}</h2>\n<div class=\"table\"><table>\n<tr><th scope=\"col\">{title}</th><th scope=\"col\">Rust</th><th scope=\"col\">cells</th></tr>"
        )?;
        for (name, row) in rows {
            let items = row
                .items
                .iter()
                .map(|item| book.item(item))
                .collect::<Result<Vec<_>>>()?;
            writeln!(
                body,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
                escape(&name),
                items.join(", "),
                cells(row)
            )?;
        }
        body += "</table></div>\n";
        Ok(())
    };
    let listings = book.map.iter().filter(|row| !row.listing.is_empty());
    table(
        "listings",
        "Listings",
        listings
            .map(|row| (format!("{} ({})", row.listing, row.section), row))
            .collect(),
    )?;
    let is_exercise = |row: &&Row| {
        ["exercise", "concept question", "optional", "In ["]
            .iter()
            .any(|start| row.section.starts_with(start))
    };
    let exercises = book.map.iter().filter(is_exercise);
    table(
        "exercises",
        "Exercises",
        exercises
            .map(|row| (row.section.replace('`', ""), row))
            .collect(),
    )?;
    writeln!(
        body,
        "<h2 id=\"figures\">Figures</h2>\n<ul>\n{figures}</ul>"
    )?;
    body += "<h2 id=\"errata\">Errata</h2>\n<p class=\"dim\">Where a document is wrong; those that compute run beside the right code.</p>\n<ul>\n";
    let computed = PROGRAMS.iter().find(|program| program.tier == Tier::Errata);
    for erratum in &book.errata {
        let at_home = computed.filter(|program| {
            program
                .outline()
                .is_ok_and(|outline| outline.cells().any(|cell| cell.section == erratum.number))
        });
        let name = match at_home {
            Some(program) => link(
                program,
                &format!("#{}", anchor('s', &[&erratum.number])),
                &erratum.number,
            ),
            None => erratum
                .places
                .iter()
                .find_map(|(name, _)| PROGRAMS.iter().find(|program| program.name == *name))
                .map_or(erratum.number.clone(), |program| {
                    link(program, "#errata", &erratum.number)
                }),
        };
        writeln!(
            body,
            "<li>{name}: {} ({})</li>",
            escape(&erratum.wrong.replace('`', "")),
            escape(&erratum.place.replace('`', ""))
        )?;
    }
    body += "</ul>\n<p class=\"dim\">Links to documentation lead to <code>target/doc</code>, which <code>cargo docs</code> makes.</p>\n";
    Ok(html::page("The book's notebooks, in Rust", STYLE, &body))
}
