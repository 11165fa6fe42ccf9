//! The book as programs: each notebook reads from top to bottom, computes its cells with the crates' public items, and compares them with what the notebook prints.
//!
//! `cargo test` runs every cell as a test, `cargo xtask verify` reports them, `cargo xtask notebook` prints them as the notebook does.
//! A figure stands here once, as the digits that the document prints; none comes from our own output.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::Result;
use pictures::Picture;

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
mod errata;
mod literal;
mod notes_self_attention;
mod notes_transformer;
mod outline;
mod printed;
mod select;
pub mod text;
mod torch_form;
mod value;
mod worksheet;

pub use book::{Kind, LeftOut, Notebook, Record};
pub use outline::{Cell, Item, Outline, item};
pub use printed::Verdict;
pub use select::{Selection, select, test_name};
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

/// A notebook that has run.
pub struct Finished {
    /// In the order of the outline's cells.
    pub cells: Vec<(Cell, Outcome)>,
    /// Figures that are not compared.
    pub left_out: Vec<LeftOut>,
    /// Each with the line of its call; none unless they were asked for.
    pub pictures: Vec<(u32, Picture)>,
}

impl Program {
    /// Its sections and cells.
    ///
    /// # Errors
    /// The source does not keep to the form that [`Outline::read`] knows.
    pub fn outline(&self) -> Result<Outline> {
        Outline::read(self.source).map_err(|error| error.context(format!("notebook {}", self.name)))
    }

    /// Runs it from top to bottom, drawing its pictures if `draws`; a panic or an error loses the cells that follow.
    ///
    /// # Errors
    /// The source does not keep to the form that [`Outline::read`] knows.
    pub fn run(
        &self,
        text: Option<&'static str>,
        training: &TrainingRun,
        draws: bool,
    ) -> Result<Finished> {
        let mut book = Notebook::new(text, training.clone(), draws);
        let result = catch_unwind(AssertUnwindSafe(|| (self.run)(&mut book)));
        let fault = match result {
            Ok(Ok(())) => "not reached".to_owned(),
            Ok(Err(error)) => format!("not reached: {error:#}"),
            Err(panic) => {
                let message = panic.downcast_ref::<String>().map(String::as_str);
                let message = message.or(panic.downcast_ref::<&str>().copied());
                format!("not reached: panicked: {}", message.unwrap_or("no message"))
            }
        };
        let outline = self.outline()?;
        let cells = outline.cells().map(|cell| {
            let mut records = book
                .records
                .iter()
                .filter(|record| record.line == cell.line);
            let outcome = match (records.next(), records.next()) {
                (Some(_), Some(_)) => Outcome::Lost("its line ran twice".to_owned()),
                (Some(record), None) => Outcome::Ran(record.clone()),
                (None, _) if cell.needs_text && text.is_none() => {
                    Outcome::Skipped("needs the book's text".to_owned())
                }
                (None, _) => match &book.ended {
                    Some(why) => Outcome::Skipped(why.clone()),
                    None => Outcome::Lost(fault.clone()),
                },
            };
            (cell.clone(), outcome)
        });
        Ok(Finished {
            cells: cells.collect(),
            left_out: book.left_out,
            pictures: book.pictures.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_listing_that_a_notebook_prints_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for program in PROGRAMS {
            for part in program.outline().unwrap().items {
                if let Item::Listing { path, start } = part {
                    let source = std::fs::read_to_string(root.join(&path)).expect(&path);
                    item(&source, &start).unwrap();
                }
            }
        }
    }

    #[test]
    fn an_error_loses_the_cells_that_follow_and_no_others() {
        fn run(book: &mut Notebook) -> Result<()> {
            book.section("1", "One");
            book.prints("a", &1usize, "1");
            book.prints("b", &1usize, "2");
            anyhow::ensure!(book.the_verdict().is_some(), "a reason");
            book.prints("c", &1usize, "1");
            Ok(())
        }
        let source = include_str!("lib.rs");
        let line =
            |cell: &str| 1 + source.lines().position(|line| line.contains(cell)).unwrap() as u32;
        let mut program = Program {
            name: "x",
            title: "X",
            path: "x.rs",
            source: "",
            run,
            tier: Tier::Everyday,
        };
        let numbered = format!(
            "{}{}",
            "\n".repeat(line("fn run(book: &mut Notebook)") as usize - 1),
            &source[source.find("fn run(book").unwrap()..]
        );
        program.source = Box::leak(
            numbered
                .split("Ok(())")
                .next()
                .unwrap()
                .to_owned()
                .into_boxed_str(),
        );
        let outcomes: Vec<_> = program
            .run(None, &TrainingRun::default(), false)
            .unwrap()
            .cells;
        let faults = |index: usize| match &outcomes[index].1 {
            Outcome::Ran(record) => record.verdict.faults.clone(),
            Outcome::Lost(fault) | Outcome::Skipped(fault) => vec![fault.clone()],
        };
        assert_eq!(outcomes.len(), 3);
        assert_eq!(faults(0), Vec::<String>::new());
        assert_eq!(faults(1), ["[]: printed 2, computed 1"]);
        assert_eq!(faults(2), ["not reached: a reason"]);
    }
}
