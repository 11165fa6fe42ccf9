//! The page of one notebook: sections, listings, cells with their outputs, pictures and errata, in
//! order.

use std::fmt::Write;

use anyhow::Result;
use notebooks::{
    Cell, Kind, LeftOut, Outcome, PROGRAMS, Part, Program, Record, Tier, cells, tokens,
};
use pictures::html;
use pictures::html::escape;

use super::{Book, STORY_ON, anchor, file_name, live, style};
use crate::digits::Difference;
use crate::documents::{Erratum, Row};
use crate::workspace::listing;

/// The whole page of a notebook with these parts, run or not.
///
/// # Errors
/// A listing's file can't be read.
pub(super) fn page(program: &Program, parts: &[Part], book: &Book) -> Result<String> {
    let sections: Vec<(&str, &str)> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Section { number, title } => Some((number.as_str(), title.as_str())),
            _ => None,
        })
        .collect();
    let errata_of_all = errata_without_place(program, parts, book);
    let has_story = book.live && program.name == STORY_ON;
    let mut body = contents(program, &sections, has_story, !errata_of_all.is_empty());
    write!(
        body,
        "<div>\n<h1>{}</h1>\n<p class=\"dim\">Each output is what the Rust code above it computes, \
         written as PyTorch writes it.</p>\n",
        escape(program.title)
    )?;
    let (mut place, mut previous, mut file) = (0, "", "");
    for part in parts {
        if !matches!(part, Part::Listing { .. }) {
            file = "";
        }
        match part {
            Part::Section { number, title } => {
                if place > 0 {
                    body += &end_of_section(program, &sections, place - 1);
                }
                place += 1;
                previous = "";
                let id = anchor('s', &[number]);
                writeln!(
                    body,
                    "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{} {}</h2>",
                    escape(number),
                    escape(title)
                )?;
                body += &documentation(program, number, parts, book)?;
                body += &errata(program, number, book);
            }
            Part::Listing { path, start } => {
                let (line, item) = listing(path, start)?;
                // Items of one file stand together.
                if file != path.as_str() {
                    let id = anchor('l', &[path, start]);
                    writeln!(
                        body,
                        "<h3 id=\"{id}\">Listing {}</h3>",
                        book.source(path, line)
                    )?;
                }
                file = path;
                body += &code(&item);
            }
            Part::Picture {
                name,
                line,
                code: drawing,
                picture,
            } => {
                let id = anchor('p', &[name]);
                let link = book.source(program.path, *line as usize);
                writeln!(body, "<h3 id=\"{id}\">{} {link}</h3>", escape(name))?;
                writeln!(body, "<div data-line=\"{line}\">")?;
                body += &match picture {
                    Some(picture) => html::figure(picture),
                    None => "<p class=\"dim\">not drawn: its cells were not run</p>\n".to_owned(),
                };
                body += "</div>\n";
                body += &folded("How it is drawn", &code(drawing));
            }
            Part::Cell(cell) => {
                let id = anchor('c', &[&cell.section, &cell.name]);
                writeln!(body, "<div id=\"{id}\" data-line=\"{}\">", cell.line)?;
                if previous != cell.cell {
                    let link = book.source(program.path, cell.line as usize);
                    writeln!(body, "<h3>{} {link}</h3>", escape(&cell.cell))?;
                    body += &errata(program, &cell.cell, book);
                }
                previous = &cell.cell;
                body += &cell_html(cell);
                body += "</div>\n";
            }
            Part::LeftOut(LeftOut {
                cell, figures, why, ..
            }) => writeln!(
                body,
                "<p class=\"dim\">{}: {figures} figures left out: {}</p>",
                escape(cell),
                escape(why)
            )?,
        }
    }
    if place > 0 {
        body += &end_of_section(program, &sections, place - 1);
    }
    if !errata_of_all.is_empty() {
        body += &format!("<h2 id=\"errata\">Errata of the document</h2>\n{errata_of_all}");
    }
    let mut script = String::new();
    if has_story {
        body += &story();
        script += "<script src=\"story.js\"></script>\n";
    }
    body += "</div>\n";
    if book.live && cells(parts).any(|cell| !cell.inputs.is_empty()) {
        script += "<script src=\"live.js\"></script>\n";
    }
    let name = program.name;
    let body = format!("<div class=\"book\" data-notebook=\"{name}\">\n{body}</div>\n{script}");
    Ok(html::page(program.title, &style(), &body))
}

