//! Rust ports of the book's Jupyter notebooks, which are written in Python, and of other documents
//! about the book. Each port is also called a notebook. It is a program that can be read from top
//! to bottom. It reproduces the cells of the original document with the public API of our crates,
//! and compares the results with the output in the original document.
//!
//! `cargo test` runs all notebooks. `cargo xtask verify` compares each computed value with the
//! output of the original document and reports the result. `cargo xtask notebook` shows the cells
//! of a notebook together with their output, as Jupyter does. Each expected output is written only
//! once, next to the code that computes it, with the digits that the original document prints. No
//! expected output was copied from the output of our own code.
//!
//! This crate contains the Rust ports of the book's Python notebooks. Its documentation uses the
//! following terms:
//!
//! - A *document* is an original text about the book, such as the Jupyter notebook ch03.ipynb.
//! - A *notebook* is the Rust port of a document. Its function `run` receives a variable `book` of
//!   type [`Notebook`] and calls its methods. For example, the method [`Notebook::prints`] compares
//!   a computed value with the output of the document.
//! - A *cell* of a document consists of code and its output, and has a name such as `In [36]`. In
//!   the Rust port, a [`Cell`] is a value that the notebook shows or compares, together with the
//!   code that computes the value.
//! - *Prose* is the text that explains the cells. It consists of the `//` comments between the
//!   statements of a notebook.
//! - A *learner* is a person who works through a notebook in a terminal or on a web page. Learners
//!   can change the *inputs* of a notebook, such as a seed or a text.
//! - The [`Part`]s of a notebook are the pieces that learners see one after the other: headings,
//!   prose, cells, pictures, and so on.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests write files as they like")
)]
#![expect(
    clippy::needless_borrows_for_generic_args,
    reason = "shown values are borrowed, even if they could be copied"
)]

use anyhow::Result;

mod book;
mod ch02;
mod ch02_bonus;
mod ch02_exercises;
mod ch03;
mod ch03_exercises;
mod ch04;
mod ch04_exercises;
mod ch05;
mod ch05_exercises;
mod ch05_training;
mod contents;
mod errata;
#[cfg(test)]
mod formulas;
mod input;
mod literal;
mod notes_self_attention;
mod notes_transformer;
mod printed;
mod prose;
mod small_model;
mod source;
pub mod text;
mod torch_form;
mod value;
mod worksheet;

pub use book::{InputValue, Kind, LeftOut, Notebook, Outcome, Record};
pub use contents::{Cell, Intro, Part};
pub use input::Input;
pub use printed::{Verdict, allowances, numbers};
pub use source::{item, tokens};
pub use value::{Element, Lines, Shown, Value};

/// A notebook in Rust, which is a port of one of the book's Python notebooks or of another document
/// about the book. This type stores the notebook's name, its source code and the function that runs
/// it.
pub struct Program {
    /// Name of the notebook on the command line, such as `ch03`.
    pub name: &'static str,
    /// Title of the original document. For a Python notebook, this is usually the title of the
    /// chapter, followed by the file name.
    pub title: &'static str,
    /// Path to the notebook's source file, relative to the root of the repository.
    pub path: &'static str,
    /// Rust source code of the notebook, shown to learners next to the computed values.
    pub source: &'static str,
    run: fn(&mut Notebook) -> Result<()>,
    /// Condition under which the notebook runs. For example, a notebook may run only if the user
    /// requests it by name.
    pub tier: Tier,
}

/// Condition under which a notebook runs: by default, or only if the user requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The notebook runs by default, even if the user doesn't request it by name.
    Everyday,
    /// The notebook trains a model, which takes minutes. The training is skipped unless the user
    /// requests the notebook by name.
    Long,
    /// The notebook demonstrates bugs in the original documents, such as the book's Python
    /// notebooks. It shows the results of the faulty code next to those of the corrected code. It
    /// runs only if the user requests it.
    Errata,
}

/// Settings for the training run in chapter 5 of the book, which a notebook repeats in Rust. If a
/// field is `None`, the book's value is used.
#[derive(Clone, Debug, Default)]
pub struct TrainingRun {
    /// Number of epochs of the training run, from 1 to [`TrainingRun::EPOCHS`].
    pub epochs: Option<u64>,
    /// PyTorch build whose dropout masks the training run reproduces. Different builds can draw
    /// different masks from the same seed.
    pub build: Option<torch_rng::Build>,
}

impl TrainingRun {
    /// Number of epochs in the book's training run. This is also the largest number that the user
    /// can request.
    pub const EPOCHS: u64 = 10;
}

macro_rules! programs {
    ($($module:ident $name:literal $tier:ident $title:literal)*) => {
        /// All notebooks, in the order of the book. They are Rust ports of the book's Python
        /// notebooks and of other documents.
        pub const PROGRAMS: &[Program] = &[$(Program {
            name: $name,
            title: $title,
            path: concat!("tests/notebooks/", stringify!($module), ".rs"),
            source: include_str!(concat!(stringify!($module), ".rs")),
            run: $module::run,
            tier: Tier::$tier,
        }),*];
    };
}

