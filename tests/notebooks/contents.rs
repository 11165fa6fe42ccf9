//! Splits the source code of a notebook into the parts that learners see, such as prose, cells and
//! pictures. Combines these parts with the results from a run of the notebook, so that a web page
//! or a terminal can show both. A notebook is a Rust port of an original document, usually one of
//! the book's Python notebooks. Each part except prose is created by a statement such as
//! `book.prints(…)`, which calls a method of [`Notebook`]. In this module, a *call* is either such
//! a statement or an expression that reads an input, which is a value that the learner can change.
//! The line number of a call is its line number in the notebook's source file.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::book::{InputValue, LeftOut, Notebook, Outcome};
use crate::source::{Call, calls, undented, without_lints};

/// A part of a notebook that learners see on a web page or in a terminal, such as a heading, a
/// paragraph of prose, or a cell. A notebook is a Rust port of one of the book's Python notebooks.
pub enum Part {
    /// The heading that begins a section of the notebook.
    Section {
        /// Number of the section in the book, such as `3.6.2`.
        number: String,
        /// Title that the section has in the original Python notebook.
        title: String,
    },
    /// The introduction of a notebook: its goal, its prerequisites and its reading time.
    Intro(Intro),
    /// Prose: text that explains the notebook to learners. It is written as `//` comments in the
    /// notebook's source code. This variant contains only prose that doesn't explain the code of a
    /// particular cell.
    Prose {
        /// Line number, in the notebook's source file, of the first [`Notebook`] method call after
        /// the prose.
        line: u32,
        /// The prose, without the slashes of the `//` comments. Empty lines separate its
        /// paragraphs.
        text: String,
    },
    /// A question that the notebook asks the learner about a section, together with its answer.
    Question {
        /// Line number, in the notebook's source file, of the call that asks the question.
        line: u32,
        /// Text of the question that the learner should answer.
        question: String,
        /// Answer to the question. On a web page, the answer is hidden until the learner opens it.
        answer: String,
    },
    /// A diagram that is drawn with text characters, for example of array shapes.
    Sketch {
        /// Line number, in the notebook's source file, of the call that shows the drawing.
        line: u32,
        /// Title of the drawing, which learners see.
        name: String,
        /// Text of the drawing, which can consist of several lines.
        text: String,
    },
    /// The complete source code of a Rust item, such as a function that the notebook calls.
    Listing {
        /// Path to the source file that contains the item, relative to the root of the repository.
        path: String,
        /// Beginning of the item's first line, such as `pub fn generate(`. The item is found by
        /// searching the source file for this text.
        start: String,
    },
    /// A picture of values that the notebook computes, such as attention weights.
    Figure {
        /// Title of the picture, which learners see.
        name: String,
        /// Line number, in the notebook's source file, of the call that draws the picture.
        line: u32,
        /// HTML of the picture, which is shown on the notebook's web page. This is `None` if
        /// pictures aren't enabled in the settings, or if the run ended before the notebook drew
        /// the picture.
        html: Option<String>,
    },
    /// A cell: a value that the notebook shows to learners, together with the code that computes
    /// this value. The notebook may compare the value with the output of the original Python
    /// notebook.
    Cell(Box<Cell>),
    /// A note to learners about values that the original Python notebook prints but that the Rust
    /// port doesn't compute or compare.
    LeftOut(LeftOut),
}

/// The introduction of a notebook, which tells learners what the notebook covers and what they
/// should know beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intro {
    /// Goal of the notebook, shown to learners at the top of the notebook.
    pub goal: String,
    /// What learners should know before they start the notebook, such as the contents of earlier
    /// chapters.
    pub prerequisites: String,
    /// Time in minutes that reading the notebook takes.
    pub minutes: String,
}

/// Text of the comment `// ...`, which marks a notebook cell as a continuation of the previous
/// cell. Such a cell needs no explanation of its own, so learners see only its code and its value.
const CONTINUES: &str = "...";

