//! A notebook while it runs: the result of each of its calls, by the line of the call.

use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::ops::RangeBounds;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use anyhow::{Result, ensure};
use ndarray::ArrayRef2;
use pictures::{Picture, html, product};
use thiserror::Error;

use crate::input::Input;
use crate::printed::{Verdict, compare};
use crate::prose::Values;
use crate::text::STORY;
use crate::torch_form;
use crate::value::Shown;
use crate::{NEEDS_TEXT, NOT_IN_A_PAGE, Settings, TAKES_MINUTES, TrainingRun};

/// One notebook while it runs.
#[derive(Default)]
pub struct Notebook {
    settings: Settings,
    pub(crate) records: HashMap<u32, Record>,
    /// In HTML
    pub(crate) figures: HashMap<u32, String>,
    pub(crate) inputs: HashMap<u32, InputValue>,
    /// The values that texts name.
    pub(crate) values: Values,
    /// Statements of the prose that don't hold in this run, by the line of their call.
    pub(crate) untrue: HashMap<u32, String>,
    /// The code that a call stands for, if it depends on the run.
    pub(crate) code: HashMap<u32, String>,
    /// The line where a part ended before its end, and why.
    pub(crate) ended: Vec<(u32, Outcome)>,
    /// The line of the last call.
    at: u32,
    /// True once an input differs from the document's: later cells are compared with nothing.
    changed: bool,
    /// True in a part that reads another text than the book's.
    on_other_text: bool,
    /// True once a small model replaces the document's.
    on_small_model: bool,
}

/// The kind of a cell's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Figures that a document prints.
    Printed,
    /// Figures that a document prints and that none of the crates computes.
    Shown,
    /// Computed from an input that the document has not: compared with nothing.
    Changed,
    /// Computed on another text than the book's: compared with nothing.
    OtherText,
    /// Computed by a small model instead of the document's: compared with nothing.
    SmallModel,
    /// Figures that no document prints: a shape, the same result by two ways, a refusal, a bug
    /// beside the right code.
    #[default]
    Own,
}

/// The result of a cell.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It ran.
    Ran(Record),
    /// It was not reached, for a reason that isn't a fault.
    Skipped(String),
    /// It was not reached, or an input of it has a wrong value.
    Lost(String),
}

/// A computed cell.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The kind of its figures.
    pub kind: Kind,
    /// The comparison.
    pub verdict: Verdict,
    /// The computed value as PyTorch prints it.
    pub ours: String,
    /// The document's output.
    pub printed: Option<String>,
    /// The figures' source, or the reason for a tolerance larger than their digits allow.
    pub note: Option<String>,
}

impl Record {
    /// The number of values that were compared, with what, and how near they are.
    pub fn about(&self) -> String {
        let verdict = &self.verdict;
        let what = match self.kind {
            Kind::Printed => "compared with the document's",
            Kind::Shown => "compared with the document's, by ndarray alone",
            Kind::Own => "compared, not printed by the document here",
            Kind::Changed => {
                return "compared with nothing: the document prints no such run".to_owned();
            }
            Kind::OtherText => return "compared with nothing: not on the book's text".to_owned(),
            Kind::SmallModel => return "compared with nothing: not the book's model".to_owned(),
        };
        let mut about = match verdict.figures {
            0 => return String::new(),
            1 => format!("1 value {what}"),
            count => format!("{count} values {what}"),
        };
        if verdict.difference > 0.0 {
            let (difference, allowed) = (verdict.difference, verdict.allowed);
            about +=
                &format!("; the furthest is {difference:.1e} off, its digits allow {allowed:.1e}");
        }
        if let Some(note) = &self.note {
            about += &format!("; {note}");
        }
        about
    }
}

