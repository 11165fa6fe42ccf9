//! The check of an exercise.
//!
//! A check tests whether a learner has solved an exercise correctly. It consists of rows. Each row
//! runs the learner's functions on one input and compares the result with the expected result. To
//! recognize typical mistakes, each row also runs the exercise's known mistakes, which are
//! incorrect versions of the functions, on the same input. If the learner's result is wrong and
//! equals the result of a known mistake, the report describes this mistake as the likely cause.

use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Mutex;

use atomic_file::write_atomically;
use ndarray::{Array, Array2};
use notebooks::{PROGRAMS, allowances, cells};
use torch_rng::TorchRng;

use crate::answer::{Answer, ToAnswer, usual, wrong_count};

/// Name of the environment variable that contains the path of the file to which [`Report::print`]
/// writes. If the variable isn't set, the report is printed on standard output.
pub const REPORT_FILE: &str = "PRACTICE_REPORT_FILE";

/// Text that the report shows as the result of a function that still consists of `todo!()`. If the
/// learner hasn't written any of the functions yet, the report consists only of this text.
const NOT_WRITTEN: &str = "not written yet";

/// Column in which the results begin, unless a label is longer.
const TEXT_COLUMN: usize = 34;

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All functions still consist of `todo!()`.
    NotWritten,
    /// Number of rows that passed, and total number of rows.
    Checked(usize, usize),
}

impl Outcome {
    /// Parses the outcome in the last line of a printed report. Returns `None` if the last line
    /// isn't an outcome, which means that the report is incomplete.
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
    /// Lines of the report, without the last line, which contains the outcome. Each line contains
    /// the result of one comparison or test. If the learner's result is wrong, another line that
    /// describes the likely cause may follow.
    pub lines: Vec<String>,
    /// Outcome of the check.
    pub outcome: Outcome,
}

impl Report {
    /// Prints the report. If the environment variable [`REPORT_FILE`] is set, writes the report to
    /// this file instead, so that `cargo xtask practice` can distinguish it from other output of
    /// the program.
    pub fn print(&self) {
        let Some(path) = std::env::var_os(REPORT_FILE) else {
            print!("{self}");
            return;
        };
        let text = self.to_string();
        if let Err(error) = write_atomically(path, |out| out.write_all(text.as_bytes())) {
            eprintln!("error: can't write the check report: {error}");
        }
    }

    /// Returns true if all rows passed.
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

/// A known mistake, which consists of a description for the learner and incorrect versions of the
/// exercise's functions that make this mistake.
pub(crate) type Mistake<F> = (&'static str, F);

/// Whether the learner's result in a row is correct.
enum Verdict {
    /// The learner's result is correct. The string, which may be empty, is shown before the word
    /// "ok" in the report. For example, it can be the first line of the output that the book prints
    /// for the same input.
    Passed(String),
    /// The learner's result is wrong. The string describes the problem.
    Failed(String),
    NotWritten,
}

/// The result of running the learner's functions on one input, which is one row of the report.
struct Row {
    label: String,
    verdict: Verdict,
    /// Whether each known mistake leads to the learner's result.
    same_as: Vec<bool>,
    /// Whether a wrong result of this row alone is enough to recognize a known mistake. This is the
    /// case if the result consists of numbers or text that different mistakes change in different
    /// ways. It isn't the case if the row only tests whether a property holds (see
    /// [`Check::holds`]), because many mistakes violate the same property.
    is_specific: bool,
}

/// The check of an exercise while it is running. `F` is the type of the learner's function, or a
/// tuple of types if the learner writes several functions.
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

    /// Adds a row to the report that compares the result of `run` with the numbers that a cell of
    /// the book's notebook prints. Only the printed digits must agree. `notebook` and `cell` are
    /// the names of the notebook and the cell. If the cell has several outputs, `nth` is the index
    /// of the output, counted from 0.
    ///
    /// # Panics
    ///
    /// Panics if the cell doesn't exist or doesn't print anything.
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
                return Err(wrong_count(numbers.len(), values.len(), "value", ""));
            }
            let expected = Answer::Numbers(shape.clone(), values.clone());
            let ours = Answer::Numbers(shape, numbers);
            match ours.difference(&expected, |index, _| allowed[index]) {
                Some(difference) => Err(difference),
                None => Ok(printed.lines().next().unwrap_or_default().to_owned()),
            }
        });
    }

    /// Adds a row that compares a result with an expected result.
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

    /// Adds a row to the report that tests a property of all correct functions, such as that the
    /// sum of probabilities is 1. The closure `holds` calls the learner's functions. If they
    /// violate the property, it returns an error that describes how.
    pub(crate) fn holds(&mut self, label: &str, holds: impl Fn(F) -> Result<(), String>) {
        let violation = |functions| holds(functions).err().unwrap_or_default();
        self.row(label, violation, false, |violation| match violation {
            Answer::Text(text) if !text.is_empty() => Err(text.clone()),
            _ => Ok(String::new()),
        });
    }

    /// Adds a row to the report. `run` calls the learner's functions, and `judge` receives their
    /// result. If the result is correct, `judge` returns a string that the report shows before the
    /// word "ok". Otherwise, it returns an error that describes the difference from the expected
    /// result.
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

    /// Returns the report on all rows.
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
                lines.push(format!("{:<width$}likely cause: {mistake}", ""));
            }
        }
        let passed = self.rows.iter().filter(is_passed).count();
        Report {
            lines,
            outcome: Outcome::Checked(passed, self.rows.len()),
        }
    }

    /// Returns the description of the known mistake that has probably caused the wrong result in a
    /// failed row. Returns `None` if no known mistake explains the result, or if several of them
    /// do.
    ///
    /// A mistake that leads to the learner's results in all rows of the check is a better
    /// explanation than one that does so only in this row, so mistakes of the first kind are
    /// considered first.
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

/// Checks that `sum`, the sum of weights or probabilities, is 1 up to rounding. In the error
/// message, `what` says which numbers were added.
pub(crate) fn sum_is_1(what: &str, sum: f32) -> Result<(), String> {
    match (sum - 1.0).abs() < 1e-5 {
        true => Ok(()),
        // A sum that is NaN also leads to this error.
        false => Err(format!("the sum of {what} is {sum}, but it should be 1")),
    }
}

/// Returns a matrix of standard normal samples, which depend only on the seed.
pub(crate) fn random(rows: usize, columns: usize, seed: u64) -> Array2<f32> {
    let numbers = TorchRng::manual_seed(seed).randn(rows * columns);
    Array::from_shape_vec((rows, columns), numbers).expect("rows * columns numbers")
}

/// A panic in a learner's function.
struct Panic {
    message: String,
    /// File and line where the panic occurred, if they belong to the learner's program, or `None`
    /// if the panic occurred elsewhere, such as in a library.
    place: Option<String>,
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the function panicked: {}", self.message)?;
        match &self.place {
            Some(place) => write!(f, " ({place})"),
            None => Ok(()),
        }
    }
}

/// Runs a function. If it panics, returns the panic as an error without printing a message.
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
