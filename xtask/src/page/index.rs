//! The index: every section, listing, picture, exercise and erratum, with a link to where it
//! stands.

use notebooks::{Part, Program, Tier, cells};
use pictures::html;
use pictures::html::escape;

use super::{Book, anchor, file_name, style};
use crate::documents::Row;

/// The whole page; what a page that `exists` not has is named without a link.
pub(super) fn page(book: &Book, exists: &dyn Fn(&Program) -> bool) -> String {
    let link = |program: &Program, id: &str, text: &str| match exists(program) {
        true => format!(
            "<a href=\"{}{id}\">{}</a>",
            file_name(program),
            escape(text)
        ),
        false => escape(text),
    };
    let (mut sections, mut figures) = (String::new(), String::new());
    let notebooks = book.unrun.iter();
    for (program, parts) in notebooks.filter(|(program, _)| program.tier != Tier::Errata) {
        let title = link(program, "", program.title);
        sections += &format!("<h3>{title}</h3>\n<ul>\n");
        for part in parts {
            match part {
                Part::Section { number, title } => {
                    let place = format!("#{}", anchor('s', &[number]));
                    let name = link(program, &place, &format!("{number} {title}"));
                    sections += &format!("<li>{name}</li>\n");
                }
                Part::Picture { name, .. } => {
                    let place = format!("#{}", anchor('p', &[name]));
                    let (name, title) = (link(program, &place, name), escape(program.title));
                    figures += &format!("<li>{name} ({title})</li>\n");
                }
                _ => {}
            }
        }
        sections += "</ul>\n";
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
    let table = |name: &dyn Fn(&Row) -> Option<String>| -> String {
        let rows = book.map.iter().filter_map(|row| {
            let name = escape(&name(row)?.replace('`', ""));
            let items: Vec<String> = row.items.iter().map(|item| book.item(item)).collect();
            let (items, cells) = (items.join(", "), cell_links(row));
            Some(format!(
                "<tr><th scope=\"row\">{name}</th><td>{items}</td><td>{cells}</td></tr>\n"
            ))
        });
        rows.collect()
    };
    let listings = table(&|row| {
        (!row.listing.is_empty()).then(|| format!("{} ({})", row.listing, row.section))
    });
    let starts = ["exercise", "concept question", "optional", "In ["];
    let exercises = table(&|row| {
        let mut starts = starts.iter();
        let is_exercise = starts.any(|start| row.section.starts_with(start));
        is_exercise.then(|| row.section.clone())
    });
    let mut errata = String::new();
    for erratum in &book.errata {
        let number = &erratum.number;
        let name = match (book.computes(number), erratum.places().next()) {
            (Some(place), _) => format!("<a href=\"{place}\">{number}</a>"),
            (None, Some((program, _))) => link(program, "#errata", number),
            (None, None) => number.clone(),
        };
        let [wrong, place] =
            [&erratum.wrong, &erratum.place].map(|it| escape(&it.replace('`', "")));
        errata += &format!("<li>{name}: {wrong} ({place})</li>\n");
    }
    let lists = [&sections, &listings, &exercises, &figures, &errata].map(String::as_str);
    let names = ["sections", "listings", "exercises", "figures", "errata"];
    let values: Vec<(&str, &str)> = names.into_iter().zip(lists).collect();
    let body = html::filled(include_str!("index.html"), &values);
    html::page("The book's notebooks, in Rust", &style(), &body)
}
