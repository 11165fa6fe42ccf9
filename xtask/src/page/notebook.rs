//! Writes the page of a notebook, with its sections, listings, cells, outputs, figures and errata
//! in their original order.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::Result;
use notebooks::{
    Cell, Kind, LeftOut, Outcome, PROGRAMS, Part, Program, Record, cells, how_to_give_text, inputs,
    numbers, tokens,
};
use pictures::html;
use pictures::html::escape;

use super::glossary::{Links, inline};
use super::{Book, MODEL_PAGE, TRAINING_PAGE, anchor, file_name, live, overview, style};
use crate::digits::{differences, mark_differences};
use crate::documents::{Erratum, Row};
use crate::workspace::listing;

/// Returns the HTML of a notebook's page. For a cell that hasn't been run, the page shows the
/// output in the original document, if there is one.
///
/// # Errors
///
/// Returns an error if the source file of a listing can't be read.
pub(super) fn page(program: &Program, parts: &[Part], book: &Book) -> Result<String> {
    let is_named = |name: &str| cells(parts).any(|cell| cell.cell == name || cell.section == name);
    let errata_of_all = errata(program, book, |at| !is_named(at));
    let has_model = book.live && program.name == MODEL_PAGE;
    let has_training = book.live && program.name == TRAINING_PAGE;
    let mut links = sections(program, book);
    if has_training {
        links.insert(0, ("#train".to_owned(), "Train one here".to_owned()));
    }
    if has_model {
        links.push(("#story".to_owned(), "A trained model, live".to_owned()));
    }
    if !errata_of_all.is_empty() {
        links.push(("#errata".to_owned(), "Errata of the document".to_owned()));
    }
    let mut behind = PROGRAMS.iter().skip_while(|it| it.name != program.name);
    if let Some(next) = behind.nth(1) {
        links.push((file_name(next), next.title.to_owned()));
    }
    let runs = |(cell, _): (&Cell, _)| !matches!(cell.outcome, Outcome::Skipped(_));
    let has_fields = book.live && inputs(parts).any(runs);
    let terms = book.glossary.links();
    let mut body = contents(&links) + "<div class=\"content\">\n";
    body += &head(program, parts, &terms, has_fields);
    let (mut section, mut previous) = (None, "");
    let mut end = String::new();
    let mut step = Step::default();
    for part in parts {
        match part {
            Part::Section { number, title } => {
                step.end(&mut body);
                let id = anchor('s', &[number]);
                if let Some(before) = section.replace(id.clone()) {
                    body += &(std::mem::take(&mut end) + &end_of_section(&before, &links));
                }
                previous = "";
                let heading = escape(&heading(number, title));
                writeln!(
                    body,
                    "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{heading}</h2>"
                )?;
                body += &overview::place(number);
                if *number == overview::SECTION {
                    body += &overview::figure(book);
                }
                let errata = errata(program, book, |at| at == number);
                end = errata + &documentation(program, number, parts, book);
            }
            Part::Intro(_) => {
                if has_training {
                    body += live::LESSON;
                    body += &end_of_section("train", &links);
                }
            }
            Part::Prose { line, text } => {
                step.begin(&mut body, &prose(&line.to_string(), text, &terms));
            }
            Part::Question {
                line,
                question,
                answer,
            } => {
                let answer = prose(&format!("{line}a"), answer, &terms);
                let question = inline(question);
                writeln!(
                    step.asides,
                    "<details class=\"question\"><summary><strong>Question.</strong> \
                     <span data-text=\"{line}q\">{question}</span></summary>{answer}</details>"
                )?;
            }
            Part::Sketch { line, name, text } => {
                let text = escape(text);
                let sketch = format!(
                    "<pre class=\"sketch\" tabindex=\"0\" data-text=\"{line}\">{text}</pre>"
                );
                let figure = figure(program, book, &anchor('k', &[name]), (*line, name), &sketch);
                step.begin(&mut body, &figure);
            }
            Part::Listing { path, start } => {
                let (line, item) = listing(path, start)?;
                let (id, link) = (anchor('l', &[path, start]), book.source(path, line));
                let (code, lines) = (code(&item), item.lines().count());
                let code = match lines > LONG_LISTING {
                    true => folded(
                        &format!("<code>{}</code> ({lines} lines)", escape(&signature(&item))),
                        &code,
                    ),
                    false => code,
                };
                let listing = format!(
                    "<div class=\"cell\" id=\"{id}\"><p class=\"at\">Listing {link}</p>\n{code}</div>\n"
                );
                step.begin(&mut body, &listing);
            }
            Part::Figure { name, line, html } => {
                let not_run = "<p class=\"dim\">This figure wasn't drawn because its cells weren't run.</p>\n";
                let drawn = html.as_deref().unwrap_or(not_run);
                let drawn = format!("<div data-line=\"{line}\">\n{drawn}</div>\n");
                let figure = figure(program, book, &anchor('p', &[name]), (*line, name), &drawn);
                step.begin(&mut body, &figure);
            }
            Part::Cell(cell) => {
                let at = match previous == cell.cell {
                    true => String::new(),
                    false => {
                        let link = book.source(program.path, cell.line as usize);
                        let name = escape(&cell.cell);
                        format!("<p class=\"at\"><strong>{name}</strong> {link}</p>\n")
                    }
                };
                step.begin(&mut body, &cell_html(cell, &at));
                if !cell.about.is_empty() {
                    step.before = prose(&cell.line.to_string(), &cell.about, &terms);
                }
                if previous != cell.cell {
                    step.asides += &errata(program, book, |at| at == cell.cell);
                }
                previous = &cell.cell;
            }
            Part::LeftOut(LeftOut {
                cell, figures, why, ..
            }) => {
                let why = escape(&format!(
                    "{figures} of the numbers that the document prints in {cell} aren't checked against computed values: {why}"
                ));
                step.begin(&mut body, &format!("<p class=\"dim\">{why}</p>\n"));
            }
        }
    }
    step.end(&mut body);
    if let Some(last) = section {
        body += &(end + &end_of_section(&last, &links));
    }
    let mut script = String::new();
    if has_model {
        // `live.js` fills this section with the view of the model.
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
    if has_fields {
        // `live.js` replaces this text once it is loaded.
        body += "<noscript><style>.live-bar{display:none}</style></noscript>\n";
        body += "<p class=\"live-bar\" role=\"status\">Loading the code of this page …</p>\n";
        script += "<script src=\"live.js\"></script>\n";
    } else if has_training {
        script += "<script src=\"live.js\"></script>\n";
    }
    let name = program.name;
    let body = format!("<div class=\"book\" data-notebook=\"{name}\">\n{body}</div>\n{script}");
    Ok(html::page(program.title, &style(), &body))
}

/// Largest number of lines of a listing that isn't collapsed.
const LONG_LISTING: usize = 12;

/// A step of a section: text, a cell or a figure, together with the questions and errata that
/// belong to it. On a wide screen, the questions and errata are shown beside the step.
#[derive(Default)]
struct Step {
    /// HTML of the text that comes before this step. Questions and errata aren't shown beside this
    /// text.
    before: String,
    main: String,
    asides: String,
}

impl Step {
    /// Ends this step and begins a new one.
    fn begin(&mut self, body: &mut String, main: &str) {
        self.end(body);
        self.main += main;
    }

    /// Writes this step to `body` and empties it.
    fn end(&mut self, body: &mut String) {
        let Self {
            before,
            main,
            asides,
        } = std::mem::take(self);
        *body += &before;
        *body += &match asides.as_str() {
            "" => main,
            asides => format!(
                "<div class=\"step\">\n<div>{main}</div>\n<aside>{asides}</aside>\n</div>\n"
            ),
        };
    }
}

/// Returns the HTML of the page's header: the title, the goal, and notes about the page.
fn head(program: &Program, parts: &[Part], terms: &Links<'_>, has_fields: bool) -> String {
    let mut head = format!("<header>\n<h1>{}</h1>\n", escape(program.title));
    let intros = parts.iter().filter_map(|part| match part {
        Part::Intro(intro) => Some(intro),
        _ => None,
    });
    for intro in intros {
        let (goal, before) = (terms.prose(&intro.goal), inline(&intro.prerequisites));
        let minutes = &intro.minutes;
        head += &format!(
            "<div class=\"intro\">\n{goal}</div>\n\
             <p class=\"dim\">Prerequisites: {before} Reading time: {minutes} minutes.</p>\n",
        );
    }
    if has_fields {
        // This part of the header is hidden until `live.js` shows it, because a page on which
        // scripts are disabled isn't interactive.
        head += "<div class=\"interactive\" hidden>\n<p>This page is interactive: if you change a field, all cells after it are computed again.</p>\n";
        if is_of_text(parts) {
            head += "<p><label for=\"own-text\">Read another text:</label> \
                <input type=\"file\" id=\"own-text\" accept=\".txt,text/plain\"></p>\n";
        }
        head += "</div>\n";
    }
    let mut about = "<p>Each output is computed by the Rust code above it and formatted like PyTorch's output. A tick marks an output that was compared with the document.</p>\n".to_owned();
    if let Some(how) = how_to_give_text(cells(parts)) {
        about += &format!(
            "<p>Some cells use the short story “The Answering Bell” instead of the book's text, which isn't part of this project. To reproduce the book's numbers, use {how}.</p>\n"
        );
    }
    about += &format!(
        "<p>The cells use these imports:</p>\n{}",
        code(imports(program.source))
    );
    head + &folded("About this page", &about) + "</header>\n"
}

/// Returns the HTML of a figure with its number and its caption. `html` is the content of the
/// figure, and `line` is the number of the source line with the call that shows it.
fn figure(
    program: &Program,
    book: &Book,
    id: &str,
    (line, name): (u32, &str),
    html: &str,
) -> String {
    let (number, name) = (book.figure(program, line), escape(name));
    let link = book.source(program.path, line as usize);
    format!(
        "<figure id=\"{id}\">\n{html}<figcaption><strong>Figure {number}</strong> {name} {link}</figcaption>\n</figure>\n"
    )
}

/// Returns the signature of an item in one line, without its doc comment.
fn signature(item: &str) -> String {
    let is_about = |line: &&str| line.starts_with("//") || line.starts_with("#[");
    let code = item.lines().map(str::trim).skip_while(is_about);
    let words: Vec<&str> = code.collect();
    let words = words.join(" ");
    let end = words.find(" {").unwrap_or(words.len());
    words[..end].replace("( ", "(").replace(", )", ")")
}

/// Returns true if a cell reads the book's text, which the reader can replace with a different
/// text.
fn is_of_text(parts: &[Part]) -> bool {
    cells(parts).any(|cell| cell.code.contains("read_to_string("))
}

/// The address and the name of a link.
type Link = (String, String);

/// Returns links to the sections of the chapter that this notebook belongs to, sorted by number,
/// including sections on other pages. After them, returns links to the sections of this notebook
/// that have no number.
fn sections(program: &Program, book: &Book) -> Vec<Link> {
    let is_here = |other: &Program| other.name == program.name;
    let here = book.unrun.iter().filter(|(it, _)| is_here(it));
    let mut here = here.flat_map(|(_, parts)| headings(parts));
    let chapter = here.find_map(|(number, _)| numbers_of(number).first().copied());
    let mut sections = Vec::new();
    for (other, parts) in &book.unrun {
        for (number, title) in headings(parts) {
            let (numbers, name) = (numbers_of(number), heading(number, title));
            let place = format!("#{}", anchor('s', &[number]));
            if is_here(other) {
                sections.push((numbers, (place, name)));
            } else if chapter.is_some() && numbers.first().copied() == chapter {
                let there = (file_name(other) + &place, name + ", on another page");
                sections.push((numbers, there));
            }
        }
    }
    sections.sort_by_key(|(numbers, _)| (numbers.is_empty(), numbers.clone()));
    sections.into_iter().map(|(_, link)| link).collect()
}

/// Returns the components of a section number, such as `[5, 3, 1]`. The result is empty if the
/// section has no number.
fn numbers_of(section: &str) -> Vec<u32> {
    let numbers: Result<_, _> = section.split('.').map(str::parse).collect();
    numbers.unwrap_or_default()
}

/// Returns the heading of a section, which consists of its number and title. If `number` isn't a
/// number but a name, such as `attention`, the heading is only the title.
pub(super) fn heading(number: &str, title: &str) -> String {
    let digits = number.trim_start_matches("ex").trim_start_matches('B');
    match digits.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("{number} {title}"),
        false => title.to_owned(),
    }
}

