//! Provides the type [`Notebook`]. A notebook calls the methods of this type to show values and to
//! compare them with the output of the original document. The terms "document", "cell" and "part"
//! are explained in the documentation of the crate.
//!
//! The functions of a notebook are run by [`Notebook::part`]: if one of them fails, the notebook
//! continues after it. In this module, the *current function* is the function that was passed to
//! the innermost running call of this method.

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

/// State of a running notebook, which is the Rust translation of a document such as ch03.ipynb. The
/// notebook's code calls the methods of this type to show and compare values. The result of each
/// call is stored under the line number of the call in the notebook's source file, so that
/// [`crate::Program::run`] can later combine the results with the source code.
#[derive(Default)]
pub struct Notebook {
    settings: Settings,
    pub(crate) records: HashMap<u32, Record>,
    /// HTML of each picture. The key is the line number of the call that draws the picture.
    pub(crate) figures: HashMap<u32, String>,
    pub(crate) inputs: HashMap<u32, InputValue>,
    /// Computed values that are inserted into the prose in place of `{name}`.
    pub(crate) values: Values,
    /// Statements in the prose that turned out to be false in this run. The key is the line number
    /// of the [`Notebook::holds`] call that checks the statement.
    pub(crate) untrue: HashMap<u32, String>,
    /// Code that readers see in place of a call. The key is the line number of the call. The map
    /// contains only calls whose replacement depends on the run, such as a call that reads an input
    /// and is replaced with the input's value.
    pub(crate) code: HashMap<u32, String>,
    /// Functions of the notebook that ended early. Each entry consists of the line number of the
    /// last call that the function made, and the outcome of the cells that the function didn't
    /// reach.
    pub(crate) ended: Vec<(u32, Outcome)>,
    /// Line number of the most recent call of a method of this type.
    at: u32,
    /// Whether an input or setting differs from its value in the original document. If so, the
    /// cells that are computed from now on aren't compared with the document's output.
    changed: bool,
    /// Whether the current function computes its cells from a text other than the book's.
    on_other_text: bool,
    /// Whether the notebook uses a small model instead of the original document's model.
    on_small_model: bool,
}

/// Origin of the values that a cell shows, which determines whether these values are compared with
/// the output of the original document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The original document prints these values, and our crates compute them.
    Printed,
    /// The original document prints these values, but the notebook computes them without our
    /// crates.
    Shown,
    /// The values depend on an input or setting that differs from that of the original document, so
    /// they aren't compared.
    Changed,
    /// The values were computed from a text other than the book's, so they aren't compared.
    OtherText,
    /// The values were computed by a small model that replaces the original document's model, so
    /// they aren't compared.
    SmallModel,
    /// The original document doesn't print these values in this cell. Examples are the shape of an
    /// array, whether two ways of computing a result agree, an error message, or the results of
    /// faulty and of corrected code.
    #[default]
    Own,
}

/// Outcome of a cell in a run of the notebook.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The cell was computed.
    Ran(Record),
    /// The cell was skipped on purpose, for example because it needs minutes of training. The
    /// string contains the reason. A skipped cell doesn't count as a failure.
    Skipped(String),
    /// The notebook failed before it reached the cell, or a reader entered an invalid value for one
    /// of the cell's inputs. The string contains the reason.
    Lost(String),
}

/// The result of a cell that was computed.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Origin of the values that the cell shows.
    pub kind: Kind,
    /// Result of comparing the computed value with the expected output.
    pub verdict: Verdict,
    /// Computed value in the format in which PyTorch prints it.
    pub ours: String,
    /// Expected output with which the computed value was compared, if there is one.
    pub printed: Option<String>,
    /// Source of the expected values, or the reason why the tolerance is larger than the printed
    /// digits allow.
    pub note: Option<String>,
}

impl Record {
    /// Returns a summary of the comparison: how many values were compared, with what they were
    /// compared, and which difference is the largest in relation to its tolerance. If an input, the
    /// text or the model was replaced, the summary says instead why the values weren't compared.
    /// Returns an empty string if the cell has no values that are compared one by one, for example
    /// because it shows the shape of an array.
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
                "; the most significant difference is {difference:.1e}, and the tolerance is {allowed:.1e}"
            );
        }
        if let Some(note) = &self.note {
            about += &format!("; {note}");
        }
        about
    }
}

/// An input of a notebook: a value in the code, such as a seed, that readers can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputValue {
    /// Name of the input, which is unique within its cell.
    pub name: String,
    /// Value of the input in the original document, as a reader would type it.
    pub default: String,
    /// Range of the allowed values in Rust's syntax, such as `1..=64`. For a text or matrix, it is
    /// the range of the allowed sizes.
    pub bounds: String,
    /// Range of the allowed values or sizes in words, such as `1 to 64` or `at most 1000
    /// characters`.
    pub range: String,
    /// Value that the reader typed, if it differs from the default.
    pub value: Option<String>,
    /// Reason why the value that the reader typed is invalid. In this case, the notebook was run
    /// with the default value. If the typed value is valid, or if the reader hasn't typed a value,
    /// this is `None`.
    pub fault: Option<String>,
    /// Line number of the call that reads the input, in the notebook's source file.
    pub line: u32,
}

