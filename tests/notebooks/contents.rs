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
    /// Text that stands by itself: before a listing, a figure or a question.
    Prose {
        /// The line of the call that it stands before.
        line: u32,
        /// Its paragraphs.
        text: String,
    },
    /// A question on a section, and its answer.
    Question {
        /// The line of its call.
        line: u32,
        /// The question.
        question: String,
        /// The answer, which is folded away.
        answer: String,
    },
    /// A drawing in characters, with the shapes of arrays.
    Sketch {
        /// The line of its call.
        line: u32,
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
    let changed = std::mem::take(&mut book.code);
    let mut parts = Vec::new();
    let (mut inputs, mut code) = (Vec::new(), String::new());
    let (mut section, mut heading) = (String::new(), String::new());
    let mut names: HashMap<(String, String), usize> = HashMap::new();
    let mut has_prose = false;
    for call in calls(source, &changed) {
        let line = call.line;
        let text = |place| call.text(place).unwrap_or_default();
        code += &call.code;
        if IS_PART.contains(&call.method) {
            let prose = take_prose(&mut code);
            if !prose.is_empty() {
                has_prose = true;
                let text = book.values.fill(&prose, line);
                parts.push(Part::Prose { line, text });
            }
        }
        match call.method {
            "input" | "input_of_text" => inputs.extend(book.inputs.remove(&line)),
            "section" => {
                (section, heading) = (text(0), text(1));
                parts.push(Part::Section {
                    number: section.clone(),
                    title: heading.clone(),
                });
            }
            "opens" => parts.push(Part::Intro(Intro {
                goal: book.values.fill(&text(0), line),
                prerequisites: text(1),
                minutes: text(2),
            })),
            "asks" => parts.push(Part::Question {
                line,
                question: book.values.fill(&text(0), line),
                answer: book.values.fill(&text(1), line),
            }),
            "sketch" => parts.push(Part::Sketch {
                line,
                name: text(0),
                text: book.values.fill(text(1).trim_matches('\n'), line),
            }),
            "listing" => parts.push(Part::Listing {
                path: text(0),
                start: text(1),
            }),
            "draws" | "multiplies" => parts.push(Part::Figure {
                name: text(0),
                line,
                html: book.figures.remove(&line),
            }),
            "leaves_out" => parts.push(Part::LeftOut(LeftOut {
                cell: text(0),
                figures: text(1).parse().unwrap_or(0),
                why: text(2),
            })),
            "value" | "holds" | "aside" | "part" | "the_verdict" | "not_in_a_page"
            | "takes_minutes" | "takes_all_epochs" => {}
            _ => {
                let times = names.entry((section.clone(), text(0))).or_default();
                *times += 1;
                let name = match times {
                    1 => text(0),
                    times => format!("{} ({times})", text(0)),
                };
                let (mut prose, shown) = about(&call, &undented(&without_lints(inside(&code))));
                let mut about = prose.pop().unwrap_or_default();
                for text in prose {
                    has_prose = true;
                    let text = book.values.fill(&text, line);
                    parts.push(Part::Prose { line, text });
                }
                let is_introduced = !about.is_empty() || has_prose;
                has_prose = false;
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
                    line,
                    about: book.values.fill(&about, line),
                    is_introduced,
                    code: shown,
                    inputs: std::mem::take(&mut inputs),
                    printed: is_output.then(|| text(2)),
                    outcome: outcome(&mut book, line),
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
    let mut untrue: Vec<(u32, String)> = book.untrue.drain().collect();
    untrue.sort();
    for (line, statement) in untrue {
        let cells = parts.iter_mut().filter_map(|part| match part {
            Part::Cell(cell) => Some(cell),
            _ => None,
        });
        let ran = cells.filter_map(|cell| match &mut cell.outcome {
            Outcome::Ran(record) => Some((cell.line, record)),
            _ => None,
        });
        let nearest = ran.min_by_key(|(at, _)| at.abs_diff(line));
        if let Some((_, record)) = nearest {
            record.verdict.faults.push(statement);
        }
    }
    parts
}

/// The calls before which a comment is a paragraph by itself, because they have no code.
const IS_PART: [&str; 7] = [
    "section",
    "asks",
    "sketch",
    "listing",
    "draws",
    "multiplies",
    "leaves_out",
];

/// The lines since the last one that isn't indented, which begins or ends a function.
fn inside(code: &str) -> &str {
    static OUTSIDE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)\A.*\n\S[^\n]*\n").expect("a regular expression"));
    OUTSIDE
        .find(code)
        .map_or(code, |outside| &code[outside.end()..])
}

/// Takes the comments at the end of the code, as paragraphs.
fn take_prose(code: &mut String) -> String {
    let lines: Vec<&str> = inside(code).split_inclusive('\n').collect();
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let first = lines.iter().rposition(is_code).map_or(0, |last| last + 1);
    let comments = lines[first..].concat();
    let prose = paragraphs(comments.lines());
    if !prose.is_empty() {
        code.truncate(code.len() - comments.len());
    }
    prose
}

/// The texts of comment lines; an empty comment ends a paragraph.
fn paragraphs<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let texts = lines.map(|line| line.trim_start().trim_start_matches("//").trim());
    undented(&texts.collect::<Vec<_>>().join("\n"))
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

/// The blocks of comments that a cell's code begins with, and the code with the value that ends it.
/// The last block is the cell's own.
fn about(call: &Call, code: &str) -> (Vec<String>, String) {
    let argument = |place: usize| call.arguments.get(place).copied().unwrap_or_default();
    let value = match call.method {
        "shape" => format!("{}.shape()", argument(1)),
        "agrees" => format!("{} == {}", argument(1), argument(2)),
        "erratum" => format!("{}\n{}", argument(2), argument(4)),
        _ => argument(1).to_owned(),
    };
    let is_prose = |line: &&str| line.is_empty() || line.starts_with("//");
    let prose: Vec<&str> = code.lines().take_while(is_prose).collect();
    let lines = code.lines().skip(prose.len()).chain(value.lines());
    let code = lines.collect::<Vec<_>>().join("\n");
    let blocks = prose
        .split(|line| line.is_empty())
        .filter(|it| !it.is_empty());
    let blocks = blocks.map(|block| paragraphs(block.iter().copied()));
    (blocks.collect(), code)
}