/// A value that a reader may change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputValue {
    /// Its name in its cell.
    pub name: String,
    /// The document's value.
    pub default: String,
    /// The smallest and the largest value, as a Rust range; empty if its call was not reached.
    pub bounds: String,
    /// The bounds in words: `1 to 64`, `at most 1000 characters`.
    pub range: String,
    /// The reader's value.
    pub value: Option<String>,
    /// Why the reader's value can't be taken: the cells were computed with the document's.
    pub fault: Option<String>,
    /// The line of its call.
    pub line: u32,
}

/// Figures that a document prints and that are not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The cell that prints them.
    pub cell: String,
    /// The number of figures.
    pub figures: usize,
    /// The reason.
    pub why: String,
}

/// A part of a notebook isn't run, for a reason that isn't a fault.
#[derive(Debug, Error)]
#[error("{0}")]
struct NotRun(&'static str);

impl Notebook {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Runs a part of the notebook; where it fails, or needs what is not at hand, its cells that
    /// follow are lost or skipped, and the next part runs all the same.
    pub fn part<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        let on_other_text = self.on_other_text;
        let ended = catch_unwind(AssertUnwindSafe(|| run(self)));
        self.on_other_text = on_other_text;
        let why = match ended {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(error)) => match error.downcast::<NotRun>() {
                Ok(why) => Outcome::Skipped(why.to_string()),
                Err(error) => Outcome::Lost(format!("not reached: {error:#}")),
            },
            Err(panic) => {
                let message = panic.downcast_ref::<String>().map(String::as_str);
                let message = message.or(panic.downcast_ref::<&str>().copied());
                let message = message.unwrap_or("no message");
                Outcome::Lost(format!("not reached: panicked: {message}"))
            }
        };
        self.ended.push((self.at, why));
        None
    }

    /// The book's text; without it the other text of the settings, on which the figures of this
    /// part are compared with nothing, and without that the part ends here.
    ///
    /// # Errors
    /// Neither exists.
    #[track_caller]
    pub fn the_verdict(&mut self) -> Result<&'static str> {
        let line = self.go_to_caller();
        if let Some(text) = self.settings.text {
            return Ok(text);
        }
        let other = self.settings.other_text.ok_or(NotRun(NEEDS_TEXT))?;
        self.on_other_text = true;
        let file = if other == STORY {
            STORY_FILE
        } else {
            "your-text.txt"
        };
        self.code.insert(line, read_file(file));
        Ok(other)
    }

    /// Ends the part in a page before a model of 124 million parameters, or a computation beyond 32
    /// bits.
    ///
    /// # Errors
    /// The part ends here.
    #[track_caller]
    pub fn not_in_a_page(&mut self) -> Result<()> {
        self.goes_on(!self.settings.small, NOT_IN_A_PAGE)
    }

    /// Ends the part unless the notebook is run for its training, which takes minutes.
    ///
    /// # Errors
    /// The part ends here.
    #[track_caller]
    pub fn takes_minutes(&mut self) -> Result<()> {
        self.goes_on(self.settings.training.is_some(), TAKES_MINUTES)
    }

    /// Returns true if a small model shall replace the document's, whose training takes minutes:
    /// where the notebook is shown and not run for its training. Its cells are compared with
    /// nothing. `default` is false, for the code of a notebook that hasn't run.
    #[track_caller]
    pub fn takes_small_model(&mut self, default: bool) -> bool {
        let line = self.go_to_caller();
        let is_shown = self.settings.other_text.is_some() || self.settings.small;
        self.on_small_model = is_shown && self.settings.training.is_none();
        self.code.insert(line, self.on_small_model.to_string());
        self.on_small_model || default
    }

    /// Ends the part unless the training runs for all epochs of the document.
    ///
    /// # Errors
    /// The part ends here.
    #[track_caller]
    pub fn takes_all_epochs(&mut self) -> Result<()> {
        let all = TrainingRun::EPOCHS;
        self.goes_on(self.epochs(all) == all, "it needs the whole training")
    }

    #[track_caller]
    fn goes_on(&mut self, goes_on: bool, why: &'static str) -> Result<()> {
        self.go_to_caller();
        ensure!(goes_on, NotRun(why));
        Ok(())
    }

    /// The requested number of epochs, or the document's.
    pub fn epochs(&self, default: u64) -> u64 {
        let training = self.settings.training.as_ref();
        training.and_then(|run| run.epochs).unwrap_or(default)
    }

    /// The requested PyTorch build for dropout, otherwise the document's, whose figures it prints.
    pub fn dropout_build(&mut self, default: torch_rng::Build) -> torch_rng::Build {
        let training = self.settings.training.as_ref();
        let build = training.and_then(|run| run.build).unwrap_or(default);
        self.changed |= build != default;
        build
    }

    /// Gives a value of the run a name, by which texts show it: `{name}`.
    #[track_caller]
    pub fn value(&mut self, name: &str, value: impl Display) {
        let line = self.go_to_caller();
        self.values.add(name, line, value.to_string());
    }

    /// Computes values and statements for texts, in code that no cell shows.
    #[track_caller]
    pub fn aside(&mut self, compute: impl FnOnce(&mut Self)) {
        self.go_to_caller();
        compute(self);
    }

    /// Checks a statement of the prose that isn't filled in from a value. It may be wrong for other
    /// inputs, or for a reader's own text.
    #[track_caller]
    pub fn holds(&mut self, statement: &str, is_true: bool) {
        let line = self.go_to_caller();
        let is_known = !self.on_other_text || self.settings.other_text == Some(STORY);
        if !is_true && !self.changed && is_known {
            self.untrue
                .insert(line, format!("the prose is wrong: {statement}"));
        }
    }

    /// The cells that follow belong to this section, by the document's own number and title.
    #[track_caller]
    pub fn section(&mut self, _number: &str, _title: &str) {
        self.go_to_caller();
    }

    /// The beginning of a notebook: its goal, its prerequisites, and the reading time in minutes.
    #[track_caller]
    pub fn opens(&mut self, _goal: &str, _prerequisites: &str, _minutes: u32) {
        self.go_to_caller();
    }

    /// A question on this section, and its answer, which is folded away.
    #[track_caller]
    pub fn asks(&mut self, _question: &str, _answer: &str) {
        self.go_to_caller();
    }

    /// A drawing in characters, with the shapes of arrays.
    #[track_caller]
    pub fn sketch(&mut self, _name: &str, _text: &str) {
        self.go_to_caller();
    }

    /// The item of the file `path` whose first line begins with `start` is printed here.
    #[track_caller]
    pub fn listing(&mut self, _path: &str, _start: &str) {
        self.go_to_caller();
    }

    /// Figures of a cell that are not compared, and why.
    #[track_caller]
    pub fn leaves_out(&mut self, _cell: &str, _figures: usize, _why: &str) {
        self.go_to_caller();
    }

    /// A picture of the computed values, for the notebook's page; costs nothing without a page,
    /// because `picture` contains all of its work.
    #[track_caller]
    pub fn draws(&mut self, _name: &str, picture: impl FnOnce() -> Picture) {
        let line = self.go_to_caller();
        if self.settings.draws {
            self.figures.insert(line, html::figure(&picture()));
        }
    }

    /// The product of `a` (rows, inner) and `b` (inner, columns), for the notebook's page: each of
    /// its numbers shows its row, its column and their sum.
    #[track_caller]
    pub fn multiplies(&mut self, name: &str, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) {
        let line = self.go_to_caller();
        if self.settings.draws {
            self.figures.insert(line, product(name, a, b));
        }
    }

    /// A value that a reader may change; `default` is the document's, and all values within
    /// `bounds` can be computed in a moment: the bounds of a number, of a text's characters, or of
    /// a matrix's numbers.
    #[track_caller]
    pub fn input<T: Input>(
        &mut self,
        name: &str,
        default: T,
        bounds: impl RangeBounds<T::Size> + Debug,
    ) -> T {
        let line = self.go_to_caller();
        let mut input = InputValue {
            name: name.to_owned(),
            default: default.written(),
            bounds: format!("{bounds:?}"),
            range: range_of::<T>(&format!("{bounds:?}"), T::UNIT),
            line,
            ..InputValue::default()
        };
        let mut asked = self.settings.inputs.iter();
        let asked = asked.rfind(|(at, text)| *at == line && *text != input.default);
        let mut value = None;
        if let Some((_, text)) = asked {
            input.value = Some(text.clone());
            let read = T::read(text).and_then(|value| {
                let got = match T::UNIT {
                    "" => text.trim().to_owned(),
                    unit => value.size().to_string() + unit,
                };
                ensure!(
                    bounds.contains(&value.size()),
                    "expected {}, got {got}",
                    range_of::<T>(&format!("{bounds:?}"), "")
                );
                Ok(value)
            });
            match read {
                Ok(read) => value = Some(read),
                Err(error) => input.fault = Some(format!("the input {name}: {error:#}")),
            }
        }
        self.changed |= value.is_some();
        self.inputs.insert(line, input);
        self.code.extend(value.as_ref().map(|it| (line, it.code())));
        let value = value.unwrap_or(default);
        self.value(name, value.written());
        value
    }

    /// An input whose default is a text for the book's text, or another one for any other.
    #[track_caller]
    pub fn input_of_text(
        &mut self,
        name: &str,
        [of_book, of_other]: [&str; 2],
        bounds: impl RangeBounds<usize> + Debug,
    ) -> String {
        let is_book = self.settings.text.is_some();
        let default = if is_book { of_book } else { of_other };
        let text = self.input(name, default.to_owned(), bounds);
        self.code.insert(self.at, text.code());
        text
    }

    /// The document prints this; its digits set the tolerance.
    #[track_caller]
    pub fn prints(&mut self, _cell: &str, value: impl Shown, printed: &str) {
        self.compare(Kind::Printed, value, printed, None, None);
    }

    /// The first `lines` of the document's output are this, of a run that may end before the
    /// document's; within another tolerance if there is a reason.
    #[track_caller]
    pub fn prints_first(
        &mut self,
        _cell: &str,
        value: impl Shown,
        printed: &str,
        lines: usize,
        within: Option<(f64, &str)>,
    ) {
        let first: Vec<&str> = printed.lines().take(lines).collect();
        self.compare(Kind::Printed, value, &first.join("\n"), within, None);
    }

    /// The document prints this, but none of the crates computes it: compared, but not counted.
    #[track_caller]
    pub fn shows(&mut self, _cell: &str, value: impl Shown, printed: &str) {
        self.compare(Kind::Shown, value, printed, None, None);
    }

    /// Figures that the document does not print itself, and their source: compared, not counted as
    /// printed.
    #[track_caller]
    pub fn reference(&mut self, _cell: &str, value: impl Shown, figures: &str, source: &str) {
        self.compare(Kind::Own, value, figures, None, Some(source));
    }

    /// A value of the reader's own, compared with nothing: `book.yours("entropy", &entropy)`.
    #[track_caller]
    pub fn yours(&mut self, _name: &str, value: impl Shown) {
        self.own(None, torch_form::print(&value.value()));
    }

    /// The array has this shape.
    #[track_caller]
    pub fn shape<S: ndarray::RawData, D: ndarray::Dimension>(
        &mut self,
        _cell: &str,
        array: &ndarray::ArrayBase<S, D>,
        shape: &[usize],
    ) {
        let sizes = |shape: &[usize]| format!("torch.Size({shape:?})");
        let fault = (array.shape() != shape).then(|| format!("expected {}", sizes(shape)));
        self.own(fault, sizes(array.shape()));
    }

    /// Both are the same, bit for bit.
    #[track_caller]
    pub fn agrees(&mut self, _cell: &str, one: impl Shown, other: impl Shown) {
        let (one, other) = (one.value(), other.value());
        let agree = one == other;
        let fault = (!agree).then(|| {
            let [one, other] = [&one, &other].map(torch_form::print);
            format!("they differ:\n{one}\n{other}")
        });
        self.own(fault, agree.to_string());
    }

    /// It is refused, with this text in the error.
    #[track_caller]
    pub fn refuses<T, E: Display>(&mut self, _cell: &str, result: Result<T, E>, text: &str) {
        let error = result.err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| "no error".to_owned());
        let is_other = !error.contains(text);
        let fault = is_other.then(|| format!("expected `{text}`, not `{error}`"));
        self.own(fault, error);
    }

    /// A bug of a document: the result of its code and the right one, both computed; they must
    /// differ.
    #[track_caller]
    pub fn erratum(
        &mut self,
        _cell: &str,
        bug: &str,
        wrong: impl Shown,
        remedy: &str,
        right: impl Shown,
    ) {
        let (wrong, right) = (wrong.value(), right.value());
        let fault = (wrong == right).then(|| "the bug makes no difference".to_owned());
        let [wrong, right] = [&wrong, &right].map(torch_form::print);
        self.own(fault, format!("{bug}:\n{wrong}\n{remedy}:\n{right}"));
    }

    #[track_caller]
    fn compare(
        &mut self,
        kind: Kind,
        value: impl Shown,
        printed: &str,
        within: Option<(f64, &str)>,
        source: Option<&str>,
    ) {
        let value = value.value();
        let verdict = compare(&value, printed, within.map(|(tolerance, _)| tolerance));
        let looser = within.map(|(_, why)| format!("looser than the printed digits: {why}"));
        self.record(Record {
            kind,
            verdict: verdict.unwrap_or_else(|error| Verdict::of_fault(format!("{error:#}"))),
            ours: torch_form::print(&value),
            printed: Some(printed.to_owned()),
            note: looser.or(source.map(str::to_owned)),
        });
    }

    #[track_caller]
    fn own(&mut self, fault: Option<String>, ours: String) {
        let verdict = fault.map(Verdict::of_fault).unwrap_or_default();
        self.record(Record {
            verdict,
            ours,
            ..Record::default()
        });
    }

    #[track_caller]
    fn record(&mut self, mut record: Record) {
        let line = self.go_to_caller();
        let replaced = [
            (self.changed, Kind::Changed),
            (self.on_small_model, Kind::SmallModel),
            (self.on_other_text, Kind::OtherText),
        ];
        if let Some((_, kind)) = replaced.iter().find(|(is_so, _)| *is_so) {
            record.kind = *kind;
            record.verdict = Verdict::default();
        }
        let before = self.records.insert(line, record);
        assert!(before.is_none(), "the call of line {line} ran twice");
    }

    /// The line of the call in the notebook.
    #[track_caller]
    fn go_to_caller(&mut self) -> u32 {
        self.at = Location::caller().line();
        self.at
    }
}

/// The story's file in the repository.
const STORY_FILE: &str = "crates/tools/cli/data/the-answering-bell.txt";

/// Returns the code that reads a text.
pub(crate) fn read_file(path: &str) -> String {
    format!("&std::fs::read_to_string({path:?})")
}

/// A Rust range in words.
fn range_of<T: Input>(bounds: &str, unit: &str) -> String {
    match bounds
        .split_once("..")
        .map(|(low, high)| (low, high.trim_start_matches('=')))
    {
        Some(("", "")) | None => T::ANY.to_owned(),
        Some(("", high)) => format!("at most {high}{unit}"),
        Some((low, "")) => format!("at least {low}{unit}"),
        Some((low, high)) => format!("{low} to {high}{unit}"),
    }
}