/// A cell of a notebook, which is a Rust port of one of the book's Python notebooks. The cell
/// consists of a value shown to learners, the code that computes this value, an explanation, and
/// the result of comparing the value with the output of the Python notebook. If a cell of the
/// Python notebook prints several values, the Rust port has a separate `Cell` for each of them.
pub struct Cell {
    /// Number of the section that contains the cell, such as `3.6.2`.
    pub section: String,
    /// Title of the section of the notebook that contains the cell.
    pub title: String,
    /// Name of the corresponding cell in the original Python notebook, such as `In [36]`.
    pub cell: String,
    /// Name of this `Cell`, which is unique within its section. For example, if the cell `In [36]`
    /// of the original Python notebook prints several values, the `Cell` for the first value is
    /// also named `In [36]`, the next one is named `In [36] (2)`, and so on.
    pub name: String,
    /// Line number, in the notebook's source file, of the call that shows the cell's value, such as
    /// `book.prints(…)`.
    pub line: u32,
    /// Explanation of what the cell computes and why. It is the text of the comment before the
    /// cell's code. It is empty if there is no comment, or if the comment only marks the cell as a
    /// continuation of the previous cell.
    pub about: String,
    /// Whether the cell has an introduction or doesn't need one. This is true if there is a comment
    /// or other prose before the cell's code, or if the cell is marked as a continuation of the
    /// previous cell.
    pub is_introduced: bool,
    /// Code of the cell, as shown to learners. It contains all code since the end of the previous
    /// cell, followed by the expression whose value the cell shows.
    pub code: String,
    /// Inputs that the cell's code reads. An input is a value, such as a seed, that learners can
    /// change.
    pub inputs: Vec<InputValue>,
    /// Output that the original Python notebook prints for the cell, such as `tensor([2., 0.])`, or
    /// `None` if it prints nothing. The output is a string literal in the source code of the Rust
    /// port, so it is available even if the cell hasn't run.
    pub printed: Option<String>,
    /// Outcome of the cell in a run of the notebook. It contains either the computed value and the
    /// result of its comparison, or the reason that the cell wasn't computed.
    pub outcome: Outcome,
}

impl Cell {
    /// Returns true if `name` refers to this `Cell`. `name` can come from a link on a web page or
    /// from the command line. It can be the name of a cell of the original Python notebook, such as
    /// `In [36]`, the unique name of this `Cell`, such as `In [36] (2)`, or the number of the
    /// section, such as `3.6.2`.
    pub fn is_called(&self, name: &str) -> bool {
        [&self.cell, &self.name, &self.section].contains(&&name.to_owned())
    }

    /// Returns the full name of an input that this cell reads, such as `In [24].seed`. It consists
    /// of the name of the cell in the original Python notebook and the name of the input.
    pub fn name_of(&self, input: &InputValue) -> String {
        format!("{}.{}", self.cell, input.name)
    }
}

/// Splits the source code of a notebook into the parts that learners see, such as prose and cells.
/// Combines these parts with the results of a run, which are stored in `book`. If the run ended
/// before reaching a cell, `book` has no result for that cell, and the cell's outcome says why.
///
/// The code that learners see in a cell contains everything since the previous cell in the same
/// function. It doesn't contain the calls that show other parts of the notebook, such as headings
/// and pictures.
///
/// # Panics
///
/// Panics if `book` contains a result for a line of `source` that doesn't call a method of `book`.
/// This happens, for example, if `source` isn't the source code of the notebook that was run.
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

/// Names of the [`Notebook`] methods that show parts of a notebook other than cells, such as
/// headings and pictures. If a call to one of these methods is preceded by a comment in the
/// notebook's code, learners see the comment as a separate paragraph. Otherwise, they see it as the
/// explanation of the next cell.
const IS_PART: [&str; 7] = [
    "section",
    "asks",
    "sketch",
    "listing",
    "draws",
    "multiplies",
    "leaves_out",
];

/// Returns everything after the last unindented line of `code`, which is a piece of a notebook's
/// source code, such as the code between two cells. `code` can contain the end of one function and
/// the signature of the next. Learners shouldn't see these in a cell, so only the code in the body
/// of the last function is returned.
fn inside(code: &str) -> &str {
    static OUTSIDE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)\A.*\n\S[^\n]*\n").expect("a regular expression"));
    OUTSIDE
        .find(code)
        .map_or(code, |outside| &code[outside.end()..])
}

/// Removes the comment lines at the end of `code`, a piece of a notebook's source code. Returns
/// their text, which learners see as prose. An empty line in the comment begins a new paragraph.
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

/// Returns the text of a notebook's comment lines without the slashes, so that it can be shown as
/// prose. Empty comment lines separate the paragraphs.
fn paragraphs<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let texts = lines.map(|line| line.trim_start().trim_start_matches("//").trim());
    undented(&texts.collect::<Vec<_>>().join("\n"))
}

/// Returns the outcome of the cell whose value is shown by the call at line `line` of the
/// notebook's source file. If the notebook reached this call, `book` contains the call's result,
/// which is moved out of `book` and returned. Otherwise, a function of the notebook ended before it
/// reached the cell, for example because of an error. In this case, the last function that ended at
/// or before this line determines the outcome, such as "skipped" together with the reason.
fn outcome(book: &mut Notebook, line: u32) -> Outcome {
    if let Some(record) = book.records.remove(&line) {
        return Outcome::Ran(record);
    }
    let before = book.ended.iter().filter(|(at, _)| *at <= line);
    let last = before.max_by_key(|(at, _)| *at);
    let why = last.map(|(_, why)| why.clone());
    why.unwrap_or(Outcome::Lost("not reached".to_owned()))
}

/// Splits the code of a notebook cell into the comments at its beginning and the actual code,
/// because learners see them separately. Returns the text of each block of comments, and the actual
/// code. The last block is the explanation of the cell. The returned code ends with the expression
/// whose value the cell shows, which is taken from the arguments of `call`. For example,
/// `book.prints("In [3]", &x, …)` shows the value of `x`.
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
