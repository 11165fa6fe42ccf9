//! Splits the source code of a notebook into the parts that learners see, such as prose, cells and
//! pictures, and combines them with the results from a run of the notebook. Each part except prose
//! is created by a statement such as `book.prints(…)`, which calls a method of [`Notebook`]. In
//! this module, a *call* is either such a statement or an expression that reads an input, and its
//! line number refers to the notebook's source file.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::book::{InputValue, LeftOut, Notebook, Outcome};
use crate::source::{Call, calls, undented, without_lints};

/// A part of a notebook that learners see, such as a heading, a paragraph of prose, or a cell.
pub enum Part {
    /// The heading that begins a section.
    Section {
        /// Number of the section in the book, such as `3.6.2`.
        number: String,
        /// Title of the section in the original document.
        title: String,
    },
    /// The introduction of a notebook.
    Intro(Intro),
    /// Prose that stands between cells and doesn't explain the code of a particular cell.
    Prose {
        /// Line number of the first call after the prose.
        line: u32,
        /// Text of the prose, in which empty lines separate the paragraphs.
        text: String,
    },
    /// A question to the learner about a section, together with its answer.
    Question {
        /// Line number of the call that asks the question.
        line: u32,
        /// The question.
        question: String,
        /// The answer. In a web page, it is hidden until the learner opens it.
        answer: String,
    },
    /// A text drawing, such as a diagram of array shapes.
    Sketch {
        /// Line number of the call that shows the drawing.
        line: u32,
        /// Title of the drawing.
        name: String,
        /// Lines of the drawing.
        text: String,
    },
    /// The complete source code of an item, such as a function.
    Listing {
        /// Path to the source file, relative to the root of the repository.
        path: String,
        /// Beginning of the item's first line, such as `pub fn generate(`, by which the item is
        /// found in the source file.
        start: String,
    },
    /// A picture of computed values.
    Figure {
        /// Title of the picture.
        name: String,
        /// Line number of the call that draws the picture.
        line: u32,
        /// HTML of the picture. It is `None` if the settings didn't request pictures, or if the run
        /// ended before the notebook drew the picture.
        html: Option<String>,
    },
    /// A cell: a value that the notebook shows or compares, together with the code that computes
    /// this value.
    Cell(Box<Cell>),
    /// Values that the original document prints but that the notebook doesn't compute or doesn't
    /// compare.
    LeftOut(LeftOut),
}

/// The introduction of a notebook, which tells learners what the notebook covers and what they
/// should know beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intro {
    /// Goal of the notebook.
    pub goal: String,
    /// What learners should know before they begin the notebook, such as the contents of earlier
    /// chapters.
    pub prerequisites: String,
    /// Time in minutes that reading the notebook takes.
    pub minutes: String,
}

/// Text of a comment that marks a cell as a continuation of the previous cell, which means that the
/// cell needs no explanation of its own.
const CONTINUES: &str = "...";

/// A value that a notebook shows or compares, together with the code that computes this value, an
/// explanation, and the outcome of the computation. If a cell of the original document prints
/// several values, the notebook has a separate `Cell` for each of them.
pub struct Cell {
    /// Number of the section that contains the cell.
    pub section: String,
    /// Title of the section that contains the cell.
    pub title: String,
    /// Name of the original document's cell, such as `In [36]`.
    pub cell: String,
    /// Name of this `Cell`, which is unique within the section. If a cell of the original document
    /// prints several values, the first value has the name of this cell, such as `In [36]`, the
    /// second value has the name `In [36] (2)`, and so on.
    pub name: String,
    /// Line number of the call that shows or compares the value, such as `book.prints(…)`, in the
    /// notebook's source file.
    pub line: u32,
    /// Explanation of what the cell computes and why. It is the text of the comment before the
    /// cell's code. It is empty if there is no comment, or if the comment only marks the cell as a
    /// continuation of the previous cell.
    pub about: String,
    /// Whether the cell is explained by a comment or by the prose before it, or is marked as a
    /// continuation of the previous cell so that it needs no explanation.
    pub is_introduced: bool,
    /// Code of the cell, which learners see: all code since the end of the previous cell, followed
    /// by the expression whose value the cell shows.
    pub code: String,
    /// Inputs that the cell's code reads. Learners can change their values.
    pub inputs: Vec<InputValue>,
    /// Output that the original document prints for the cell, if any. It is a string literal in the
    /// notebook's source code, so it is available even if the cell hasn't run.
    pub printed: Option<String>,
    /// Outcome of the cell: its result, or the reason why the cell wasn't computed.
    pub outcome: Outcome,
}

