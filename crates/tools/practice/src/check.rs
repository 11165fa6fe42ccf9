//! A check of one exercise: each row runs the reader's function on an input, and known mistakes
//! on the same input.
//!
//! A known mistake is a wrong version of the function. If the reader's function fails and gives
//! the same results as one of the mistakes, the report names the mistake.

use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Mutex;

use atomic_file::write_atomically;
use ndarray::{Array, Array2};
use notebooks::{PROGRAMS, allowances, cells};
use torch_rng::TorchRng;

use crate::answer::{Answer, ToAnswer, usual};

/// Name of the environment variable with the path of the file that [`Report::print`] writes.
/// Without this variable, the report goes to standard output.
pub const REPORT_FILE: &str = "PRACTICE_REPORT_FILE";

/// Text of a row whose function is still `todo!()`, and of a report of such rows only.
const NOT_WRITTEN: &str = "not written yet";

/// Column in which the text of a row begins, unless a label is longer.
const TEXT_COLUMN: usize = 34;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every function is still `todo!()`.
    NotWritten,
    /// The number of checks that passed, and the number of all checks.
    Checked(usize, usize),
}

impl Outcome {
    /// Returns the outcome of a printed report, or `None` if the text is not a whole report.
    pub fn of_report(text: &str) -> Option<Self> {
        let last = text.lines().last()?;
        if last == NOT_WRITTEN {
            return Some(Self::NotWritten);
        }
        let (passed, total) = last.strip_suffix(" checks passed")?.split_once(" of ")?;
        Some(Self::Checked(passed.parse().ok()?, total.parse().ok()?))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWritten => f.write_str(NOT_WRITTEN),
            Self::Checked(passed, total) => write!(f, "{passed} of {total} checks passed"),
        }
    }
}

/// The report of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// A line for each check, followed by the mistake that it recognized.
    pub lines: Vec<String>,
    /// The result of all checks.
    pub outcome: Outcome,
}

impl Report {
    /// Prints the report, or writes it to the file that [`REPORT_FILE`] names, so that
    /// `cargo xtask practice` can tell it from other output of the program.
    pub fn print(&self) {
        let Some(path) = std::env::var_os(REPORT_FILE) else {
            print!("{self}");
            return;
        };
        let text = self.to_string();
        if let Err(error) = write_atomically(path, |out| out.write_all(text.as_bytes())) {
            eprintln!("the result can't be stored: {error}");
        }
    }

    /// Returns true if all checks passed.
    pub fn is_done(&self) -> bool {
        matches!(self.outcome, Outcome::Checked(passed, total) if passed == total)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, " {line}")?;
        }
        writeln!(f, "{}", self.outcome)
    }
}

/// A known mistake: its description, and functions that make it.
pub(crate) type Mistake<F> = (&'static str, F);

/// The result of one check.
enum Verdict {
    Passed(String),
    Failed(String),
    NotWritten,
}

/// One check.
struct Row {
    label: String,
    verdict: Verdict,
    /// True for each known mistake that gives the reader's result.
    same_as: Vec<bool>,
    /// True if the result is specific enough to recognize a mistake by this row alone.
    is_specific: bool,
}

/// The checks of one exercise, while they run. `F` is the reader's function, or a tuple of the
/// reader's functions.
pub(crate) struct Check<F: 'static> {
    yours: F,
    mistakes: &'static [Mistake<F>],
    rows: Vec<Row>,
}

impl<F: Copy> Check<F> {
    pub(crate) fn new(yours: F, mistakes: &'static [Mistake<F>]) -> Self {
        Self {
            yours,
            mistakes,
            rows: Vec::new(),
        }
    }

    /// Compares a result with the figures that a notebook prints: the output number `nth` (from 0)
    /// of a cell.
    pub(crate) fn printed<T: ToAnswer>(
        &mut self,
        label: &str,
        (notebook, cell, nth): (&str, &str, usize),
        run: impl Fn(F) -> T,
    ) {
        let name = match nth {
            0 => cell.to_owned(),
            nth => format!("{cell} ({})", nth + 1),
        };
        let program = PROGRAMS.iter().find(|program| program.name == notebook);
        let parts = program.map(|program| program.unrun()).unwrap_or_default();
        let printed = cells(&parts).find(|it| it.name == name && it.printed.is_some());
        let printed = printed.and_then(|cell| cell.printed.clone());
        let printed = printed.unwrap_or_else(|| panic!("{notebook} {name} prints nothing"));
        let (values, allowed): (Vec<f64>, Vec<f64>) = allowances(&printed).into_iter().unzip();
        self.row(label, run, true, |ours| {
            let shape = match ours {
                Answer::Numbers(shape, _) => shape.clone(),
                _ => vec![ours.numbers().len()],
            };
            let numbers = ours.numbers();
            if numbers.len() != values.len() {
                let (n, of) = (numbers.len(), values.len());
                return Err(format!("{n} numbers instead of {of}"));
            }
            let expected = Answer::Numbers(shape.clone(), values.clone());
            let ours = Answer::Numbers(shape, numbers);
            match ours.difference(&expected, |index, _| allowed[index]) {
                Some(difference) => Err(difference),
                None => Ok(printed.lines().next().unwrap_or_default().to_owned()),
            }
        });
    }

    /// Compares a result with the expected result.
    pub(crate) fn equals<T: ToAnswer>(
        &mut self,
        label: &str,
        expected: impl ToAnswer,
        run: impl Fn(F) -> T,
    ) {
        let expected = expected.answer();
        self.row(label, run, true, |ours| {
            match ours.difference(&expected, usual) {
                Some(difference) => Err(difference),
                None => Ok(String::new()),
            }
        });
    }