/// Where the view of the story's model stands.
fn story() -> String {
    format!(
        "<section aria-labelledby=\"story\">\n<h2 id=\"story\">A trained model, live</h2>\n\
         <p>What training makes of a small model: <code>gpt train</code> has made this one, with \
         two blocks of four heads, from its own story, \"The Answering Bell\", and it computes \
         here. It knows that story by heart and little else. Type a text, let it write on, and see what \
         temperature and top-k (section 5.3) do to what it draws.</p>\n\
         <div id=\"model\" data-text=\"{}\"></div>\n</section>\n",
        live::STORY
    )
}

/// The list that stays in sight: the index, the notebooks before and after, and the sections.
fn contents(program: &Program, sections: &[(&str, &str)], story: bool, errata: bool) -> String {
    let place = PROGRAMS.iter().position(|it| it.name == program.name);
    let place = place.unwrap_or(0);
    let mut list =
        "<nav aria-label=\"Contents\"><ol>\n<li><a href=\"index.html\">All notebooks</a></li>\n"
            .to_owned();
    let mut item = |link: &str, text: String| {
        list += &format!("<li><a href=\"{link}\">{}</a></li>\n", escape(&text));
    };
    let mut neighbour = |other: Option<&Program>, arrow: &str| {
        if let Some(other) = other {
            item(&file_name(other), format!("{arrow} {}", other.title));
        }
    };
    neighbour(
        place.checked_sub(1).and_then(|place| PROGRAMS.get(place)),
        "←",
    );
    neighbour(PROGRAMS.get(place + 1), "→");
    for (number, title) in sections {
        item(
            &format!("#{}", anchor('s', &[number])),
            format!("{number} {title}"),
        );
    }
    if story {
        item("#story", "A trained model, live".to_owned());
    }
    if errata {
        item("#errata", "Errata of the document".to_owned());
    }
    list + "</ol></nav>\n"
}

/// The link to the next section, and to sections between that are a notebook of their own.
fn end_of_section(program: &Program, sections: &[(&str, &str)], place: usize) -> String {
    let mut links = String::new();
    let mut link = |href: &str, name: &str| {
        let name = escape(name);
        links += &format!("<p class=\"next\"><a href=\"{href}\">Next: {name}</a></p>\n");
    };
    let (here, next) = (sections[place].0, sections.get(place + 1));
    let long = PROGRAMS
        .iter()
        .filter(|it| it.tier == Tier::Long && it.name != program.name);
    for (long, part) in long.flat_map(|it| it.unrun("").into_iter().map(move |part| (it, part))) {
        // Their numbers have one digit each, so that texts have their order.
        if let Part::Section { number, title } = part
            && number.as_str() > here
            && next.is_some_and(|(next, _)| number.as_str() < *next)
        {
            let href = format!("{}#{}", file_name(long), anchor('s', &[&number]));
            link(&href, &format!("{number} {title}, a page of its own"));
        }
    }
    let mut others = PROGRAMS.iter().skip_while(|it| it.name != program.name);
    if let Some((number, title)) = next {
        link(
            &format!("#{}", anchor('s', &[number])),
            &format!("{number} {title}"),
        );
    } else if let Some(next) = others.nth(1) {
        link(&file_name(next), next.title);
    }
    links + "</section>\n"
}

/// Links to what the map names beside this section's cells.
fn documentation(program: &Program, section: &str, parts: &[Part], book: &Book) -> Result<String> {
    let is_chapter = program.name.starts_with("ch0") && !program.name.contains('_');
    let in_section = |name: &str| {
        let mut cells = cells(parts).filter(|cell| cell.section == section);
        cells.any(|cell| cell.is_called(name))
    };
    // Rows without cells belong to the chapter's section of their number.
    let here = |row: &&Row| {
        let of_chapter = is_chapter && row.section.split(' ').next() == Some(section);
        let mut cells = row.cells.iter();
        of_chapter || cells.any(|(of, cell)| of.name == program.name && in_section(cell))
    };
    let mut links: Vec<String> = Vec::new();
    for item in book.map.iter().filter(here).flat_map(|row| &row.items) {
        let link = book.item(item)?;
        if !links.contains(&link) {
            links.push(link);
        }
    }
    Ok(if links.is_empty() {
        String::new()
    } else {
        format!(
            "<p class=\"dim\">Documentation, after <code>cargo docs</code>: {}</p>\n",
            links.join(", ")
        )
    })
}

/// The errata of this document's cell or section.
fn errata(program: &Program, name: &str, book: &Book) -> String {
    errata_at(program, book, |at| at == Some(name))
}

/// Those of this document that stand at none of its cells and sections.
fn errata_without_place(program: &Program, parts: &[Part], book: &Book) -> String {
    let named = |name: &str| cells(parts).any(|cell| cell.cell == name || cell.section == name);
    errata_at(program, book, |at| !at.is_some_and(named))
}

