//! Runs a notebook and records the result of each of its calls under the line number of the call.

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

/// A notebook that is running. A notebook's code consists of calls to the methods of this type. The
/// result of each call is stored under its line number in the source code, so
/// [`crate::Program::run`] can later combine the results with the code.
#[derive(Default)]
pub struct Notebook {
    settings: Settings,
    pub(crate) records: HashMap<u32, Record>,
    /// HTML of the pictures, by the line of their call.
    pub(crate) figures: HashMap<u32, String>,
    pub(crate) inputs: HashMap<u32, InputValue>,
    /// Named values that texts refer to.
    pub(crate) values: Values,
    /// Statements in the prose that are false in this run, by the line of the call that checks
    /// them.
    pub(crate) untrue: HashMap<u32, String>,
    /// Code to show in place of a call, by the line of the call. It contains only calls whose code
    /// depends on the run.
    pub(crate) code: HashMap<u32, String>,
    /// Line at which each unfinished part of the notebook stopped, and the outcome of the cells
    /// that it didn't reach.
    pub(crate) ended: Vec<(u32, Outcome)>,
    /// Line of the most recent call.
    at: u32,
    /// True once an input or setting differs from the document's. The cells that follow aren't
    /// compared.
    changed: bool,
    /// True in a part that reads a text other than the book's.
    on_other_text: bool,
    /// True once a small model has replaced the document's model.
    on_small_model: bool,
}

/// Origin of the values that a cell shows, which determines whether they are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The document prints these values, and our crates compute them.
    Printed,
    /// The document prints these values, but none of our crates computes them.
    Shown,
    /// The values depend on an input or setting that differs from the document's, so they aren't
    /// compared.
    Changed,
    /// The values were computed from a text other than the book's, so they aren't compared.
    OtherText,
    /// The values were computed by a small model that replaces the document's model, so they aren't
    /// compared.
    SmallModel,
    /// No document prints these values here. For example, they are a shape, a result that is
    /// computed in two ways, an error message, or the results of a bug and of the corrected code.
    #[default]
    Own,
}

/// What happened to a cell in a run.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The cell was computed.
    Ran(Record),
    /// The cell wasn't computed, for the given reason, which isn't a failure.
    Skipped(String),
    /// The cell wasn't reached because of a failure, or one of its inputs has an invalid value.
    Lost(String),
}

/// The result of a cell that was computed.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Origin of the values.
    pub kind: Kind,
    /// Result of the comparison.
    pub verdict: Verdict,
    /// Computed value in the format in which PyTorch prints it.
    pub ours: String,
    /// Output that the computed value was compared with, if there is one.
    pub printed: Option<String>,
    /// Source of the expected values, or the reason why the tolerance is larger than the printed
    /// digits allow.
    pub note: Option<String>,
}

impl Record {
    /// Returns a summary of the comparison: how many values were compared, what they were compared
    /// with, and the difference that is largest in relation to its tolerance. Returns an empty
    /// string if the kind of the values allows a comparison but nothing was compared.
    pub fn about(&self) -> String {
        let verdict = &self.verdict;
        let what = match self.kind {
            Kind::Printed => "compared with the document's",
            Kind::Shown => "computed by ndarray alone and compared with the document's",
            Kind::Own => "compared, but not printed by the document here",
            Kind::Changed => {
                return "not compared: an input or setting differs from the document's".to_owned();
            }
            Kind::OtherText => return "not compared: the text isn't the book's".to_owned(),
            Kind::SmallModel => return "not compared: the model isn't the book's".to_owned(),
        };
        let mut about = match verdict.figures {
            0 => return String::new(),
            1 => format!("1 value {what}"),
            count => format!("{count} values {what}"),
        };
        if verdict.difference > 0.0 {
            let (difference, allowed) = (verdict.difference, verdict.allowed);
            about += &format!(
                "; the most significant difference is {difference:.1e}, with a tolerance of {allowed:.1e}"
            );
        }
        if let Some(note) = &self.note {
            about += &format!("; {note}");
        }
        about
    }
}

/// A value in a notebook that readers can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputValue {
    /// Name of the input, which is unique within its cell.
    pub name: String,
    /// The document's value, as a reader would type it.
    pub default: String,
    /// Range of the allowed values, or of their sizes, in Rust's syntax.
    pub bounds: String,
    /// Allowed range in words, such as `1 to 64` or `at most 1000 characters`.
    pub range: String,
    /// Value that the reader typed, if it differs from the default.
    pub value: Option<String>,
    /// Reason why the reader's value is invalid. If there is one, the cells were computed with the
    /// document's value.
    pub fault: Option<String>,
    /// Line of the call that reads the input.
    pub line: u32,
}

/// Values that a document prints but that aren't compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the cell that prints the values.
    pub cell: String,
    /// Number of values.
    pub figures: usize,
    /// Reason why the values aren't compared.
    pub why: String,
}