    /// Checks a property that every right function has. `holds` returns an error that describes
    /// the violation.
    pub(crate) fn holds(&mut self, label: &str, holds: impl Fn(F) -> Result<(), String>) {
        let violation = |functions| holds(functions).err().unwrap_or_default();
        self.row(label, violation, false, |violation| match violation {
            Answer::Text(text) if !text.is_empty() => Err(text.clone()),
            _ => Ok(String::new()),
        });
    }

    fn row<T: ToAnswer>(
        &mut self,
        label: &str,
        run: impl Fn(F) -> T,
        is_specific: bool,
        judge: impl Fn(&Answer) -> Result<String, String>,
    ) {
        let result = |functions| quietly(|| run(functions).answer());
        let ours = result(self.yours);
        let verdict = match &ours {
            Ok(answer) => match judge(answer) {
                Ok(text) => Verdict::Passed(text),
                Err(difference) => Verdict::Failed(difference),
            },
            Err(panic) if panic.message.starts_with("not yet implemented") => Verdict::NotWritten,
            Err(panic) => Verdict::Failed(panic.to_string()),
        };
        let is_same = |&(_, functions): &Mistake<F>| match (&ours, &result(functions)) {
            (Ok(ours), Ok(answer)) if is_specific => ours.equals(answer),
            (Ok(ours), Ok(answer)) => judge(ours).is_ok() == judge(answer).is_ok(),
            (Err(ours), Err(panic)) => ours.message == panic.message,
            _ => false,
        };
        self.rows.push(Row {
            label: label.to_owned(),
            verdict,
            same_as: self.mistakes.iter().map(is_same).collect(),
            is_specific,
        });
    }

    /// Returns the report.
    pub(crate) fn report(self) -> Report {
        let is_passed = |row: &&Row| matches!(row.verdict, Verdict::Passed(_));
        let is_unwritten = |row: &Row| matches!(row.verdict, Verdict::NotWritten);
        if self.rows.iter().all(is_unwritten) {
            return Report {
                lines: Vec::new(),
                outcome: Outcome::NotWritten,
            };
        }
        let widths = self.rows.iter().map(|row| row.label.chars().count() + 2);
        let width = widths.max().unwrap_or_default().max(TEXT_COLUMN);
        let mut named = Vec::new();
        let mut lines = Vec::new();
        for row in &self.rows {
            let text = match &row.verdict {
                Verdict::Passed(printed) => format!("{printed} ok").trim_start().to_owned(),
                Verdict::Failed(difference) => difference.clone(),
                Verdict::NotWritten => NOT_WRITTEN.to_owned(),
            };
            lines.push(format!("{:<width$}{text}", row.label));
            let is_failed = matches!(row.verdict, Verdict::Failed(_));
            if let Some(mistake) = self.mistake_of(row).filter(|_| is_failed)
                && !named.contains(&mistake)
            {
                named.push(mistake);
                lines.push(format!("{:<width$}a known mistake: {mistake}", ""));
            }
        }
        let passed = self.rows.iter().filter(is_passed).count();
        Report {
            lines,
            outcome: Outcome::Checked(passed, self.rows.len()),
        }
    }

    /// Returns the mistake that explains a row: the only one that gives the reader's results in
    /// all rows, or else the only one that gives the reader's result in this row.
    fn mistake_of(&self, row: &Row) -> Option<&'static str> {
        let only = |is_it: &dyn Fn(usize) -> bool| {
            let mut those = (0..self.mistakes.len()).filter(|&place| is_it(place));
            let first = those.next()?;
            those.next().is_none().then_some(self.mistakes[first].0)
        };
        let everywhere = only(&|place| self.rows.iter().all(|row| row.same_as[place]));
        everywhere.or_else(|| only(&|place| row.is_specific && row.same_as[place]))
    }
}

/// Checks that probabilities sum to 1.
pub(crate) fn sum_is_1(sum: f32) -> Result<(), String> {
    match (sum - 1.0).abs() < 1e-5 {
        true => Ok(()),
        false => Err(format!("the sum is {sum} instead of 1")), // of NaN, too
    }
}

/// Draws normal numbers from a seed.
pub(crate) fn random(rows: usize, columns: usize, seed: u64) -> Array2<f32> {
    let numbers = TorchRng::manual_seed(seed).randn(rows * columns);
    Array::from_shape_vec((rows, columns), numbers).expect("rows * columns numbers")
}

/// A panic of the reader's function.
struct Panic {
    message: String,
    /// The file and the line, if they are the reader's.
    place: Option<String>,
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it panicked: {}", self.message)?;
        match &self.place {
            Some(place) => write!(f, " ({place})"),
            None => Ok(()),
        }
    }
}

/// Runs a function and returns its panic as an error, without a message on the screen.
fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, Panic> {
    static PLACE: Mutex<Option<String>> = Mutex::new(None);
    let place = || {
        PLACE
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    };
    let hook = take_hook();
    set_hook(Box::new(move |info| {
        let location = info
            .location()
            .map(|at| format!("{}:{}", at.file(), at.line()));
        *place() = location.filter(|at| at.starts_with("src"));
    }));
    let result = catch_unwind(AssertUnwindSafe(run));
    set_hook(hook);
    result.map_err(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or(panic.downcast_ref::<&str>().map(ToString::to_string));
        Panic {
            message: message.unwrap_or_default(),
            place: place().take(),
        }
    })
}