impl Cell {
    /// Returns true if `name` refers to this `Cell`: it can be the name of a cell of the original
    /// document, such as `In [36]`, the unique name of this `Cell`, such as `In [36] (2)`, or the
    /// number of the section, such as `3.6.2`.
    pub fn is_called(&self, name: &str) -> bool {
        [&self.cell, &self.name, &self.section].contains(&&name.to_owned())
    }

    /// Returns the full name of one of the cell's inputs, which consists of the name of the cell
    /// and the name of the input, such as `In [24].seed`.
    pub fn name_of(&self, input: &InputValue) -> String {
        format!("{}.{}", self.cell, input.name)
    }
}

/// Splits the source code of a notebook into parts, and combines the parts with the results of a
/// run, which are stored in `book`. If `book` contains no result for a cell, the cell's outcome
/// contains the reason why the run ended before it reached the cell.
///
/// The code of a cell consists of everything since the previous cell in the same function, except
/// for the calls that show other parts of the notebook, such as headings and pictures.
///
/// # Panics
///
/// Panics if `book` contains a result for a line number at which the source code doesn't call a
/// method of `book`.
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

/// Names of the [`Notebook`] methods that show a part other than a cell, such as a heading or a
/// picture. If a comment precedes a call of such a method, it is shown as prose of its own instead
/// of as the explanation of the next cell.
const IS_PART: [&str; 7] = [
    "section",
    "asks",
    "sketch",
    "listing",
    "draws",
    "multiplies",
    "leaves_out",
];

/// Returns the part of `code` that belongs to the last function in it, which is everything after
/// the last unindented line. This removes the end of the previous function and the signature of the
/// last one, which aren't part of a cell.
fn inside(code: &str) -> &str {
    static OUTSIDE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)\A.*\n\S[^\n]*\n").expect("a regular expression"));
    OUTSIDE
        .find(code)
        .map_or(code, |outside| &code[outside.end()..])
}

/// Removes the comment at the end of `code` and returns its text. Wherever the comment contains an
/// empty line, a new paragraph begins.
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

/// Returns the text of comment lines without the slashes. Empty comment lines separate the
/// paragraphs of the text.
fn paragraphs<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let texts = lines.map(|line| line.trim_start().trim_start_matches("//").trim());
    undented(&texts.collect::<Vec<_>>().join("\n"))
}

/// Returns the outcome of the cell whose value is shown by the call at the source line `line`. If
/// `book` contains a result for this line, moves the result out of `book`. Otherwise, a function of
/// the notebook ended before it reached the cell, so this function returns the outcome that was
/// recorded for the last function that ended at or before this line.
fn outcome(book: &mut Notebook, line: u32) -> Outcome {
    if let Some(record) = book.records.remove(&line) {
        return Outcome::Ran(record);
    }
    let before = book.ended.iter().filter(|(at, _)| *at <= line);
    let last = before.max_by_key(|(at, _)| *at);
    let why = last.map(|(_, why)| why.clone());
    why.unwrap_or(Outcome::Lost("not reached".to_owned()))
}

/// Splits the code of a cell into the comments at its beginning and the actual code. Returns the
/// text of each block of comments, the last of which is the explanation of the cell, and the actual
/// code. The returned code ends with the expression whose value the cell shows, which is taken from
/// the arguments of `call`.
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
