//! Writes the index page. It contains links to all sections and figures, the map from the book's
//! sections, listings and exercises to Rust items and notebook cells, and the errata.

use notebooks::{Part, Program, Tier, cells};
use pictures::html;
use pictures::html::escape;

use super::notebook::{has_cells, heading};
use super::{Book, MODEL_PAGE, TRAINING_PAGE, anchor, file_name, glossary, overview, style};
use crate::documents::NamedCell;

/// Returns the HTML of the index page. A reference to a notebook without a page doesn't become a
/// link.
pub(super) fn page(book: &Book) -> String {
    let link = |program: &Program, id: &str, text: &str| match book.has_page(program) {
        true => format!(
            "<a href=\"{}{id}\">{}</a>",
            file_name(program),
            escape(text)
        ),
        false => escape(text),
    };
    let mut sections = String::new();
    let notebooks = book.unrun.iter();
    for (program, parts) in notebooks.filter(|(program, _)| program.tier != Tier::Errata) {
        let title = link(program, "", program.title);
        sections += &format!("<h3>{title}</h3>\n<ul>\n");
        for part in parts {
            let (kind, place, name) = match part {
                Part::Section { number, title } if has_cells(parts, number) => {
                    ('s', number, heading(number, title))
                }
                Part::Figure { name, line, .. } => {
                    let number = book.figure(program, *line);
                    ('p', name, format!("Figure {number}: {name}"))
                }
                _ => continue,
            };
            let place = format!("#{}", anchor(kind, &[place]));
            let class = if kind == 'p' { " class=\"dim\"" } else { "" };
            sections += &format!("<li{class}>{}</li>\n", link(program, &place, &name));
        }
        sections += "</ul>\n";
    }
    let cell_link = |(program, name): &NamedCell| {
        let mut all = book.unrun.iter();
        let parts = all.find(|(other, _)| other.name == program.name);
        let cell = parts.and_then(|(_, parts)| cells(parts).find(|cell| cell.is_called(name)));
        let place = cell.map(|cell| format!("#{}", anchor('c', &[&cell.section, &cell.name])));
        let text = format!("{} {name}", program.name);
        link(program, &place.unwrap_or_default(), &text)
    };
    let mut rows = String::new();
    for row in &book.map {
        let [section, listing] =
            [&row.section, &row.listing].map(|text| escape(&text.replace('`', "")));
        let items: Vec<String> = row.items.iter().map(|item| book.item(item)).collect();
        let cells: Vec<String> = row.cells.iter().map(cell_link).collect();
        let (items, cells) = (items.join(", "), cells.join(", "));
        rows += &format!(
            "<tr><th scope=\"row\">{section}</th><td>{listing}</td><td>{items}</td><td>{cells}</td></tr>\n"
        );
    }
    let mut errata = String::new();
    for erratum in &book.errata {
        let number = &erratum.number;
        let name = match book.computes(number) {
            Some(place) => format!("<a href=\"{place}\">{number}</a>"),
            None => number.clone(),
        };
        let [wrong, place] =
            [&erratum.wrong, &erratum.place].map(|it| escape(&it.replace('`', "")));
        errata += &format!("<li>{name}: {wrong} ({place})</li>\n");
    }
    let mut first = String::new();
    let is_here = |name: &str| book.pages.contains(&name);
    for (page, place, name, about) in [
        (
            MODEL_PAGE,
            "story",
            "A trained model, live",
            "a small model continues your text and shows its attention weights",
        ),
        (
            TRAINING_PAGE,
            "train",
            "Train one here",
            "an even smaller model is trained on the page",
        ),
    ] {
        if book.live && is_here(page) {
            first += &format!("<li><a href=\"{page}.html#{place}\">{name}</a>: {about}</li>\n");
        }
    }
    let first = format!(
        "<ul class=\"first\">\n{first}\
         <li><a href=\"{}docs/practice.md\">Practice</a>: write the book's functions yourself and have them checked (<code>cargo xtask practice</code>)</li>\n\
         <li><a href=\"{}\">Glossary</a>: the terms of chapters 2 to 5</li>\n</ul>\n",
        book.to_root,
        glossary::FILE
    );
    let overview = overview::figure(book);
    let values = [
        ("first", &*first),
        ("overview", &overview),
        ("sections", &sections),
        ("rows", &rows),
        ("errata", &errata),
    ];
    let body = html::filled(include_str!("index.html"), &values);
    html::page("The book's notebooks, in Rust", &style(), &body)
}