/// Returns true if a section contains cells.
pub(super) fn has_cells(parts: &[Part], section: &str) -> bool {
    cells(parts).any(|cell| cell.section == section)
}

/// Returns the numbers and titles of the sections that contain cells.
fn headings(parts: &[Part]) -> impl Iterator<Item = (&str, &str)> {
    parts.iter().filter_map(|part| match part {
        Part::Section { number, title } => {
            has_cells(parts, number).then_some((number.as_str(), title.as_str()))
        }
        _ => None,
    })
}

/// Returns the table of contents, which stays visible at the side of the page. It has links to the
/// index, the sections and the next page.
fn contents(links: &[Link]) -> String {
    let index = ("index.html".to_owned(), "All notebooks".to_owned());
    let links = [index].into_iter().chain(links.iter().cloned());
    let links = links.map(|(place, name)| {
        let name = escape(&name);
        format!("<li><a href=\"{place}\">{name}</a></li>\n")
    });
    let list: String = links.collect();
    format!("<nav aria-label=\"Contents\"><ol>\n{list}</ol></nav>\n")
}

/// Returns the HTML that ends a section, which includes a link to the next section.
fn end_of_section(id: &str, links: &[Link]) -> String {
    let here = format!("#{id}");
    let mut behind = links.iter().skip_while(|(place, _)| *place != here).skip(1);
    let next = behind.next().map(|(place, name)| {
        let name = escape(name);
        format!("<p class=\"next\"><a href=\"{place}\">Next: {name}</a></p>\n")
    });
    next.unwrap_or_default() + "</section>\n"
}