programs! {
    ch02 "ch02" Everyday "Chapter 2: Working with Text Data (ch02.ipynb)"
    ch02_bonus "ch02_bonus" Everyday "Chapter 2, bonus notebooks"
    ch02_exercises "ch02_exercises" Everyday "Chapter 2, exercise solutions (exercise-solutions.ipynb)"
    ch03 "ch03" Everyday "Chapter 3: Coding Attention Mechanisms (ch03.ipynb)"
    ch03_exercises "ch03_exercises" Everyday "Chapter 3, exercise solutions (exercise-solutions.ipynb)"
    ch04 "ch04" Everyday "Chapter 4: Implementing a GPT Model from Scratch (ch04.ipynb)"
    ch04_exercises "ch04_exercises" Everyday "Chapter 4, exercise solutions (exercise-solutions.ipynb)"
    ch05 "ch05" Everyday "Chapter 5: Pretraining on Unlabeled Data (ch05.ipynb)"
    ch05_exercises "ch05_exercises" Everyday "Chapter 5, exercise solutions (exercise-solutions.ipynb)"
    ch05_training "training" Long "Chapter 5, section 5.2: the training run (ch05.ipynb)"
    notes_self_attention "notes_self_attention" Everyday "Notes on self-attention"
    notes_transformer "notes_transformer" Everyday "Notes on the transformer"
    worksheet "worksheet" Everyday "Worksheet"
    errata "errata" Errata "Bugs of the documents"
}

/// Reason shown to users when a notebook skips a cell because they haven't provided the book's
/// text, the story "The Verdict".
const NEEDS_TEXT: &str = "it needs the book's text";

/// Advice for users when cells of a notebook were skipped because they haven't provided the book's
/// text. It contains the command-line option that specifies the text file, and says where to find
/// this file.
const HOW_TO_GIVE_TEXT: &str = "--book-text the-verdict.txt, a file of the book's repository \
     (ch02/01_main-chapter-code of github.com/rasbt/LLMs-from-scratch)";

/// Reason shown to learners when a notebook skips a cell that can't be computed in a web page,
/// where notebooks run as WebAssembly.
const NOT_IN_A_PAGE: &str =
    "it needs a large model, uses sizes that don't fit in 32 bits, or relies on catching a panic";

/// Reason shown to users when a notebook skips a cell that requires minutes of training. It
/// includes the command that runs the training.
const TAKES_MINUTES: &str =
    "it takes minutes (`cargo xtask verify training --book-text the-verdict.txt` compares it)";

/// Settings for running a notebook, which is a Rust port of one of the book's Python notebooks.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The book's text, the short story "The Verdict", which several notebooks use. This is `None`
    /// if the user hasn't provided the text.
    pub text: Option<&'static str>,
    /// Substitute for the book's text, used if `text` is `None`. Cells computed from the substitute
    /// aren't compared with the output of the original Python notebook, which was computed from the
    /// book's text.
    pub other_text: Option<&'static str>,
    /// Settings for the book's training run in chapter 5, which takes minutes. If this is `None`,
    /// the notebook skips the training run or trains a small model instead.
    pub training: Option<TrainingRun>,
    /// Whether to create the pictures of computed values that are shown on the notebook's web page.
    pub draws: bool,
    /// Whether the notebook runs as WebAssembly in a web page. If it does, it skips the cells that
    /// need a large model, use sizes that don't fit in 32 bits, or rely on catching a panic.
    pub small: bool,
    /// Inputs of the notebook, such as a seed, that the learner has changed. Each entry contains
    /// the text that the learner entered, preceded by the line number of the call that reads the
    /// input in the notebook's source file.
    pub inputs: Vec<(u32, String)>,
}

impl Program {
    /// Returns the parts of the notebook that learners see, such as its prose and its cells,
    /// without running the notebook. The outcome of each cell is [`Outcome::Skipped`].
    pub fn unrun(&self) -> Vec<Part> {
        let mut book = Notebook::default();
        book.ended.push((0, Outcome::Skipped("not run".to_owned())));
        contents::contents(self.source, book)
    }

    /// Runs the notebook from top to bottom and returns the parts that learners see, including the
    /// outcome of each cell. If a function that the notebook passes to [`Notebook::part`] fails,
    /// the notebook continues with the code after this function. The function's remaining cells
    /// have the outcome [`Outcome::Lost`] or [`Outcome::Skipped`].
    pub fn run(&self, settings: &Settings) -> Vec<Part> {
        let mut book = Notebook::new(settings.clone());
        book.part(self.run);
        contents::contents(self.source, book)
    }

    /// Returns the full name of a cell of this notebook, such as `ch03::3.6.2::In [36]`. It
    /// consists of the name of the notebook, the number of the section and the name of the cell.
    pub fn full_name(&self, cell: &Cell) -> String {
        format!("{}::{}::{}", self.name, cell.section, cell.name)
    }
}

