//! A check of one exercise: the reader's function against printed figures, a second input and
//! properties; a result that equals a known mistake's is named.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use ndarray::{Array, Array2, Dimension};
use notebooks::{PROGRAMS, allowances, cells};
use torch_rng::TorchRng;

/// The farthest that two numbers lie apart that count as equal, relative to the larger.
const TOLERANCE: f64 = 1e-4;

/// A result as numbers with their shape, or as text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Numbers(Vec<usize>, Vec<f64>),
    Text(String),
}

/// A value that a reader's function returns.
pub(crate) trait ToAnswer {
    fn answer(&self) -> Answer;
}

impl<D: Dimension> ToAnswer for Array<f32, D> {
    fn answer(&self) -> Answer {
        let numbers = self.iter().map(|&x| f64::from(x)).collect();
        Answer::Numbers(self.shape().to_vec(), numbers)
    }
}

impl ToAnswer for Vec<u32> {
    fn answer(&self) -> Answer {
        let numbers = self.iter().map(|&x| f64::from(x)).collect();
        Answer::Numbers(vec![self.len()], numbers)
    }
}

impl ToAnswer for f32 {
    fn answer(&self) -> Answer {
        Answer::Numbers(Vec::new(), vec![f64::from(*self)])
    }
}

impl ToAnswer for &str {
    fn answer(&self) -> Answer {
        Answer::Text((*self).to_owned())
    }
}

impl ToAnswer for String {
    fn answer(&self) -> Answer {
        Answer::Text(self.clone())
    }
}

impl<T: ToAnswer> ToAnswer for Result<T, String> {
    fn answer(&self) -> Answer {
        match self {
            Ok(value) => value.answer(),
            Err(error) => Answer::Text(format!("the error {error:?}")),
        }
    }
}

impl Answer {
    /// The first difference from the expected numbers, within a tolerance for each, with its place
    /// and its expected value.
    fn difference(&self, expected: &Self, tolerance: impl Fn(usize, f64) -> f64) -> Option<String> {
        match (self, expected) {
            (Self::Numbers(shape, ours), Self::Numbers(expected_shape, expected)) => {
                if shape != expected_shape {
                    return Some(format!(
                        "the shape is {shape:?} instead of {expected_shape:?}"
                    ));
                }
                let mut pairs = ours.iter().zip(expected).enumerate();
                let is_off = |place: usize, x: f64, y: f64| {
                    let is_finite = x.is_finite() && y.is_finite();
                    x != y
                        && !(x.is_nan() && y.is_nan())
                        && !(is_finite && (x - y).abs() <= tolerance(place, y))
                };
                let (place, (x, y)) = pairs.find(|(place, (x, y))| is_off(*place, **x, **y))?;
                let at = place_of(place, shape);
                Some(format!("{at}{} instead of {}", short(*x), short(*y)))
            }
            (ours, expected) if ours == expected => None,
            (ours, expected) => Some(format!("{ours} instead of {expected}")),
        }
    }

    fn equals(&self, other: &Self) -> bool {
        self.difference(other, usual).is_none()
    }
}

/// Checks a sum of probabilities.
pub(crate) fn sum_is_1(sum: f32) -> Result<(), String> {
    match (sum - 1.0).abs() < 1e-5 {
        true => Ok(()),
        false => Err(format!("a sum is {sum} instead of 1")), // of NaN, too
    }
}

/// The farthest that a number may lie from another of the same size.
fn usual(_place: usize, y: f64) -> f64 {
    TOLERANCE * y.abs().max(1.0)
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Numbers(_, numbers) => {
                let shown: Vec<String> = numbers.iter().take(8).map(|&x| short(x)).collect();
                let more = if numbers.len() > 8 { ", ..." } else { "" };
                write!(f, "[{}{more}]", shown.join(", "))
            }
        }
    }
}

/// A number in few digits.
fn short(x: f64) -> String {
    let rounded: f64 = format!("{x:.4}").parse().unwrap_or(x);
    rounded.to_string()
}

/// The place of a number in an array: `at [1, 2]: `.
fn place_of(mut place: usize, shape: &[usize]) -> String {
    if shape.iter().product::<usize>() < 2 {
        return String::new();
    }
    let mut at = Vec::new();
    for &size in shape.iter().rev() {
        at.insert(0, place % size);
        place /= size;
    }
    format!("at {at:?}: ")
}

/// The end of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The function is still `todo!()`.
    NotWritten,
    /// So many checks passed, of so many.
    Checked(usize, usize),
}

/// The result of a check, line by line.
#[derive(Clone, Debug)]
pub struct Report {
    /// A line for each check.
    pub lines: Vec<String>,
    /// The results so far.
    pub outcome: Outcome,
    /// Known mistakes that equal the right result or one another: a fault of the exercise.
    pub unnamed: Vec<String>,
}

impl Report {
    /// Prints the lines, and how many checks passed.
    pub fn print(&self) {
        self.lines.iter().for_each(|line| println!(" {line}"));
        match self.outcome {
            Outcome::NotWritten => println!("not written yet"),
            Outcome::Checked(passed, total) => println!("{passed} of {total} checks passed"),
        }
    }

