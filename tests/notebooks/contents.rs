//! What a notebook holds, in order: what it said while it ran, and what stands in its source where
//! it did not.

use std::collections::HashMap;

use pictures::Picture;

use crate::book::{Given, LeftOut, Notebook, Record};
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
#[derive(Default)]
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

    /// The name of an input among all of the notebook, `In [24].seed`.
    pub fn name_of(&self, input: &Given) -> String {
        format!("{}.{}", self.cell, input.name)
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

impl Default for Outcome {
    fn default() -> Self {
        Self::Lost("it did not run".to_owned())
    }
}

/// The parts of the notebook with this `source` that has run, or of one that has not.
///
/// A call that ran is what it was given when it ran; the others are `unrun`, unless the notebook
/// has ended before, or they need the book's text.
pub(crate) fn contents(source: &str, book: Notebook, unrun: Outcome) -> Vec<Part> {
    let without_text = book.the_verdict().is_none();
    let Notebook {
        parts: mut ran,
        inputs: given,
        ended,
        ..
    } = book;
    let unrun = |call: &Call| match &ended {
        Some(why) => Outcome::Skipped(why.clone()),
        None if call.needs_text && without_text => {
            Outcome::Skipped("it needs the book's text".to_owned())
        }
        None => unrun.clone(),
    };
    let changed = given.values();
    let changed = changed.filter_map(|input| Some((input.line, input.code.clone()?)));
    let mut parts = Vec::new();
    let mut inputs = Vec::new();
    let (mut section, mut heading) = (String::new(), String::new());
    let mut names: HashMap<(String, String), usize> = HashMap::new();
    for call in calls(source, &changed.collect()) {
        if call.method == "input" {
            let given = given.get(&call.line).cloned();
            inputs.push(given.unwrap_or_else(|| default(&call)));
            continue;
        }
        let part = ran.remove(&call.line);
        let Some(mut part) = part.or_else(|| written(&call, unrun(&call))) else {
            continue;
        };
        match &mut part {
            Part::Section { number, title } => {
                (section, heading) = (number.clone(), title.clone());
            }
            Part::Listing { .. } => {}
            Part::Picture { code, .. } => *code = drawing(&call),
            Part::LeftOut(left_out) => left_out.section.clone_from(&section),
            Part::Cell(cell) => {
                let place = (section.clone(), cell.cell.clone());
                let times = names.entry(place).or_default();
                *times += 1;
                cell.name = match times {
                    1 => cell.cell.clone(),
                    times => format!("{} ({times})", cell.cell),
                };
                cell.section.clone_from(&section);
                cell.title.clone_from(&heading);
                (cell.about, cell.code) = about(&call);
                cell.inputs = std::mem::take(&mut inputs);
                cell.needs_text = call.needs_text;
            }
        }
        parts.push(part);
    }
    let unread: Vec<u32> = ran.into_keys().collect();
    assert!(
        unread.is_empty(),
        "calls of these lines were not read: {unread:?}"
    );
    parts
}

/// What an input that was not reached has.
fn default(call: &Call) -> Given {
    let words: Vec<&str> = call.arguments[1].split_whitespace().collect();
    Given {
        name: call.text(0).unwrap_or_default(),
        default: words.join(" "),
        line: call.line,
        ..Given::default()
    }
}

/// What a call that was not reached would have said.
fn written(call: &Call, outcome: Outcome) -> Option<Part> {
    let text = |place| call.text(place).unwrap_or_default();
    Some(match call.method {
        "ends_unless" | "part" => return None,
        "section" => Part::Section {
            number: text(0),
            title: text(1),
        },
        "listing" => Part::Listing {
            path: text(0),
            start: text(1),
        },
        "draws" => Part::Picture {
            name: text(0),
            line: call.line,
            code: String::new(),
            picture: None,
        },
        "leaves_out" => Part::LeftOut(LeftOut {
            section: String::new(),
            cell: text(0),
            figures: call.arguments[1].parse().unwrap_or(0),
            why: text(2),
        }),
        _ => Part::Cell(Box::new(Cell {
            cell: text(0),
            line: call.line,
            outcome,
            ..Cell::default()
        })),
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