/// Returns the cells of a notebook in their original order. `parts` contains everything that the
/// notebook shows to learners. Parts that aren't cells, such as headings, prose and pictures, are
/// left out.
pub fn cells(parts: &[Part]) -> impl Iterator<Item = &Cell> {
    parts.iter().filter_map(|part| match part {
        Part::Cell(cell) => Some(cell.as_ref()),
        _ => None,
    })
}

/// Returns advice on how to provide the book's text if at least one of the notebook's cells needs
/// it and the user hasn't provided it. Such a cell was either skipped or computed from a
/// substitute. Returns `None` otherwise.
pub fn how_to_give_text<'a>(mut cells: impl Iterator<Item = &'a Cell>) -> Option<&'static str> {
    let needs = |cell: &Cell| match &cell.outcome {
        Outcome::Skipped(why) => why == NEEDS_TEXT,
        Outcome::Ran(record) => record.kind == Kind::OtherText,
        Outcome::Lost(_) => false,
    };
    cells.any(needs).then_some(HOW_TO_GIVE_TEXT)
}

/// Returns the inputs of a notebook, each together with the cell whose code reads it. An input is a
/// value, such as a seed, that learners can change. `parts` contains everything that the notebook
/// shows to learners.
pub fn inputs(parts: &[Part]) -> impl Iterator<Item = (&Cell, &InputValue)> {
    cells(parts).flat_map(|cell| cell.inputs.iter().map(move |input| (cell, input)))
}

#[cfg(test)]
fn fails(book: &mut Notebook) -> Result<()> {
    book.prints("c", &1usize, "1");
    if book.epochs(1) == 1 {
        panic!("a reason");
    }
    book.prints("d", &1usize, "1");
    Ok(())
}

#[cfg(test)]
fn needs_the_text(book: &mut Notebook) -> Result<()> {
    book.the_verdict()?;
    book.prints("e", &1usize, "1");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn listings_are_there_and_cells_have_names_and_say_what_they_show() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut names = HashSet::new();
        for program in PROGRAMS {
            let parts = program.unrun();
            for part in &parts {
                if let Part::Listing { path, start } = part {
                    let source = std::fs::read_to_string(root.join(path)).expect(path);
                    assert!(item(&source, start).is_some(), "{path}: {start}");
                }
            }
            for cell in cells(&parts) {
                let name = program.full_name(cell);
                assert!(!cell.section.is_empty() && !cell.cell.is_empty(), "{name}");
                assert!(names.insert(name.clone()), "two cells {name}");
                let explained = ["ch03", "ch04", "ch05", "training"].contains(&program.name);
                let first = cell.name == cell.cell;
                assert!(!explained || !first || cell.is_introduced, "{name}: why?");
            }
        }
    }

    #[test]
    fn a_fault_loses_the_cells_of_its_part_that_follow_and_a_wrong_input_its_own_cell() {
        fn run(book: &mut Notebook) -> Result<()> {
            book.section(&["", "1"].concat(), "One");
            book.prints("a", &1usize, "1");
            let two = 1 + book.input("one", 1usize, ..=1);
            book.listing("x.rs", "fn x");
            book.prints("b", &two, "1");
            book.part(fails);
            book.part(needs_the_text);
            book.prints("f", &1usize, "1");
            Ok(())
        }
        const SOURCE: &str = include_str!("lib.rs");
        let program = Program {
            name: "x",
            title: "X",
            path: "x.rs",
            source: SOURCE,
            run,
            tier: Tier::Everyday,
        };
        let is_input = |line: &&str| line.contains(&["book", "input(\"one\""].join("."));
        let before = SOURCE.lines().take_while(|line| !is_input(line)).count();
        let seen = |value: &str| {
            let parts = program.run(&Settings {
                inputs: vec![(before as u32 + 1, value.to_owned())],
                ..Settings::default()
            });
            let seen = cells(&parts).map(|cell| match &cell.outcome {
                Outcome::Ran(record) => (cell.name.clone(), record.verdict.faults.join("")),
                Outcome::Lost(why) | Outcome::Skipped(why) => (cell.name.clone(), why.clone()),
            });
            (
                seen.collect::<Vec<_>>(),
                cells(&parts).nth(4).unwrap().code.clone(),
            )
        };
        for (value, code, of_b) in [
            ("1", "1 + 1usize", "[]: printed 1, computed 2"),
            ("0", "1 + 0", ""),
            (
                "2",
                "1 + 1usize",
                "the input one: expected at most 1, got 2",
            ),
        ] {
            let (seen, shown) = seen(value);
            let expected = [
                ("c", ""),
                ("d", "not reached: panicked: a reason"),
                ("e", NEEDS_TEXT),
                ("a", ""),
                ("b", of_b),
                ("f", ""),
            ];
            assert_eq!(
                seen,
                expected.map(|(name, why)| (name.to_owned(), why.to_owned()))
            );
            assert_eq!(shown, format!("let two = {code};\ntwo"));
        }
    }
}
