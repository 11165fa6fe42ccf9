//! What a notebook holds, in order: what it said while it ran, and what stands in its source where
//! it did not.

use std::collections::HashMap;

use pictures::Picture;

use crate::book::{Event, Given, LeftOut, Notebook, Record};
use crate::source::{Call, calls};

/// A part of a notebook.
pub enum Part {
    /// A heading.
    Section {
        /// As the book has it, `3.6.2`.
        number: String,
        /// The document's own.
        title: String,
    },
    /// An item of a crate is printed in full: of which file, from which line.
    Listing {
        /// Its path in the repository.
        path: String,
        /// How its first line begins.
        start: String,
    },
    /// A picture of what was computed.
    Picture {
        /// What it is of.
        name: String,
        /// The line of its call.
        line: u32,
        /// How it is computed and drawn.
        code: String,
        /// If it was asked for.
        picture: Option<Box<Picture>>,
    },
    /// Something is compared or shown.
    Cell(Box<Cell>),
    /// Figures that are not compared.
    LeftOut(LeftOut),
}

/// A cell's check.
pub struct Cell {
    /// The number of its section.
    pub section: String,
    /// The title of its section.
    pub title: String,
    /// The cell, `In [36]`.
    pub cell: String,
    /// Its own name: the second check of a cell ends with ` (2)`.
    pub name: String,
    /// The line of its call.
    pub line: u32,
    /// What it shows and why: the comment that its code begins with.
    pub about: String,
    /// The code since the cell before, and the value that is shown.
    pub code: String,
    /// What a reader may change in it.
    pub inputs: Vec<Given>,
    /// Whether it stands where the book's text is at hand.
    pub needs_text: bool,
    /// What became of it.
    pub outcome: Outcome,
}

impl Cell {
    /// Whether `name` is one of the names that documents give it: `In [36]`, `In [36] (2)`,
    /// `3.6.2`.
    pub fn is_called(&self, name: &str) -> bool {
        [&self.cell, &self.name, &self.section].contains(&&name.to_owned())
    }
}

/// What became of a cell.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It ran.
    Ran(Record),
    /// It was not reached, for a reason that is no fault.
    Skipped(String),
    /// It was not reached, or its line ran twice.
    Lost(String),
}

/// The parts of the notebook with this `source` that has run, or of one that has not.
///
/// A call that ran is what it was given when it ran; `fault` is why the others did not run, if not
/// for a reason.
pub(crate) fn contents(source: &str, book: Notebook, fault: &str) -> Vec<Part> {
    let without_text = book.the_verdict().is_none();
    let ended = book.ended;
    let mut events: HashMap<u32, Vec<Event>> = HashMap::new();
    for (line, event) in book.events {
        events.entry(line).or_default().push(event);
    }
    let changed = events
        .iter()
        .filter_map(|(line, events)| match &events[..] {
            [Event::Input(input), ..] => Some((*line, input.code.clone()?)),
            _ => None,
        });
    let changed: HashMap<u32, String> = changed.collect();
    let mut inputs = Vec::new();
    let mut parts = Vec::new();
    let (mut section, mut title) = (String::new(), String::new());
    let mut names: HashMap<(String, String), usize> = HashMap::new();
    for call in calls(source, &changed) {
        let mut ran = events.remove(&call.line).unwrap_or_default();
        let twice = ran.len() > 1;
        let part = match ran.pop().or_else(|| written(&call)) {
            None => continue,
            Some(Event::Input(input)) => {
                inputs.push(input);
                continue;
            }
            Some(Event::Section(number, heading)) => {
                (section, title) = (number.clone(), heading.clone());
                let title = heading;
                Part::Section { number, title }
            }
            Some(Event::Listing(path, start)) => Part::Listing { path, start },
            Some(Event::Picture(name, picture)) => Part::Picture {
                name,
                line: call.line,
                code: drawing(&call),
                picture,
            },
            Some(Event::LeftOut(left_out)) => Part::LeftOut(LeftOut {
                section: section.clone(),
                ..left_out
            }),
            Some(Event::Cell(cell, record)) => {
                let outcome = match record {
                    _ if twice => Outcome::Lost("its line ran twice".to_owned()),
                    Some(record) => Outcome::Ran(record),
                    None => match &ended {
                        Some(why) => Outcome::Skipped(why.clone()),
                        None if call.needs_text && without_text => {
                            Outcome::Skipped("needs the book's text".to_owned())
                        }
                        None => Outcome::Lost(fault.to_owned()),
                    },
                };
                let (about, code) = about(&call);
                let times = names.entry((section.clone(), cell.clone())).or_default();
                *times += 1;
                Part::Cell(Box::new(Cell {
                    section: section.clone(),
                    title: title.clone(),
                    name: match times {
                        1 => cell.clone(),
                        times => format!("{cell} ({times})"),
                    },
                    cell,
                    line: call.line,
                    about,
                    code,
                    inputs: std::mem::take(&mut inputs),
                    needs_text: call.needs_text,
                    outcome,
                }))
            }
        };
        parts.push(part);
    }
    assert!(
        events.is_empty(),
        "a call of these lines was not read: {:?}",
        events.keys()
    );
    parts
}

/// What a call that has not run would have said.
fn written(call: &Call) -> Option<Event> {
    let text = |place| call.text(place).unwrap_or_default();
    Some(match call.method {
        "the_verdict" | "training" | "ends_unless" | "is_small" | "part" => return None,
        "section" => Event::Section(text(0), text(1)),
        "listing" => Event::Listing(text(0), text(1)),
        "draws" => Event::Picture(text(0), None),
        "input" => Event::Input(Given {
            name: text(0),
            default: call.arguments[1]
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
            line: call.line,
            ..Given::default()
        }),
        "leaves_out" => Event::LeftOut(LeftOut {
            section: String::new(),
            cell: text(0),
            figures: call.arguments[1].parse().unwrap_or(0),
            why: text(2),
        }),
        _ => Event::Cell(text(0), None),
    })
}

/// The comment that a cell's code begins with, and the code with the value that ends it.
fn about(call: &Call) -> (String, String) {
    let argument = |place: usize| call.arguments.get(place).copied().unwrap_or_default();
    let value = match call.method {
        "shape" => format!("{}.shape()", argument(1)),
        "agrees" => format!("{} == {}", argument(1), argument(2)),
        "erratum" => format!("{}\n{}", argument(2), argument(4)),
        _ => argument(1).to_owned(),
    };
    let comment = |line: &&str| line.starts_with("// ");
    let about: Vec<&str> = call.code.lines().take_while(comment).collect();
    let lines = call.code.lines().skip(about.len()).chain(value.lines());
    let code = lines.collect::<Vec<_>>().join("\n");
    let about = about.iter().map(|line| line.trim_start_matches("// "));
    (about.collect::<Vec<_>>().join("\n"), code)
}

/// What a picture's closure does.
fn drawing(call: &Call) -> String {
    let closure = call.arguments.get(1).copied().unwrap_or_default();
    let body = closure.trim_start_matches("||").trim();
    let inside = body
        .strip_prefix('{')
        .and_then(|body| body.strip_suffix('}'));
    crate::source::undented(inside.unwrap_or(body))
}