/// The error that ends a part of a notebook when the part can't run here. It contains the reason
/// and doesn't count as a failure.
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

    /// Runs a part of the notebook. Returns `None` if the part returns an error, panics, or can't
    /// run here. Its remaining cells are then marked as lost or skipped, and the notebook continues
    /// after the part.
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

    /// Returns the book's text. If it isn't available, returns the substitute text from the
    /// settings, and the remaining cells of this part aren't compared.
    ///
    /// # Errors
    ///
    /// Returns an error, which ends this part, if neither text is available.
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

    /// Ends the part here if the notebook runs in a web page, because what follows needs a large
    /// model, sizes that don't fit in 32 bits, or a panic that is caught.
    ///
    /// # Errors
    ///
    /// Returns an error, which ends this part, if the notebook runs in a web page.
    #[track_caller]
    pub fn not_in_a_page(&mut self) -> Result<()> {
        self.goes_on(!self.settings.small, NOT_IN_A_PAGE)
    }

    /// Ends the part here if training wasn't requested, because what follows takes minutes.
    ///
    /// # Errors
    ///
    /// Returns an error, which ends this part, if training wasn't requested.
    #[track_caller]
    pub fn takes_minutes(&mut self) -> Result<()> {
        self.goes_on(self.settings.training.is_some(), TAKES_MINUTES)
    }

    /// Returns true if a small model must replace the document's model, whose training takes
    /// minutes. This is the case if the notebook is shown to a reader and training wasn't
    /// requested. The cells that follow then aren't compared.
    ///
    /// Notebooks pass `false` as `default`. This is the value that the code of a notebook shows
    /// before the notebook has run.
    #[track_caller]
    pub fn takes_small_model(&mut self, default: bool) -> bool {
        let line = self.go_to_caller();
        let is_shown = self.settings.other_text.is_some() || self.settings.small;
        self.on_small_model = is_shown && self.settings.training.is_none();
        self.code.insert(line, self.on_small_model.to_string());
        self.on_small_model || default
    }

    /// Ends the part here if the training stops before the document's last epoch.
    ///
    /// # Errors
    ///
    /// Returns an error, which ends this part, if fewer epochs were requested.
    #[track_caller]
    pub fn takes_all_epochs(&mut self) -> Result<()> {
        let all = TrainingRun::EPOCHS;
        self.goes_on(
            self.epochs(all) == all,
            "it needs all epochs of the training",
        )
    }

    #[track_caller]
    fn goes_on(&mut self, goes_on: bool, why: &'static str) -> Result<()> {
        self.go_to_caller();
        ensure!(goes_on, NotRun(why));
        Ok(())
    }

    /// Returns the number of epochs that was requested, or `default` if no number was requested.
    pub fn epochs(&self, default: u64) -> u64 {
        let training = self.settings.training.as_ref();
        training.and_then(|run| run.epochs).unwrap_or(default)
    }

    /// Returns the PyTorch build that was requested for dropout, or `default` if none was
    /// requested. If the build differs from `default`, the cells that follow aren't compared,
    /// because the document's values are those of `default`.
    pub fn dropout_build(&mut self, default: torch_rng::Build) -> torch_rng::Build {
        let training = self.settings.training.as_ref();
        let build = training.and_then(|run| run.build).unwrap_or(default);
        self.changed |= build != default;
        build
    }

    /// Gives a computed value a name. Texts insert the value by writing `{name}`.
    #[track_caller]
    pub fn value(&mut self, name: &str, value: impl Display) {
        let line = self.go_to_caller();
        self.values.add(name, line, value.to_string());
    }

    /// Runs code that is hidden from the reader, to compute values for the prose and check its
    /// statements.
    #[track_caller]
    pub fn aside(&mut self, compute: impl FnOnce(&mut Self)) {
        self.go_to_caller();
        compute(self);
    }

    /// Checks a statement in the prose that isn't filled in from a value. If the statement is
    /// false, the nearest cell that ran fails. The statement isn't checked after an input was
    /// changed or on a reader's own text, because it may not apply there.
    #[track_caller]
    pub fn holds(&mut self, statement: &str, is_true: bool) {
        let line = self.go_to_caller();
        let is_known = !self.on_other_text || self.settings.other_text == Some(STORY);
        if !is_true && !self.changed && is_known {
            self.untrue
                .insert(line, format!("the prose is wrong: {statement}"));
        }
    }

    /// Begins a section with the document's number and title. The section contains the cells that
    /// follow.
    #[track_caller]
    pub fn section(&mut self, _number: &str, _title: &str) {
        self.go_to_caller();
    }

    /// Introduces a notebook: its goal, its prerequisites, and the time in minutes that reading it
    /// takes.
    #[track_caller]
    pub fn opens(&mut self, _goal: &str, _prerequisites: &str, _minutes: u32) {
        self.go_to_caller();
    }

    /// Asks a question about the current section. The answer is hidden until the reader opens it.
    #[track_caller]
    pub fn asks(&mut self, _question: &str, _answer: &str) {
        self.go_to_caller();
    }

    /// Shows a text drawing, such as a diagram of array shapes.
    #[track_caller]
    pub fn sketch(&mut self, _name: &str, _text: &str) {
        self.go_to_caller();
    }

    /// Shows the source code of an item: the first one in the file `_path` whose first line begins
    /// with `_start`.
    #[track_caller]
    pub fn listing(&mut self, _path: &str, _start: &str) {
        self.go_to_caller();
    }

    /// Lists values that a cell of the document prints but that aren't compared, with their number
    /// and the reason.
    #[track_caller]
    pub fn leaves_out(&mut self, _cell: &str, _figures: usize, _why: &str) {
        self.go_to_caller();
    }

    /// Shows a picture of computed values on the notebook's page. `picture` is called only if
    /// pictures were requested, so it should contain all of the work that the picture needs.
    #[track_caller]
    pub fn draws(&mut self, _name: &str, picture: impl FnOnce() -> Picture) {
        let line = self.go_to_caller();
        if self.settings.draws {
            self.figures.insert(line, html::figure(&picture()));
        }
    }

    /// Shows the product of `a`, of shape (rows, inner), and `b`, of shape (inner, columns), on the
    /// notebook's page. For each element of the product, the page can show its row of `a`, its
    /// column of `b`, and the sum of their products.
    ///
    /// # Panics
    ///
    /// Panics if pictures were requested and the number of columns of `a` isn't the number of rows
    /// of `b`.
    #[track_caller]
    pub fn multiplies(&mut self, name: &str, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) {
        let line = self.go_to_caller();
        if self.settings.draws {
            self.figures.insert(line, product(name, a, b));
        }
    }

    /// Returns the value of an input that readers can change. This is the reader's value if it was
    /// given and is valid, and `default`, which is the document's value, otherwise.
    ///
    /// `bounds` limits the value of a number, the number of characters of a text, or the number of
    /// elements of a matrix. The notebook must finish quickly for all values within the bounds.
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

    /// Returns the value of a text input with two possible defaults: `of_book` if the notebook runs
    /// on the book's text, and `of_other` otherwise.
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

    /// Compares a value with the output that the document prints. The tolerance follows from the
    /// printed digits.
    #[track_caller]
    pub fn prints(&mut self, _cell: &str, value: impl Shown, printed: &str) {
        self.compare(Kind::Printed, value, printed, None, None);
    }

    /// Compares a value with the first `lines` lines of the document's output, for a run that may
    /// be shorter than the document's. `within` can set a different tolerance and give the reason
    /// for it.
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

    /// Compares a value that the document prints but that none of our crates computes. The report
    /// doesn't count it among the numbers that our crates compute.
    #[track_caller]
    pub fn shows(&mut self, _cell: &str, value: impl Shown, printed: &str) {
        self.compare(Kind::Shown, value, printed, None, None);
    }

    /// Compares a value with expected values that the document doesn't print, and names their
    /// source. The report doesn't count these values among the printed numbers.
    #[track_caller]
    pub fn reference(&mut self, _cell: &str, value: impl Shown, figures: &str, source: &str) {
        self.compare(Kind::Own, value, figures, None, Some(source));
    }

    /// Shows a value that the reader added, without comparing it. An example is
    /// `book.yours("entropy", &entropy)`.
    #[track_caller]
    pub fn yours(&mut self, _name: &str, value: impl Shown) {
        self.own(None, torch_form::print(&value.value()));
    }

    /// Checks that an array has the expected shape.
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

    /// Checks that two values are equal bit for bit.
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

    /// Checks that an operation failed with an error whose message contains `text`.
    #[track_caller]
    pub fn refuses<T, E: Display>(&mut self, _cell: &str, result: Result<T, E>, text: &str) {
        let error = result.err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| "no error".to_owned());
        let is_other = !error.contains(text);
        let fault = is_other.then(|| format!("expected `{text}`, not `{error}`"));
        self.own(fault, error);
    }

    /// Shows a bug in a document: the result of the document's code, and the result of the
    /// corrected code. Both are computed, and the check fails if they are equal. `bug` and `remedy`
    /// are the titles of the two results.
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

    /// Stores the line of the notebook's call as the current line and returns it.
    #[track_caller]
    fn go_to_caller(&mut self) -> u32 {
        self.at = Location::caller().line();
        self.at
    }
}

/// Path to the file that contains the short story, relative to the root of the repository.
const STORY_FILE: &str = "crates/tools/cli/data/the-answering-bell.txt";

/// Returns the Rust code that reads the text file `path`.
pub(crate) fn read_file(path: &str) -> String {
    format!("&std::fs::read_to_string({path:?})")
}

/// Describes a Rust range, such as `1..=64`, in words.
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