/// Values in the output of the original document that the notebook doesn't compute or compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the document's cell that prints the values.
    pub cell: String,
    /// Number of values that are left out.
    pub figures: usize,
    /// Reason why the notebook doesn't compute or compare the values.
    pub why: String,
}

/// Error that a function of a notebook returns if its remaining cells can't or shouldn't be
/// computed with the current settings. The error contains the reason, and the remaining cells are
/// marked as skipped, which doesn't count as a failure.
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

    /// Runs `run`, a function of the notebook, and returns its result. If the function returns an
    /// error or panics, returns `None`, so that the notebook can continue after this function. The
    /// cells that the function didn't reach are then marked as lost or skipped.
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

    /// Returns the book's text, which is a short story. If the settings don't contain it, returns
    /// the substitute text from the settings instead. In this case, the remaining cells of the
    /// current function aren't compared with the document's output.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings contain neither the book's text nor a substitute. The error
    /// ends the current function, and its remaining cells are skipped.
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

    /// Returns an error if the notebook runs in a web page. Notebooks call this method before cells
    /// that can't be computed in a web page because they need a large model, sizes that don't fit
    /// in 32 bits, or a panic that is caught.
    ///
    /// # Errors
    ///
    /// Returns an error if the notebook runs in a web page. The error ends the current function,
    /// and its remaining cells are skipped.
    #[track_caller]
    pub fn not_in_a_page(&mut self) -> Result<()> {
        self.goes_on(!self.settings.small, NOT_IN_A_PAGE)
    }

    /// Returns an error if the user hasn't requested the training run. Notebooks call this method
    /// before cells whose computation takes minutes.
    ///
    /// # Errors
    ///
    /// Returns an error if the user hasn't requested the training run. The error ends the current
    /// function, and its remaining cells are skipped.
    #[track_caller]
    pub fn takes_minutes(&mut self) -> Result<()> {
        self.goes_on(self.settings.training.is_some(), TAKES_MINUTES)
    }

    /// Returns true if the notebook should train a small model instead of the document's model,
    /// whose training takes minutes. This is the case if the user hasn't requested the training
    /// run, and the notebook either runs in a web page or may use a substitute text. The results of
    /// the small model aren't compared with the document's output.
    ///
    /// Notebooks must pass `false` as `default`. In the code of a notebook that hasn't run yet,
    /// readers see this argument in place of the call. After the run, they see the value that the
    /// call returned.
    #[track_caller]
    pub fn takes_small_model(&mut self, default: bool) -> bool {
        let line = self.go_to_caller();
        let is_shown = self.settings.other_text.is_some() || self.settings.small;
        self.on_small_model = is_shown && self.settings.training.is_none();
        self.code.insert(line, self.on_small_model.to_string());
        self.on_small_model || default
    }

    /// Returns an error if the user has requested fewer epochs than the book's training run has.
    /// Notebooks call this method before cells that need the fully trained model.
    ///
    /// # Errors
    ///
    /// Returns an error if the user has requested fewer than [`TrainingRun::EPOCHS`] epochs. The
    /// error ends the current function, and its remaining cells are skipped.
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

    /// Returns the number of training epochs that the user requested, or `default` if the user
    /// didn't request a number.
    pub fn epochs(&self, default: u64) -> u64 {
        let training = self.settings.training.as_ref();
        training.and_then(|run| run.epochs).unwrap_or(default)
    }

    /// Returns the PyTorch build whose dropout masks the training run should reproduce. This is the
    /// build that the user requested, or `default` if the user didn't request a build. If the build
    /// differs from `default`, the cells that are computed from now on aren't compared, because the
    /// document's output was computed with `default`.
    pub fn dropout_build(&mut self, default: torch_rng::Build) -> torch_rng::Build {
        let training = self.settings.training.as_ref();
        let build = training.and_then(|run| run.build).unwrap_or(default);
        self.changed |= build != default;
        build
    }

    /// Records a computed value under the name `name`. In the prose, this value replaces the name
    /// in braces, such as `{words}`.
    #[track_caller]
    pub fn value(&mut self, name: &str, value: impl Display) {
        let line = self.go_to_caller();
        self.values.add(name, line, value.to_string());
    }

    /// Runs code that readers don't see. Notebooks call this method to compute values for the prose
    /// and to check statements in the prose.
    #[track_caller]
    pub fn aside(&mut self, compute: impl FnOnce(&mut Self)) {
        self.go_to_caller();
        compute(self);
    }

    /// Checks that a statement in the prose is true. `statement` describes the statement for the
    /// error message. If `is_true` is false, the computed cell that is nearest to this call in the
    /// source code fails. After a reader has changed an input, or if the notebook uses a reader's
    /// own text, the result of the check is ignored, because the statement may not apply.
    #[track_caller]
    pub fn holds(&mut self, statement: &str, is_true: bool) {
        let line = self.go_to_caller();
        let is_known = !self.on_other_text || self.settings.other_text == Some(STORY);
        if !is_true && !self.changed && is_known {
            self.untrue
                .insert(line, format!("the prose is wrong: {statement}"));
        }
    }

    /// Begins a section with the number and the title that it has in the document. The section
    /// contains all cells up to the next call of this method.
    #[track_caller]
    pub fn section(&mut self, _number: &str, _title: &str) {
        self.go_to_caller();
    }

    /// Shows the introduction of the notebook, which consists of the notebook's goal, its
    /// prerequisites, and the time in minutes that readers need for it.
    #[track_caller]
    pub fn opens(&mut self, _goal: &str, _prerequisites: &str, _minutes: u32) {
        self.go_to_caller();
    }

    /// Asks the reader a question about the current section. The page hides the answer until the
    /// reader opens it.
    #[track_caller]
    pub fn asks(&mut self, _question: &str, _answer: &str) {
        self.go_to_caller();
    }

    /// Shows a text drawing, such as a diagram of array shapes.
    #[track_caller]
    pub fn sketch(&mut self, _name: &str, _text: &str) {
        self.go_to_caller();
    }

    /// Shows the source code of a Rust item, such as a function. The item is the first one in the
    /// file `_path` whose first line begins with `_start`.
    #[track_caller]
    pub fn listing(&mut self, _path: &str, _start: &str) {
        self.go_to_caller();
    }

    /// Records that the document's cell `_cell` prints `_figures` values that the notebook doesn't
    /// compute or compare. `_why` gives the reason.
    #[track_caller]
    pub fn leaves_out(&mut self, _cell: &str, _figures: usize, _why: &str) {
        self.go_to_caller();
    }

    /// Shows a picture of computed values on the notebook's page. The function `picture` is called
    /// only if the settings request pictures, so it should contain all computations that are needed
    /// only for the picture.
    #[track_caller]
    pub fn draws(&mut self, _name: &str, picture: impl FnOnce() -> Picture) {
        let line = self.go_to_caller();
        if self.settings.draws {
            self.figures.insert(line, html::figure(&picture()));
        }
    }

    /// Shows the matrix product of `a`, of shape (rows, inner), and `b`, of shape (inner, columns),
    /// on the notebook's page. For each element of the product, the page can show the row of `a`
    /// and the column of `b` from which it is computed, with their elementwise products and the
    /// sum.
    ///
    /// # Panics
    ///
    /// Panics if pictures were requested and the number of columns of `a` differs from the number
    /// of rows of `b`.
    #[track_caller]
    pub fn multiplies(&mut self, name: &str, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) {
        let line = self.go_to_caller();
        if self.settings.draws {
            self.figures.insert(line, product(name, a, b));
        }
    }

    /// Returns the value of an input that readers can change. If the reader has entered a valid
    /// value, returns that value. Otherwise, returns `default`, which is the document's value.
    ///
    /// `bounds` limits the value of a number, the number of characters in a text, or the number of
    /// elements in a matrix. The bounds must be chosen so that the notebook finishes quickly for
    /// all allowed values.
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

    /// Returns the value of an input that is a string. The default is `of_book` if the notebook
    /// uses the book's text, and `of_other` if it uses a substitute.
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

    /// Compares a value that our crates compute with the output that the document prints. The
    /// tolerance follows from the number of printed digits.
    #[track_caller]
    pub fn prints(&mut self, _cell: &str, value: impl Shown, printed: &str) {
        self.compare(Kind::Printed, value, printed, None, None);
    }

    /// Compares a value that our crates compute with the first `lines` lines of the document's
    /// output. This is necessary if the training run may be shorter than that of the document.
    /// `within` can contain a tolerance, which replaces the tolerance that follows from the printed
    /// digits, and the reason for this tolerance.
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

    /// Compares a value that the notebook computes without our crates, for example with ndarray
    /// alone, with the output that the document prints. Reports don't count this value among the
    /// values that our crates compute.
    #[track_caller]
    pub fn shows(&mut self, _cell: &str, value: impl Shown, printed: &str) {
        self.compare(Kind::Shown, value, printed, None, None);
    }

    /// Compares a value with expected values from another source than the notebook's document.
    /// `figures` contains the expected values as PyTorch would print them, and `source` describes
    /// where they come from. Reports don't count them among the values that the document prints.
    #[track_caller]
    pub fn reference(&mut self, _cell: &str, value: impl Shown, figures: &str, source: &str) {
        self.compare(Kind::Own, value, figures, None, Some(source));
    }

    /// Shows a value without comparing it. Readers can use this method for values that they compute
    /// themselves, as in `book.yours("entropy", &entropy)`.
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

    /// Demonstrates a bug in the document. Shows `wrong`, the result of the document's faulty code,
    /// under the title `bug`, and `right`, the result of the corrected code, under the title
    /// `remedy`. The cell fails if the two results are equal.
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

    /// Stores and returns the line number at which the notebook calls a method of this type.
    #[track_caller]
    fn go_to_caller(&mut self) -> u32 {
        self.at = Location::caller().line();
        self.at
    }
}

/// Path to the file that contains the substitute story [`STORY`], relative to the root of the
/// repository.
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
