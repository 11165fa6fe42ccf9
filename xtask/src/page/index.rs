//! The index: every section, listing, picture, exercise and erratum, with a link to where it
//! stands.

use std::fmt::Write;

use anyhow::Result;
use notebooks::{Part, Program, Tier, cells};
use pictures::html;
use pictures::html::escape;

use super::{Book, anchor, file_name, style};
use crate::documents::Row;

/// The whole page; what a page that `exists` not has is named without a link.
///
/// # Errors
/// An item of the map is nowhere.
pub(super) fn page(book: &Book, exists: &dyn Fn(&Program) -> bool) -> Result<String> {
    let link = |program: &Program, id: &str, text: &str| match exists(program) {
        true => format!(
            "<a href=\"{}{id}\">{}</a>",
            file_name(program),
            escape(text)
        ),
        false => escape(text),
    };
    let mut body = String::from(
        "<h1>The book's notebooks, in Rust</h1>\n\
         <p>The notebooks of “Build a Large Language Model (From Scratch)”, chapters 2 to 5, and of the notes on it, as programs: \
         the code of each cell, what it computes beside what the document prints, the digits that differ marked.</p>\n\
         <nav aria-label=\"On this page\"><p><a href=\"#sections\">Sections</a> · <a href=\"#listings\">Listings</a> · \
         <a href=\"#figures\">Figures</a> · <a href=\"#exercises\">Exercises</a> · <a href=\"#errata\">Errata</a></p></nav>\n\
         <h2 id=\"sections\">Sections</h2>\n",
    );
    let mut figures = String::new();
    let notebooks = book.unrun.iter();
    for (program, parts) in notebooks.filter(|(program, _)| program.tier != Tier::Errata) {
        writeln!(body, "<h3>{}</h3>\n<ul>", link(program, "", program.title))?;
        for part in parts {
            match part {
                Part::Section { number, title } => {
                    let place = format!("#{}", anchor('s', &[number]));
                    let name = link(program, &place, &format!("{number} {title}"));
                    writeln!(body, "<li>{name}</li>")?;
                }
                Part::Picture { name, .. } => {
                    let place = format!("#{}", anchor('p', &[name]));
                    let (name, title) = (link(program, &place, name), escape(program.title));
                    writeln!(figures, "<li>{name} ({title})</li>")?;
                }
                _ => {}
            }
        }
        body += "</ul>\n";
    }
    let cell_links = |row: &Row| {
        let links = row.cells.iter().map(|(program, name)| {
            let mut all = book.unrun.iter();
            let parts = all.find(|(other, _)| other.name == program.name);
            let cell = parts.and_then(|(_, parts)| cells(parts).find(|cell| cell.is_called(name)));
            let place = cell.map(|cell| format!("#{}", anchor('c', &[&cell.section, &cell.name])));
            let text = format!("{} {name}", program.name);
            link(program, &place.unwrap_or_default(), &text)
        });
        links.collect::<Vec<_>>().join(", ")
    };
    let mut table = |title: &str, name: &dyn Fn(&Row) -> Option<String>| -> Result<()> {
        let id = title.to_lowercase();
        writeln!(
            body,
            "<h2 id=\"{id}\">{title}</h2>\n<div class=\"table\"><table>\n<tr><th scope=\"col\">{title}</th><th scope=\"col\">Rust</th><th scope=\"col\">cells</th></tr>"
        )?;
        for row in &book.map {
            let Some(name) = name(row) else { continue };
            let items: Result<Vec<_>> = row.items.iter().map(|item| book.item(item)).collect();
            let (name, items, cells) = (escape(&name), items?.join(", "), cell_links(row));
            writeln!(
                body,
                "<tr><th scope=\"row\">{name}</th><td>{items}</td><td>{cells}</td></tr>"
            )?;
        }
        body += "</table></div>\n";
        Ok(())
    };
    table("Listings", &|row| {
        (!row.listing.is_empty()).then(|| format!("{} ({})", row.listing, row.section))
    })?;
    let starts = ["exercise", "concept question", "optional", "In ["];
    table("Exercises", &|row| {
        let mut starts = starts.iter();
        let is_exercise = starts.any(|start| row.section.starts_with(start));
        is_exercise.then(|| row.section.replace('`', ""))
    })?;
    writeln!(
        body,
        "<h2 id=\"figures\">Figures</h2>\n<ul>\n{figures}</ul>"
    )?;
    body += "<h2 id=\"errata\">Errata</h2>\n<p class=\"dim\">Where a document is wrong; those that compute run beside the right code.</p>\n<ul>\n";
    for erratum in &book.errata {
        let number = &erratum.number;
        let name = match (book.computes(number), erratum.places().next()) {
            (Some(place), _) => format!("<a href=\"{place}\">{number}</a>"),
            (None, Some((program, _))) => link(program, "#errata", number),
            (None, None) => number.clone(),
        };
        let [wrong, place] =
            [&erratum.wrong, &erratum.place].map(|it| escape(&it.replace('`', "")));
        writeln!(body, "<li>{name}: {wrong} ({place})</li>")?;
    }
    body += "</ul>\n<p class=\"dim\">Links to documentation lead to <code>target/doc</code>, which <code>cargo docs</code> makes.</p>\n";
    Ok(html::page("The book's notebooks, in Rust", &style(), &body))
}
