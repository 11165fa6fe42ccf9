//! The contents of a notebook, in the order of its source, each with its result.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::book::{InputValue, LeftOut, Notebook, Outcome};
use crate::source::{Call, calls, undented, without_lints};

/// A part of a notebook.
pub enum Part {
    /// A heading.
    Section {
        /// The book's number, `3.6.2`.
        number: String,
        /// The document's own.
        title: String,
    },
    /// The beginning of a notebook.
    Intro(Intro),
    /// A question on a section, and its answer.
    Question {
        /// The question.
        question: String,
        /// The answer, which is folded away.
        answer: String,
    },
    /// A drawing in characters, with the shapes of arrays.
    Sketch {
        /// Its title.
        name: String,
        /// Its lines.
        text: String,
    },
    /// An item of a crate, printed in full.
    Listing {
        /// The path of its file in the repository.
        path: String,
        /// The beginning of its first line.
        start: String,
    },
    /// A figure of computed values.
    Figure {
        /// Its title in the notebook.
        name: String,
        /// The line of its call.
        line: u32,
        /// Its HTML, if requested.
        html: Option<String>,
    },
    /// A value that is compared or shown.
    Cell(Box<Cell>),
    /// Figures that are not compared.
    LeftOut(LeftOut),
}

/// The beginning of a notebook: its benefit for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intro {
    /// The goal.
    pub goal: String,
    /// The prerequisites.
    pub prerequisites: String,
    /// The time that reading takes.
    pub minutes: String,
}

/// The comment of a cell that continues the idea of the cell before.
const CONTINUES: &str = "...";

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
    /// The comment at the beginning of its code: its purpose and its reason; empty if it continues
    /// the cell before.
    pub about: String,
    /// True if it has a comment or is marked as continuing the cell before.
    pub is_introduced: bool,
    /// The code since the cell before, and the value that is shown.
    pub code: String,
    /// The values that a reader may change.
    pub inputs: Vec<InputValue>,
    /// The document's output, if it prints one; also if the cell hasn't run.
    pub printed: Option<String>,
    /// Its result, or the reason why it has none.
    pub outcome: Outcome,
}

impl Cell {
    /// True for the names that documents give it: `In [36]`, `In [36] (2)`, `3.6.2`.
    pub fn is_called(&self, name: &str) -> bool {
        [&self.cell, &self.name, &self.section].contains(&&name.to_owned())
    }

    /// The name of an input among all of the notebook, `In [24].seed`.
    pub fn name_of(&self, input: &InputValue) -> String {
        format!("{}.{}", self.cell, input.name)
    }
}

/// The parts of the notebook with this `source`, each with the run's result for its line, or the
/// reason why it was not reached; the code of a cell is the lines of its function since the cell
/// before, without the other calls.
pub(crate) fn contents(source: &str, mut book: Notebook) -> Vec<Part> {
    // A line that is not indented begins or ends a function.
    static OUTSIDE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)\A.*\n\S[^\n]*\n").expect("a regular expression"));
    let in_rust = |input: &InputValue| Some((input.line, input.code.clone()?));
    let changed = book.inputs.values().filter_map(in_rust).collect();
    let mut parts = Vec::new();
    let (mut inputs, mut code) = (Vec::new(), String::new());
    let (mut section, mut heading) = (String::new(), String::new());
    let mut names: HashMap<(String, String), usize> = HashMap::new();
    for call in calls(source, &changed) {
        let text = |place| call.text(place).unwrap_or_default();
        code += &call.code;
        match call.method {
            "input" => inputs.extend(book.inputs.remove(&call.line)),
            "section" => {
                (section, heading) = (text(0), text(1));
                parts.push(Part::Section {
                    number: section.clone(),
                    title: heading.clone(),
                });
            }
            "opens" => parts.push(Part::Intro(Intro {
                goal: text(0),
                prerequisites: text(1),
                minutes: text(2),
            })),
            "asks" => parts.push(Part::Question {
                question: text(0),
                answer: text(1),
            }),
            "sketch" => parts.push(Part::Sketch {
                name: text(0),
                text: text(1).trim_matches('\n').to_owned(),
            }),
            "listing" => parts.push(Part::Listing {
                path: text(0),
                start: text(1),
            }),
            "draws" | "multiplies" => parts.push(Part::Figure {
                name: text(0),
                line: call.line,
                html: book.figures.remove(&call.line),
            }),
            "leaves_out" => parts.push(Part::LeftOut(LeftOut {
                cell: text(0),
                figures: text(1).parse().unwrap_or(0),
                why: text(2),
            })),
            "part" | "the_verdict" | "not_in_a_page" | "takes_minutes" | "takes_all_epochs" => {}
            _ => {
                let times = names.entry((section.clone(), text(0))).or_default();
                *times += 1;
                let name = match times {
                    1 => text(0),
                    times => format!("{} ({times})", text(0)),
                };
                let lines = OUTSIDE.replace(&code, "");
                let (mut about, shown) = about(&call, &undented(&without_lints(&lines)));
                let is_introduced = !about.is_empty();
                if about == CONTINUES {
                    about.clear();
                }
                let is_output = call.method.starts_with("prints") || call.method == "shows";
                code.clear();
                let mut cell = Cell {
                    section: section.clone(),
                    title: heading.clone(),
                    cell: text(0),
                    name,
                    line: call.line,
                    about,
                    is_introduced,
                    code: shown,
                    inputs: std::mem::take(&mut inputs),
                    printed: is_output.then(|| text(2)),
                    outcome: outcome(&mut book, call.line),
                };
                if let Some(fault) = cell.inputs.iter().find_map(|input| input.fault.clone()) {
                    cell.outcome = Outcome::Lost(fault);
                }
                parts.push(Part::Cell(Box::new(cell)));
            }
        }
    }
    let unread: Vec<&u32> = book.records.keys().collect();
    assert!(unread.is_empty(), "no calls at these lines: {unread:?}");
    parts
}

/// The record of a call, otherwise the reason of the last part that ended before its line.
fn outcome(book: &mut Notebook, line: u32) -> Outcome {
    if let Some(record) = book.records.remove(&line) {
        return Outcome::Ran(record);
    }
    let before = book.ended.iter().filter(|(at, _)| *at <= line);
    let last = before.max_by_key(|(at, _)| *at);
    let why = last.map(|(_, why)| why.clone());
    why.unwrap_or(Outcome::Lost("not reached".to_owned()))
}

/// The comment that a cell's code begins with, and the code with the value that ends it.
fn about(call: &Call, code: &str) -> (String, String) {
    let argument = |place: usize| call.arguments.get(place).copied().unwrap_or_default();
    let value = match call.method {
        "shape" => format!("{}.shape()", argument(1)),
        "agrees" => format!("{} == {}", argument(1), argument(2)),
        "erratum" => format!("{}\n{}", argument(2), argument(4)),
        _ => argument(1).to_owned(),
    };
    let comment = |line: &&str| line.starts_with("// ");
    let about: Vec<&str> = code.lines().take_while(comment).collect();
    let lines = code.lines().skip(about.len()).chain(value.lines());
    let code = lines.collect::<Vec<_>>().join("\n");
    let about = about.iter().map(|line| line.trim_start_matches("// "));
    (about.collect::<Vec<_>>().join("\n"), code)
}