fn errata_at(program: &Program, book: &Book, is_here: impl Fn(Option<&str>) -> bool) -> String {
    let here = |erratum: &&Erratum| {
        let mut places = erratum.places.iter();
        places.any(|(of, at)| *of == program.name && is_here(at.as_deref()))
    };
    let errata = book.errata.iter().filter(here);
    errata.map(|it| erratum(it, book)).collect()
}

fn erratum(erratum: &Erratum, book: &Book) -> String {
    let text = |text: &str| {
        let parts = text.split('`').map(escape).enumerate();
        let parts = parts.map(|(index, part)| match index % 2 {
            1 => format!("<code>{part}</code>"),
            _ => part,
        });
        parts.collect::<String>()
    };
    let number = &erratum.number;
    let name = match book.computes(number) {
        Some(link) => format!("<a href=\"{link}\">Erratum {number}</a>"),
        None => format!("Erratum {number}"),
    };
    format!(
        "<aside class=\"erratum\"><p><strong>{name}</strong> ({}): {}</p><p>Right: {}</p></aside>\n",
        text(&erratum.place),
        text(&erratum.wrong),
        text(&erratum.right)
    )
}

/// What it shows and why, the code, the output beside the printed one, and the verdict.
fn cell_html(cell: &Cell) -> String {
    let about = match cell.about.as_str() {
        "" => String::new(),
        about => format!("<p>{}</p>\n", escape(about)),
    };
    let output = match &cell.outcome {
        Outcome::Ran(record) => output(record),
        Outcome::Skipped(why) => format!("<p class=\"dim\">{}</p>\n", escape(why)),
        Outcome::Lost(fault) => format!("<p class=\"fault\">{}</p>\n", escape(fault)),
    };
    format!(
        "{about}{}<div class=\"result\">{output}</div>\n",
        code(&cell.code)
    )
}

/// Rust in colours.
fn code(code: &str) -> String {
    let mut html = "<pre tabindex=\"0\"><code>".to_owned();
    for (at, kind) in tokens(code) {
        let text = escape(&code[at]);
        html += &match kind {
            "" => text,
            kind => format!("<span class=\"{kind}\">{text}</span>"),
        };
    }
    html + "</code></pre>\n"
}

fn folded(summary: &str, html: &str) -> String {
    format!("<details><summary>{summary}</summary>{html}</details>\n")
}

/// Both outputs where a digit differs; else one, with the document's form of it folded away.
fn output(record: &Record) -> String {
    let pre = |html: &str| format!("<pre tabindex=\"0\">{html}</pre>\n");
    let mut html = "<div class=\"outputs\">\n".to_owned();
    let verdict = &record.verdict;
    match &record.printed {
        None => html += &pre(&escape(&record.ours)),
        Some(printed) => {
            let difference = Difference::of(&record.ours, printed);
            let is_form = difference == Difference::Form && verdict.faults.is_empty();
            if difference == Difference::None || is_form {
                html += &pre(&escape(&record.ours));
                if record.ours.trim() != printed.trim() {
                    html += &folded("as the document prints it", &pre(&escape(printed)));
                }
            } else {
                let [ours, theirs] = difference.html(&record.ours, printed);
                html += &format!("<div><h4>computed</h4>{}</div>\n", pre(&ours));
                html += &format!("<div><h4>the document prints</h4>{}</div>\n", pre(&theirs));
            }
        }
    }
    html += "</div>\n";
    let about = about_comparison(record);
    if !about.is_empty() {
        html += &format!("<p class=\"dim\">{}</p>\n", escape(&about));
    }
    for fault in &verdict.faults {
        html += &format!("<p class=\"fault\">FAIL {}</p>\n", escape(fault));
    }
    html
}

/// How many values were compared with what, and how near they are.
fn about_comparison(record: &Record) -> String {
    let verdict = &record.verdict;
    if verdict.figures == 0 {
        return String::new();
    }
    let values = match verdict.figures {
        1 => "value is".to_owned(),
        count => format!("{count} values are"),
    };
    let mut about = match record.kind {
        Kind::Printed => format!("{values} compared with the document's"),
        Kind::Shown => {
            format!("{values} compared with the document's; ndarray alone computes this")
        }
        Kind::Changed => return String::new(),
        Kind::Own => {
            format!("{values} compared, and not counted, as the document doesn't print this here")
        }
    };
    if verdict.difference > 0.0 {
        about += &format!(
            "; the furthest is {:.1e} off, and its digits allow {:.1e}",
            verdict.difference, verdict.allowed
        );
    }
    if let Some(why) = record.why {
        about += &format!("; looser than the printed digits: {why}");
    }
    about
}