/// Returns links to the documentation of the Rust items that belong to a section.
fn documentation(program: &Program, section: &str, parts: &[Part], book: &Book) -> String {
    let in_section =
        |name: &str| cells(parts).any(|cell| cell.section == section && cell.is_called(name));
    // A row of the map belongs to this section if it contains the number of the section or the name
    // of one of the section's cells.
    let here = |row: &&Row| {
        let of_number = row.section.split(' ').next() == Some(section);
        let mut cells = row.cells.iter();
        of_number || cells.any(|(of, cell)| of.name == program.name && in_section(cell))
    };
    let items: BTreeSet<_> = book
        .map
        .iter()
        .filter(here)
        .flat_map(|row| &row.items)
        .collect();
    let links: Vec<String> = items.into_iter().map(|item| book.item(item)).collect();
    match links.join(", ").as_str() {
        "" => String::new(),
        links => {
            format!(
                "<p class=\"dim\">API documentation (run <code>cargo docs</code> first): {links}</p>\n"
            )
        }
    }
}

/// Returns the HTML of the errata of this notebook for which `is_here` returns true. `is_here`
/// receives the name of the cell or section that contains the error, or an empty string if
/// docs/errata.md mentions only the notebook.
fn errata(program: &Program, book: &Book, is_here: impl Fn(&str) -> bool) -> String {
    let here = |erratum: &&Erratum| {
        let mut places = erratum.places();
        places.any(|(of, cell)| of.name == program.name && is_here(cell))
    };
    let errata = book.errata.iter().filter(here);
    errata.map(|it| erratum(it, book)).collect()
}

