//! The book as programs: each notebook reads from top to bottom, computes its cells with the
//! crates' public items, and compares them with what the notebook prints.
//!
//! `cargo test` runs every cell as a test, `cargo xtask verify` reports them,
//! `cargo xtask notebook` prints them as the notebook does.
//! A figure stands here once, as the digits that the document prints; none comes from our own
//! output.

#![expect(
    clippy::needless_borrows_for_generic_args,
    reason = "what is shown is borrowed, whether it could be copied or not"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};

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
mod input;
mod literal;
mod notes_self_attention;
mod notes_transformer;
mod printed;
mod source;
pub mod text;
mod torch_form;
mod value;
mod worksheet;

pub use book::{Given, Kind, LeftOut, Notebook, Record};
pub use contents::{Cell, Outcome, Part};
pub use input::Input;
pub use printed::{Verdict, numbers};
pub use source::{item, tokens};
pub use value::{Element, Shown, Value};

/// A document of the book, as a program.
pub struct Program {
    /// The name that filters know: `ch03`.
    pub name: &'static str,
    /// The document's title.
    pub title: &'static str,
    /// Its file in the repository.
    pub path: &'static str,
    /// Its Rust source.
    pub source: &'static str,
    run: fn(&mut Notebook) -> Result<()>,
    /// Whether it runs only when it is named.
    pub tier: Tier,
}

/// When a notebook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Always.
    Everyday,
    /// Only when its name is given: it takes minutes.
    Long,
    /// The bugs of the documents, run beside the right code.
    Errata,
}

/// How chapter 5's training is run.
#[derive(Clone, Debug)]
pub struct TrainingRun {
    /// How many of the book's ten epochs.
    pub epochs: u64,
    /// The dropout of which build of PyTorch.
    pub build: torch_rng::Build,
    /// Where to write every step as JSON.
    pub json: Option<std::path::PathBuf>,
}

impl TrainingRun {
    /// The book's number of epochs.
    pub const EPOCHS: u64 = 10;
}

impl Default for TrainingRun {
    fn default() -> Self {
        Self {
            epochs: Self::EPOCHS,
            build: torch_rng::Build::Portable,
            json: None,
        }
    }
}

macro_rules! programs {
    ($($module:ident $name:literal $tier:ident $title:literal)*) => {
        /// All notebooks, in the order of the book.
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

/// Why cells are left out of small runs.
const NOT_SMALL: &str =
    "it needs a model of 124 million parameters, or what a page's 32 bits can't do";

/// What a run is asked for.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The book's text, if it is at hand.
    pub text: Option<&'static str>,
    /// How chapter 5's training is run.
    pub training: TrainingRun,
    /// Whether pictures are drawn.
    pub draws: bool,
    /// Whether cells are left out that take too much for a page: models of 124 million
    /// parameters, numbers beyond 32 bits, panics that are caught.
    pub small: bool,
    /// Inputs that are not what the document has: the line of the call, and what a reader wrote.
    pub inputs: Vec<(u32, String)>,
}

impl Program {
    /// Its parts as they stand in its source; no cell has run, because of `why`.
    pub fn unrun(&self, why: &str) -> Vec<Part> {
        let mut book = Notebook::new(self.source, Settings::default());
        book.ended = Some(why.to_owned());
        contents::contents(self.source, book, Outcome::default())
    }

    /// Runs it from top to bottom; a panic or an error loses the cells that follow.
    pub fn run(&self, settings: &Settings) -> Vec<Part> {
        let mut book = Notebook::new(self.source, settings.clone());
        let result = catch_unwind(AssertUnwindSafe(|| (self.run)(&mut book)));
        let unrun = match result {
            Ok(Ok(())) if !settings.small => Outcome::Lost("not reached".to_owned()),
            Ok(Ok(())) if settings.inputs.is_empty() => Outcome::Skipped(NOT_SMALL.to_owned()),
            Ok(Ok(())) => Outcome::Skipped("nothing that it needs was changed".to_owned()),
            Ok(Err(error)) => Outcome::Lost(format!("not reached: {error:#}")),
            Err(panic) => {
                let message = panic.downcast_ref::<String>().map(String::as_str);
                let message = message.or(panic.downcast_ref::<&str>().copied());
                let message = message.unwrap_or("no message");
                Outcome::Lost(format!("not reached: panicked: {message}"))
            }
        };
        contents::contents(self.source, book, unrun)
    }

    /// The name of the test that runs a cell: `ch03::3.6.2::In [36]`.
    pub fn test_name(&self, cell: &Cell) -> String {
        format!("{}::{}::{}", self.name, cell.section, cell.name)
    }
}

/// The cells among a notebook's parts.
pub fn cells(parts: &[Part]) -> impl Iterator<Item = &Cell> {
    parts.iter().filter_map(|part| match part {
        Part::Cell(cell) => Some(cell.as_ref()),
        _ => None,
    })
}

/// The inputs of a notebook's parts, each with its cell.
pub fn inputs(parts: &[Part]) -> impl Iterator<Item = (&Cell, &Given)> {
    cells(parts).flat_map(|cell| cell.inputs.iter().map(move |input| (cell, input)))
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
            let parts = program.unrun("listed");
            for part in &parts {
                if let Part::Listing { path, start } = part {
                    let source = std::fs::read_to_string(root.join(path)).expect(path);
                    assert!(item(&source, start).is_some(), "{path}: {start}");
                }
            }
            for cell in cells(&parts) {
                let name = program.test_name(cell);
                assert!(!cell.section.is_empty() && !cell.cell.is_empty(), "{name}");
                assert!(names.insert(name.clone()), "two cells {name}");
                let explained = ["ch03", "ch04", "ch05", "training"].contains(&program.name);
                let first = cell.name == cell.cell;
                assert!(
                    !explained || !first || !cell.about.is_empty(),
                    "{name}: why?"
                );
            }
        }
    }

    #[test]
    fn an_error_loses_the_cells_that_follow_and_no_others() {
        fn run(book: &mut Notebook) -> Result<()> {
            book.section(&["", "1"].concat(), "One");
            book.prints("a", &1usize, "1");
            let two = 2usize;
            book.listing("x.rs", "fn x");
            book.prints("b", &two, "1");
            anyhow::ensure!(book.training().epochs == 0, "a reason");
            book.prints("c", &1usize, "1");
            Ok(())
        }
        let program = Program {
            name: "x",
            title: "X",
            path: "x.rs",
            source: include_str!("lib.rs"),
            run,
            tier: Tier::Everyday,
        };
        let parts = program.run(&Settings::default());
        let cells: Vec<&Cell> = cells(&parts).collect();
        let faults = |index: usize| match &cells[index].outcome {
            Outcome::Ran(record) => record.verdict.faults.clone(),
            Outcome::Lost(fault) | Outcome::Skipped(fault) => vec![fault.clone()],
        };
        assert_eq!(cells.len(), 3);
        assert_eq!(program.test_name(cells[0]), "x::1::a");
        assert_eq!(cells[1].code, "let two = 2usize;\ntwo");
        assert_eq!(faults(0), Vec::<String>::new());
        assert_eq!(faults(1), ["[]: printed 1, computed 2"]);
        assert_eq!(faults(2), ["not reached: a reason"]);
    }
}
