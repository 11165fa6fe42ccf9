//! The page of one notebook: sections, listings, cells with their outputs, pictures and errata, in
//! order.

use std::fmt::Write;

use anyhow::Result;
use notebooks::{
    Cell, HOW_TO_GIVE_TEXT, Kind, LeftOut, NEEDS_TEXT, Outcome, PROGRAMS, Part, Program, Record,
    Tier, Verdict, cells, inputs, numbers, tokens,
};
use pictures::html;
use pictures::html::escape;

use super::{Book, STORY_ON, anchor, file_name, live, style};
use crate::digits::{differences, marked};
use crate::documents::{Erratum, Row};
use crate::workspace::listing;

/// The whole page of a notebook with these parts, run or not.
///
/// # Errors
/// A listing's file can't be read.
pub(super) fn page(program: &Program, parts: &[Part], book: &Book) -> Result<String> {
    let is_named = |name: &str| cells(parts).any(|cell| cell.cell == name || cell.section == name);
    let errata_of_all = errata(program, book, |at| !is_named(at));
    let has_story = book.live && program.name == STORY_ON;
    let mut links = sections(program, parts, book);
    links.extend(has_story.then(|| ("#story".to_owned(), "A trained model, live".to_owned())));
    if !errata_of_all.is_empty() {
        links.push(("#errata".to_owned(), "Errata of the document".to_owned()));
    }
    let place = PROGRAMS
        .iter()
        .position(|it| it.name == program.name)
        .unwrap_or(0);
    if program.tier == Tier::Long {
        links.extend(back_to_chapter(program, parts, book));
    }
    if let Some(next) = PROGRAMS.get(place + 1) {
        links.push((file_name(next), next.title.to_owned()));
    }
    let mut body = contents(place.checked_sub(1).map(|place| &PROGRAMS[place]), &links);
    write!(
        body,
        "<div>\n<h1>{}</h1>\n<p class=\"dim\">Each output is what the Rust code above it computes, \
         written as PyTorch writes it.</p>\n",
        escape(program.title)
    )?;
    let needs_text =
        |cell: &Cell| matches!(&cell.outcome, Outcome::Skipped(why) if why == NEEDS_TEXT);
    if cells(parts).any(needs_text) {
        writeln!(
            body,
            "<p class=\"dim\">Some cells were not run, as they need the book's text: {HOW_TO_GIVE_TEXT}.</p>"
        )?;
    }
    body += &folded("What the cells use", &code(imports(program.source)));
    let (mut section, mut previous, mut file) = (None, "", "");
    for part in parts {
        if !matches!(part, Part::Listing { .. }) {
            file = "";
        }
        match part {
            Part::Section { number, title } => {
                let id = anchor('s', &[number]);
                if let Some(before) = section.replace(id.clone()) {
                    body += &end_of_section(&before, &links);
                }
                previous = "";
                let heading = escape(&format!("{number} {title}"));
                writeln!(
                    body,
                    "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{heading}</h2>"
                )?;
                body += &documentation(program, number, parts, book)?;
                body += &errata(program, book, |at| at == number);
            }
            Part::Listing { path, start } => {
                let (line, item) = listing(path, start)?;
                // Items of one file stand together.
                if file != path.as_str() {
                    let (id, link) = (anchor('l', &[path, start]), book.source(path, line));
                    writeln!(body, "<h3 id=\"{id}\">Listing {link}</h3>")?;
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
                let figure = match picture {
                    Some(picture) => html::figure(picture),
                    None => "<p class=\"dim\">not drawn: its cells were not run</p>\n".to_owned(),
                };
                writeln!(body, "<div data-line=\"{line}\">\n{figure}</div>")?;
                body += &folded("How it is drawn", &code(drawing));
            }
            Part::Cell(cell) => {
                let id = anchor('c', &[&cell.section, &cell.name]);
                writeln!(body, "<div id=\"{id}\" data-line=\"{}\">", cell.line)?;
                if previous != cell.cell {
                    let link = book.source(program.path, cell.line as usize);
                    writeln!(body, "<h3>{} {link}</h3>", escape(&cell.cell))?;
                    body += &errata(program, book, |at| at == cell.cell);
                }
                previous = &cell.cell;
                body += &cell_html(cell);
                body += "</div>\n";
            }
            Part::LeftOut(LeftOut {
                cell, figures, why, ..
            }) => {
                let why = escape(&format!("{cell}: {figures} figures left out: {why}"));
                writeln!(body, "<p class=\"dim\">{why}</p>")?;
            }
        }
    }
    if let Some(last) = section {
        body += &end_of_section(&last, &links);
    }
    let mut script = String::new();
    if has_story {
        // Where the view of its model stands.
        body += &html::filled(include_str!("story.html"), &[("text", live::STORY)]);
        body += &end_of_section("story", &links);
        script += "<script src=\"story.js\"></script>\n";
    }
    if !errata_of_all.is_empty() {
        let heading =
            "<section aria-labelledby=\"errata\">\n<h2 id=\"errata\">Errata of the document</h2>\n";
        body += &(heading.to_owned() + &errata_of_all + &end_of_section("errata", &links));
    }
    body += "</div>\n";
    let runs = |(cell, _): (&Cell, _)| !matches!(cell.outcome, Outcome::Skipped(_));
    if book.live && inputs(parts).any(runs) {
        // What the script replaces, once it is loaded.
        body += "<p class=\"live-bar\" role=\"status\">Loading what computes this page …</p>\n";
        script += "<script src=\"live.js\"></script>\n";
    }
    let name = program.name;
    let body = format!("<div class=\"book\" data-notebook=\"{name}\">\n{body}</div>\n{script}");
    Ok(html::page(program.title, &style(), &body))
}

/// A place and its name.
type Link = (String, String);

/// The sections, and between them those of the same chapter that have a page of their own.
fn sections(program: &Program, parts: &[Part], book: &Book) -> Vec<Link> {
    let mut sections: Vec<(Option<Vec<u32>>, Link)> = headings(parts)
        .map(|(number, title)| {
            let place = format!("#{}", anchor('s', &[number]));
            (numbered(number), (place, format!("{number} {title}")))
        })
        .collect();
    let is_here = |sections: &[(Option<Vec<u32>>, Link)], is: &dyn Fn(&[u32]) -> bool| {
        let mut numbers = sections.iter().map(|(number, _)| number.as_deref());
        numbers.position(|number| number.is_some_and(is))
    };
    let mut others = book.unrun.iter();
    let others = others
        .by_ref()
        .filter(|(it, _)| it.tier == Tier::Long && it.name != program.name);
    for (other, (number, title)) in
        others.flat_map(|(it, parts)| headings(parts).map(move |heading| (it, heading)))
    {
        let Some(numbers) = numbered(number) else {
            continue;
        };
        let is_of_chapter = is_here(&sections, &|here| here[0] == numbers[0]).is_some();
        if !is_of_chapter || is_here(&sections, &|here| here == numbers).is_some() {
            continue;
        }
        let before = is_here(&sections, &|here| here > numbers.as_slice());
        let before = before.or_else(|| sections.iter().position(|(number, _)| number.is_none()));
        let place = format!("{}#{}", file_name(other), anchor('s', &[number]));
        let name = format!("{number} {title}, a page of its own");
        sections.insert(
            before.unwrap_or(sections.len()),
            (Some(numbers), (place, name)),
        );
    }
    sections.into_iter().map(|(_, link)| link).collect()
}

/// The numbers of a section, `[5, 3, 1]`; appendices and files have none.
fn numbered(section: &str) -> Option<Vec<u32>> {
    section.split('.').map(|part| part.parse().ok()).collect()
}

/// The section of another page that follows the last one of a page of its own.
fn back_to_chapter(program: &Program, parts: &[Part], book: &Book) -> Option<Link> {
    let last = headings(parts)
        .filter_map(|(number, _)| numbered(number))
        .max()?;
    let chapters = book
        .unrun
        .iter()
        .filter(|(it, _)| it.tier == Tier::Everyday && it.name != program.name);
    let mut next =
        chapters.flat_map(|(it, parts)| headings(parts).map(move |heading| (it, heading)));
    next.find_map(|(it, (number, title))| {
        let follows = numbered(number).is_some_and(|it| it[0] == last[0] && it > last);
        let place = format!("{}#{}", file_name(it), anchor('s', &[number]));
        follows.then(|| (place, format!("{number} {title}")))
    })
}

fn headings(parts: &[Part]) -> impl Iterator<Item = (&str, &str)> {
    parts.iter().filter_map(|part| match part {
        Part::Section { number, title } => Some((number.as_str(), title.as_str())),
        _ => None,
    })
}

/// The list that stays in sight: the index, the notebook before, and what is here and behind it.
fn contents(before: Option<&Program>, links: &[Link]) -> String {
    let index = ("index.html".to_owned(), "All notebooks".to_owned());
    let before = before.map(|it| (file_name(it), format!("← {}", it.title)));
    let mut list = "<nav aria-label=\"Contents\"><ol>\n".to_owned();
    for (place, name) in [index].iter().chain(&before).chain(links) {
        list += &format!("<li><a href=\"{place}\">{}</a></li>\n", escape(name));
    }
    list + "</ol></nav>\n"
}

/// The link to what follows a section.
fn end_of_section(id: &str, links: &[Link]) -> String {
    let here = format!("#{id}");
    let mut behind = links.iter().skip_while(|(place, _)| *place != here).skip(1);
    let next = behind.next().map(|(place, name)| {
        let name = escape(name);
        format!("<p class=\"next\"><a href=\"{place}\">Next: {name}</a></p>\n")
    });
    next.unwrap_or_default() + "</section>\n"
}

/// Links to what the map names beside this section's cells.
fn documentation(program: &Program, section: &str, parts: &[Part], book: &Book) -> Result<String> {
    let is_chapter = program.name.starts_with("ch0") && !program.name.contains('_');
    let in_section =
        |name: &str| cells(parts).any(|cell| cell.section == section && cell.is_called(name));
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
    if links.is_empty() {
        return Ok(String::new());
    }
    let links = links.join(", ");
    Ok(format!(
        "<p class=\"dim\">Documentation, after <code>cargo docs</code>: {links}</p>\n"
    ))
}

/// The errata of this document that stand where `is_here` says, by the name of their cell.
fn errata(program: &Program, book: &Book, is_here: impl Fn(&str) -> bool) -> String {
    let here = |erratum: &&Erratum| {
        let mut places = erratum.places();
        places.any(|(of, cell)| of.name == program.name && is_here(cell))
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
        Outcome::Skipped(why) => {
            let printed = cell.printed.as_deref().map(escape);
            let printed = printed.map(|printed| format!("<pre tabindex=\"0\">{printed}</pre>\n"));
            let why = escape(&format!("Not run here: {why}."));
            printed.unwrap_or_default() + &format!("<p class=\"dim\">{why}</p>\n")
        }
        Outcome::Lost(fault) => format!("<p class=\"fault\">{}</p>\n", escape(fault)),
    };
    format!(
        "{about}{}<div class=\"result\">{output}</div>\n",
        code(&cell.code)
    )
}

/// The `use` lines at the top of a notebook's source, but for those of the notebooks' own crate,
/// which are the last and which no cell shows.
fn imports(source: &str) -> &str {
    let (before, _) = source.split_once("\nuse crate::").unwrap_or((source, ""));
    let first = before.find("\nuse ").map_or(before.len(), |line| line + 1);
    before[first..].trim_end()
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
    let (ours, faults) = (&record.ours, &record.verdict.faults);
    let shown = match &record.printed {
        None => pre(&escape(ours)),
        Some(printed) => {
            let is_form = faults.is_empty() && numbers(ours).len() != numbers(printed).len();
            if !is_form && !differences(ours, printed).is_empty() {
                let [ours, theirs] = marked(ours, printed).map(|html| pre(&html));
                format!(
                    "<div><h4>computed</h4>{ours}</div>\n\
                     <div><h4>the document prints</h4>{theirs}</div>\n"
                )
            } else if ours.trim() == printed.trim() {
                pre(&escape(ours))
            } else {
                let theirs = folded("as the document prints it", &pre(&escape(printed)));
                pre(&escape(ours)) + &theirs
            }
        }
    };
    let mut html = format!("<div class=\"outputs\">\n{shown}</div>\n");
    let about = about_comparison(record);
    if !about.is_empty() {
        html += &format!("<p class=\"dim\">{}</p>\n", escape(&about));
    }
    for fault in faults {
        html += &format!("<p class=\"fault\">FAIL {}</p>\n", escape(fault));
    }
    html
}

/// How many values were compared with what, and how near they are.
fn about_comparison(record: &Record) -> String {
    let verdict = &record.verdict;
    let what = match record.kind {
        Kind::Printed => "Compared with the document's",
        Kind::Shown => "Compared with the document's (ndarray alone computes this)",
        Kind::Own => "Compared, and not counted, as the document doesn't print this here",
        Kind::Changed => return String::new(),
    };
    let mut about = match verdict.figures {
        0 => return String::new(),
        1 => format!("{what}: 1 value"),
        count => format!("{what}: {count} values"),
    };
    if verdict.difference > 0.0 {
        let Verdict {
            difference,
            allowed,
            ..
        } = verdict;
        about +=
            &format!("; the furthest is {difference:.1e} off, and its digits allow {allowed:.1e}");
    }
    if let Some(note) = &record.note {
        about += &format!("; {note}");
    }
    about
}