fn erratum(erratum: &Erratum, book: &Book) -> String {
    let number = &erratum.number;
    let name = match book.computes(number) {
        Some(link) => format!("<a href=\"{link}\">Erratum {number}</a>"),
        None => format!("Erratum {number}"),
    };
    format!(
        "<div class=\"erratum\"><p><strong>{name}</strong> ({}): {}</p><p>Correction: {}</p></div>\n",
        inline(&erratum.place),
        inline(&erratum.wrong),
        inline(&erratum.right)
    )
}

/// Returns the HTML of a cell, which contains `at` (the cell's name and a link to its source), the
/// code, the output and the result of the comparison.
fn cell_html(cell: &Cell, at: &str) -> String {
    let output = match &cell.outcome {
        Outcome::Ran(record) => output(record),
        Outcome::Skipped(why) => {
            let printed = cell.printed.as_deref().map(escape);
            let printed = printed.map(|printed| format!("<pre tabindex=\"0\">{printed}</pre>\n"));
            let why = escape(&format!(
                "This is the output in the document. It isn't computed here, because {why}."
            ));
            printed.unwrap_or_default() + &format!("<p class=\"dim\">{why}</p>\n")
        }
        Outcome::Lost(fault) => format!("<p class=\"fault\">{}</p>\n", escape(fault)),
    };
    let id = anchor('c', &[&cell.section, &cell.name]);
    format!(
        "<div class=\"cell\" id=\"{id}\" data-line=\"{}\">\n{at}{}\
         <div class=\"result\">{output}</div>\n</div>\n",
        cell.line,
        code(&cell.code)
    )
}

