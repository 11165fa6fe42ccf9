//! Splits the source code of a notebook into the parts that learners see in a web page or a
//! terminal, such as prose, cells and pictures, and combines them with the results from a run of
//! the notebook. (A notebook is a Rust port of an original document, usually one of the book's
//! Python notebooks.) Each part except prose is created by a statement such as `book.prints(…)`,
//! which calls a method of [`Notebook`]. In this module, a *call* is either such a statement or an
//! expression that reads an input (a value that the learner can change), and its line number refers
//! to the notebook's source file.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::book::{InputValue, LeftOut, Notebook, Outcome};
use crate::source::{Call, calls, undented, without_lints};

/// A part of a notebook that learners see in a web page or a terminal, such as a heading, a
/// paragraph of prose, or a cell. A notebook is a Rust port of one of the book's Python notebooks.
pub enum Part {
    /// The heading that begins a section of the notebook.
    Section {
        /// Number of the section in the book, such as `3.6.2`.
        number: String,
        /// Title that the section has in the original Python notebook.
        title: String,
    },
    /// The introduction of a notebook, which consists of its goal, its prerequisites and the time
    /// that it takes to read the notebook.
    Intro(Intro),
    /// Prose: text that explains the notebook to learners, written as `//` comments in its source
    /// code. This variant contains only prose that doesn't explain the code of a particular cell.
    Prose {
        /// Line number of the first call of a [`Notebook`] method after the prose, in the
        /// notebook's source file.
        line: u32,
        /// The prose, without the slashes of the `//` comments in which it is written. Empty lines
        /// separate its paragraphs.
        text: String,
    },
    /// A question that the notebook asks the learner about a section, together with its answer.
    Question {
        /// Line number of the call that asks the question, in the notebook's source file.
        line: u32,
        /// Text of the question that the learner should answer.
        question: String,
        /// Answer to the question. In a web page, the answer is hidden until the learner opens it.
        answer: String,
    },
    /// A drawing that consists of text, such as a diagram of array shapes.
    Sketch {
        /// Line number of the call that shows the drawing, in the notebook's source file.
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
        /// Beginning of the first line of the item, such as `pub fn generate(`. The item is found
        /// in the source file by searching for this text.
        start: String,
    },
    /// A picture of values that the notebook computes, such as attention weights.
    Figure {
        /// Title of the picture, which learners see.
        name: String,
        /// Line number of the call that draws the picture, in the notebook's source file.
        line: u32,
        /// HTML of the picture, which the web page of the notebook shows. It is `None` if the
        /// settings didn't request pictures, or if the run ended before the notebook drew the
        /// picture.
        html: Option<String>,
    },
    /// A cell: a value that the notebook shows to learners and may compare with the output of the
    /// original Python notebook, together with the code that computes this value.
    Cell(Box<Cell>),
    /// A note that tells learners about values that the original Python notebook prints but that
    /// its Rust port doesn't compute or doesn't compare.
    LeftOut(LeftOut),
}

/// The introduction of a notebook, which tells learners what the notebook covers and what they
/// should know beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intro {
    /// Goal of the notebook, which is shown to learners at its beginning.
    pub goal: String,
    /// What learners should know before they begin the notebook, such as the contents of earlier
    /// chapters.
    pub prerequisites: String,
    /// Time in minutes that reading the notebook takes.
    pub minutes: String,
}

/// Text of the comment `// ...`, which marks a cell of a notebook as a continuation of the previous
/// cell. Such a cell needs no explanation of its own, so learners see only its code and its value.
const CONTINUES: &str = "...";