    /// True if all checks passed.
    pub fn is_done(&self) -> bool {
        matches!(self.outcome, Outcome::Checked(passed, total) if passed == total)
    }
}

/// Normal numbers of a seed.
pub(crate) fn random(rows: usize, columns: usize, seed: u64) -> Array2<f32> {
    let numbers = TorchRng::manual_seed(seed).randn(rows * columns);
    Array::from_shape_vec((rows, columns), numbers).expect("as many numbers")
}

/// A known mistake: its description and its result.
pub(crate) type Mistake = (&'static str, Answer);

/// A check while it runs.
#[derive(Default)]
pub(crate) struct Check {
    lines: Vec<String>,
    passed: usize,
    total: usize,
    is_unwritten: bool,
    unnamed: Vec<String>,
}

impl Check {
    /// Compares a result with the `nth` output (from 0) of a notebook's cell.
    pub(crate) fn printed<T: ToAnswer>(
        &mut self,
        (notebook, cell, nth): (&str, &str, usize),
        yours: impl FnOnce() -> T,
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
        let Some(ours) = self.call(&name, yours) else {
            return;
        };
        let difference = match &ours {
            Answer::Text(text) if *text == printed => None,
            Answer::Text(text) => Some(format!("{text:?} instead of {printed:?}")),
            Answer::Numbers(shape, _) => {
                let printed = allowances(&printed);
                let (values, allowed): (Vec<f64>, Vec<f64>) = printed.into_iter().unzip();
                let (len, printed) = (shape.iter().product::<usize>(), values.len());
                let expected = Answer::Numbers(shape.clone(), values);
                match len == printed {
                    true => ours.difference(&expected, |place, _| allowed[place]),
                    false => Some(format!("{len} numbers instead of the {printed} printed")),
                }
            }
        };
        self.note(&name, difference.map_or(Ok(printed), Err));
    }

    /// Compares a result for another input with the plain form's, and names a known mistake.
    pub(crate) fn second<T: ToAnswer>(
        &mut self,
        name: &str,
        yours: impl FnOnce() -> T,
        expected: Answer,
        mistakes: Vec<Mistake>,
    ) {
        for (place, (description, answer)) in mistakes.iter().enumerate() {
            let mut before = mistakes[..place].iter().map(|(_, answer)| answer);
            if answer.equals(&expected) || before.any(|other| answer.equals(other)) {
                self.unnamed.push((*description).to_owned());
            }
        }
        let Some(ours) = self.call(name, yours) else {
            return;
        };
        let difference = ours.difference(&expected, usual);
        let is_wrong = difference.is_some();
        self.note(name, difference.map_or(Ok(String::new()), Err));
        let mistake = mistakes
            .iter()
            .find(|(_, answer)| is_wrong && ours.equals(answer));
        if let Some((description, _)) = mistake {
            self.lines
                .push(format!("{:<34}a known mistake: {description}", ""));
        }
    }

    /// Checks a property of all results; `holds` returns an error that describes the violation.
    pub(crate) fn property(&mut self, name: &str, holds: impl FnOnce() -> Result<(), String>) {
        if self.is_unwritten {
            return;
        }
        let held = quietly(holds).and_then(|held| held);
        self.note(name, held.map(|()| String::new()));
    }

    /// The report.
    pub(crate) fn end(self) -> Report {
        match self.is_unwritten {
            true => Report {
                lines: Vec::new(),
                outcome: Outcome::NotWritten,
                unnamed: self.unnamed,
            },
            false => Report {
                lines: self.lines,
                outcome: Outcome::Checked(self.passed, self.total),
                unnamed: self.unnamed,
            },
        }
    }

    /// Calls the reader's function; a panic is a result, and `todo!()` ends the check.
    fn call<T: ToAnswer>(&mut self, name: &str, yours: impl FnOnce() -> T) -> Option<Answer> {
        if self.is_unwritten {
            return None;
        }
        match quietly(|| yours().answer()) {
            Ok(answer) => Some(answer),
            Err(message) if message.starts_with("it panicked: not yet implemented") => {
                self.is_unwritten = true;
                None
            }
            Err(message) => {
                self.note(name, Err(message));
                None
            }
        }
    }

    fn note(&mut self, name: &str, result: Result<String, String>) {
        self.total += 1;
        let text = match result {
            Ok(printed) => {
                self.passed += 1;
                let first = printed.lines().next().unwrap_or_default();
                format!("{} ok", first).trim_start().to_owned()
            }
            Err(difference) => difference,
        };
        self.lines.push(format!("{name:<32}  {text}"));
    }
}

/// Runs something without the message of a panic on the screen: that is the error.
fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(run));
    set_hook(hook);
    result.map_err(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or(panic.downcast_ref::<&str>().map(ToString::to_string));
        format!("it panicked: {}", message.unwrap_or_default())
    })
}