/// Converts the explanation with the given `id` to HTML. If a page is interactive, its script uses
/// the ID to update the numbers in the explanation.
fn prose(id: &str, text: &str, terms: &Links<'_>) -> String {
    format!("<div data-text=\"{id}\">{}</div>\n", terms.prose(text))
}

/// Returns the `use` lines at the top of a notebook's source. Lines that begin with `use crate::`
/// are left out because they import helpers that the cells don't show.
fn imports(source: &str) -> &str {
    let (before, _) = source.split_once("\nuse crate::").unwrap_or((source, ""));
    let first = before.find("\nuse ").map_or(before.len(), |line| line + 1);
    before[first..].trim_end()
}

/// Returns the HTML of Rust code with syntax highlighting.
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

/// Returns the HTML of a cell's output. If a digit differs from the original document, both outputs
/// are shown. If only the format differs, the document's output is collapsed.
fn output(record: &Record) -> String {
    let pre = |html: &str| format!("<pre tabindex=\"0\">{html}</pre>\n");
    let (ours, faults) = (&record.ours, &record.verdict.faults);
    let differs = |printed: &str| {
        let is_form = faults.is_empty() && numbers(ours).len() != numbers(printed).len();
        !is_form && !differences(ours, printed).is_empty()
    };
    let shown = match &record.printed {
        Some(printed) if [Kind::OtherText, Kind::SmallModel].contains(&record.kind) => {
            let whose = match record.kind {
                Kind::SmallModel => "Output of the book's model",
                _ => "Output for the book's text",
            };
            let theirs = folded(whose, &pre(&escape(printed)));
            pre(&escape(ours)) + &theirs
        }
        Some(printed) if differs(printed) => {
            let [ours, theirs] = mark_differences(ours, printed).map(|html| pre(&html));
            format!(
                "<div><p class=\"label\">computed here</p>{ours}</div>\n\
                 <div><p class=\"label\">printed in the document</p>{theirs}</div>\n"
            )
        }
        Some(printed) if ours.trim() != printed.trim() => {
            let theirs = folded("Output in the document's format", &pre(&escape(printed)));
            pre(&escape(ours)) + &theirs
        }
        _ => pre(&escape(ours)),
    };
    let mut html = format!("<div class=\"outputs\">\n{shown}</div>\n");
    let about = escape(&record.about());
    html += &match record.kind {
        Kind::Changed => format!("<p class=\"dim\">{about}</p>\n"),
        Kind::OtherText => {
            "<p class=\"dim\">computed from “The Answering Bell”, a short story of this project</p>\n".to_owned()
        }
        Kind::SmallModel => "<p class=\"dim\">computed by the small model of section 5.2</p>\n".to_owned(),
        _ if about.is_empty() || !faults.is_empty() => String::new(),
        _ => format!(
            "<p class=\"tick\"><span tabindex=\"0\" role=\"img\" aria-label=\"checked: {about}\" \
             title=\"{about}\">✓</span></p>\n"
        ),
    };
    for fault in faults {
        html += &format!("<p class=\"fault\">FAIL {}</p>\n", escape(fault));
    }
    html
}