/// A cell of a notebook, which is a Rust port of one of the book's Python notebooks: a value that
/// the notebook shows to learners, the code that computes this value, an explanation, and the
/// result of comparing the value with the output of the original Python notebook. If a cell of the
/// Python notebook prints several values, the Rust port has a separate `Cell` for each of them.
pub struct Cell {
    /// Number of the section that contains the cell, such as `3.6.2`.
    pub section: String,
    /// Title of the section of the notebook that contains the cell.
    pub title: String,
    /// Name of the corresponding cell in the original Python notebook, such as `In [36]`.
    pub cell: String,
    /// Name of this `Cell`, which is unique within its section. If a cell of the original Python
    /// notebook, such as `In [36]`, prints several values, the `Cell` with the first value also has
    /// the name `In [36]`, the next `Cell` has the name `In [36] (2)`, and so on.
    pub name: String,
    /// Line number, in the notebook's source file, of the call that shows or compares the value of
    /// the cell, such as `book.prints(…)`.
    pub line: u32,
    /// Explanation that tells learners what the cell computes and why. It is the text of the
    /// comment before the cell's code. It is empty if there is no comment, or if the comment only
    /// marks the cell as a continuation of the previous cell.
    pub about: String,
    /// Whether learners are told what the cell computes, or don't need to be told. This is true if
    /// there is a comment or other prose before the cell's code, or if the cell is marked as a
    /// continuation of the previous cell.
    pub is_introduced: bool,
    /// Code of the cell that the web page or the terminal shows to learners: all code since the end
    /// of the previous cell, followed by the expression whose value the cell shows.
    pub code: String,
    /// Inputs that the cell's code reads, which are values (such as a seed) that learners can
    /// change.
    pub inputs: Vec<InputValue>,
    /// Output that the original Python notebook prints for the cell, such as `tensor([2., 0.])`, or
    /// `None` if it prints nothing. This output is a string literal in the source code of the Rust
    /// port, so it is available even if the cell hasn't run.
    pub printed: Option<String>,
    /// Outcome of the cell in a run of the notebook: the computed value and the result of its
    /// comparison, or the reason why the cell wasn't computed.
    pub outcome: Outcome,
}

impl Cell {
    /// Returns true if `name`, which can come from a link in a web page or from the command line,
    /// refers to this `Cell`. It can be the name of a cell of the original Python notebook, such as
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

/// Splits the source code of a notebook into the parts that learners see, such as prose and cells,
/// and combines the parts with the results of a run, which are stored in `book`. If the run ended
/// before it reached a cell, so that `book` contains no result for it, the cell's outcome gives the
/// reason.
///
/// The code that learners see in a cell of the notebook consists of everything since the previous
/// cell in the same function, except for the calls that show other parts of the notebook, such as
/// headings and pictures.
///
/// # Panics
///
/// Panics if `book` contains a result for a line number at which the notebook's source code doesn't
/// call a method of `book`, for example because `source` isn't the source code of the notebook that
/// was run.
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

/// Names of the [`Notebook`] methods that show a part of the notebook other than a cell, such as a
/// heading or a picture. If a comment in the notebook's code precedes a call of such a method,
/// learners see the comment as a paragraph of its own. Otherwise, they see it as the explanation of
/// the next cell.
const IS_PART: [&str; 7] = [
    "section",
    "asks",
    "sketch",
    "listing",
    "draws",
    "multiplies",
    "leaves_out",
];

/// Returns the part of `code` that belongs to the body of the last function in it, which is
/// everything after the last unindented line. `code` is a piece of a notebook's source code, such
/// as the code between two cells. It can contain the end of one function and the signature of the
/// next one, which learners shouldn't see as the code of a cell.
fn inside(code: &str) -> &str {
    static OUTSIDE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)\A.*\n\S[^\n]*\n").expect("a regular expression"));
    OUTSIDE
        .find(code)
        .map_or(code, |outside| &code[outside.end()..])
}

/// Removes the comment lines at the end of `code`, a piece of a notebook's source code, and returns
/// their text, which learners see as prose. Wherever the comment contains an empty line, a new
/// paragraph begins.
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

/// Returns the text of the comment lines of a notebook without the slashes, so that it can be shown
/// as prose. Empty comment lines separate the paragraphs of the text.
fn paragraphs<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let texts = lines.map(|line| line.trim_start().trim_start_matches("//").trim());
    undented(&texts.collect::<Vec<_>>().join("\n"))
}

/// Returns the outcome of the cell whose value is shown by the call at the line number `line` of
/// the notebook's source file. If the notebook reached this call, `book` contains its result, which
/// is moved out of `book` and returned. Otherwise, a function of the notebook (such as one that
/// failed with an error) ended before it reached the cell. In this case, the last function that
/// ended at or before this line determines the outcome, such as "skipped" together with the reason.
fn outcome(book: &mut Notebook, line: u32) -> Outcome {
    if let Some(record) = book.records.remove(&line) {
        return Outcome::Ran(record);
    }
    let before = book.ended.iter().filter(|(at, _)| *at <= line);
    let last = before.max_by_key(|(at, _)| *at);
    let why = last.map(|(_, why)| why.clone());
    why.unwrap_or(Outcome::Lost("not reached".to_owned()))
}

/// Splits the code of a notebook's cell into the comments at its beginning and the actual code,
/// which are shown separately to learners. Returns the text of each block of comments, the last of
/// which is the explanation of the cell, and the actual code. The returned code ends with the
/// expression whose value the cell shows. This expression is taken from the arguments of `call`:
/// for example, `book.prints("In [3]", &x, …)` shows the value of `x`.
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
