//! Provides the type [`Notebook`], whose methods a notebook calls to show computed values and to
//! compare them with the output of the original document, such as ch03.ipynb. The terms "document",
//! "cell", "part" and "learner" are defined in the documentation of this crate.
//!
//! [`Notebook::part`] runs a function of a notebook. If the function fails, the rest of the
//! notebook still runs. In this module, the *current function* of a notebook is the function that
//! was passed to the innermost call of [`Notebook::part`] that is still running.

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

/// State of a notebook while it runs. The notebook's code calls the methods of this type to show
/// and compare values. The result of each call is stored under the line number of the call in the
/// notebook's source file, so that [`crate::Program::run`] can later combine the results with the
/// source code.
#[derive(Default)]
pub struct Notebook {
    settings: Settings,
    pub(crate) records: HashMap<u32, Record>,
    /// HTML of each picture that the notebook has drawn. The key is the line number of the call
    /// that draws the picture.
    pub(crate) figures: HashMap<u32, String>,
    pub(crate) inputs: HashMap<u32, InputValue>,
    /// Values that replace placeholders such as `{name}` in the prose of the notebook.
    pub(crate) values: Values,
    /// Statements in the prose that turned out to be false in this run. The key is the line number
    /// of the [`Notebook::holds`] call that checks the statement.
    pub(crate) untrue: HashMap<u32, String>,
    /// Code that learners see in place of a call of a method of this type. The key is the line
    /// number of the call. The map contains only calls whose replacement depends on the run. For
    /// example, a call that reads an input is replaced with the value that the learner has entered.
    pub(crate) code: HashMap<u32, String>,
    /// Functions of the notebook that ended early because of an error, a panic or a setting. Each
    /// entry consists of the line number of the last call of a method of this type, and the outcome
    /// of the function's remaining cells.
    pub(crate) ended: Vec<(u32, Outcome)>,
    /// Line number of the most recent call of a method of this type.
    at: u32,
    /// Whether the value of an input or setting differs from its value in the original document. If
    /// this is true, the notebook's remaining cells aren't compared with the output of the original
    /// document.
    changed: bool,
    /// Whether the current function of the notebook uses a substitute for the book's text, "The
    /// Verdict".
    on_other_text: bool,
    /// Whether the notebook uses a small model instead of the model in the original document.
    on_small_model: bool,
}

/// Origin of the values that a cell shows. It determines whether these values are compared with the
/// output of the original document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The original document prints these values, and the notebook computes them with the crates of
    /// this workspace.
    Printed,
    /// The original document prints these values. The notebook computes them without the crates of
    /// this workspace, for example with ndarray alone.
    Shown,
    /// The values depend on an input or setting whose value differs from the original document, so
    /// they aren't compared.
    Changed,
    /// The values were computed from a substitute for the book's text, so they aren't compared.
    OtherText,
    /// The values were computed by a small model instead of the model in the original document, so
    /// they aren't compared.
    SmallModel,
    /// The original document doesn't print these values in this cell. Examples are the shape of an
    /// array, the result of checking whether two values are equal, an error message, and the
    /// results of faulty and corrected code.
    #[default]
    Own,
}

/// Outcome of a cell in a run of the notebook.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The cell was computed.
    Ran(Record),
    /// The cell was skipped on purpose, for example because it requires minutes of training. The
    /// string contains the reason. A skipped cell doesn't count as a failure.
    Skipped(String),
    /// The cell couldn't be computed, either because the notebook failed before it reached the cell
    /// or because the learner entered an invalid value for one of the cell's inputs. The string
    /// contains the reason.
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
    /// Expected output with which the computed value was compared, or `None` if the cell only shows
    /// or checks a value.
    pub printed: Option<String>,
    /// Additional information about the comparison: the source of the expected values, or the
    /// reason why the tolerance is larger than the printed digits suggest.
    pub note: Option<String>,
}

impl Record {
    /// Returns a summary of the comparison. It contains the number of compared values, what they
    /// were compared with, and the difference that is the largest in relation to its tolerance. If
    /// an input, the text or the model was replaced, the summary instead gives the reason why the
    /// values weren't compared. Returns an empty string if the cell has no values that are compared
    /// one by one, for example because it shows the shape of an array.
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

/// Input of a notebook: a value in the code, such as a seed, that the learner can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputValue {
    /// Name of the input, which is unique within its cell.
    pub name: String,
    /// Value of the input in the original document, in the notation in which a learner would enter
    /// it.
    pub default: String,
    /// Allowed values as a range in Rust's syntax, such as `1..=64`. For a text or a matrix, this
    /// is the range of the allowed sizes.
    pub bounds: String,
    /// Allowed values or sizes in words, such as `1 to 64` or `at most 1000 characters`.
    pub range: String,
    /// Value that the learner entered, if it differs from the default.
    pub value: Option<String>,
    /// Reason why the value that the learner entered is invalid, in which case the notebook was run
    /// with the default value. This is `None` if the value is valid or if the learner hasn't
    /// entered a value.
    pub fault: Option<String>,
    /// Line number of the call that reads the input, in the notebook's source file.
    pub line: u32,
}

/// Values that the original document prints but that the notebook doesn't compute or doesn't
/// compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the cell of the original document that prints the values.
    pub cell: String,
    /// Number of values that are left out.
    pub figures: usize,
    /// Reason why the notebook doesn't compute or compare the values.
    pub why: String,
}

/// Error that a function of a notebook returns if the current settings don't allow its remaining
/// cells to be computed. The error contains the reason. The remaining cells are marked as skipped,
/// which doesn't count as a failure.
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

    /// Runs a function of the notebook, `run`, and returns its result. If the function returns an
    /// error or panics, returns `None`, so that the notebook can continue. In this case, the
    /// function's remaining cells are marked as [`Outcome::Lost`] or [`Outcome::Skipped`].
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

    /// Returns the book's text, the short story "The Verdict". If the settings don't contain this
    /// text, returns the substitute text from the settings instead. The remaining cells of the
    /// current function then aren't compared with the output of the original document.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings contain neither the book's text nor a substitute. If the
    /// current function returns this error, its remaining cells are skipped.
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
    /// that need a large model, sizes that don't fit in 32 bits, or a panic that is caught. None of
    /// these is available in a web page, because notebooks run there as WebAssembly.
    ///
    /// # Errors
    ///
    /// Returns an error if the notebook runs in a web page. If the current function returns this
    /// error, its remaining cells are skipped.
    #[track_caller]
    pub fn not_in_a_page(&mut self) -> Result<()> {
        self.goes_on(!self.settings.small, NOT_IN_A_PAGE)
    }

    /// Returns an error if the user hasn't requested the training run of chapter 5. Notebooks call
    /// this method before cells that take minutes to compute.
    ///
    /// # Errors
    ///
    /// Returns an error if the user hasn't requested the training run. If the current function
    /// returns this error, its remaining cells are skipped.
    #[track_caller]
    pub fn takes_minutes(&mut self) -> Result<()> {
        self.goes_on(self.settings.training.is_some(), TAKES_MINUTES)
    }

    /// Returns true if the notebook should train a small model instead of the model in the original
    /// document, which takes minutes to train. This is the case if the user hasn't requested the
    /// training run, and the notebook either runs in a web page or may use a substitute text. From
    /// this call on, the notebook's cells are then no longer compared with the output of the
    /// original document.
    ///
    /// Notebooks must pass `false` as `default`. Before a notebook has run, learners see this
    /// argument in place of the call in the notebook's code. After the run, they see the value that
    /// the call returned.
    #[track_caller]
    pub fn takes_small_model(&mut self, default: bool) -> bool {
        let line = self.go_to_caller();
        let is_shown = self.settings.other_text.is_some() || self.settings.small;
        self.on_small_model = is_shown && self.settings.training.is_none();
        self.code.insert(line, self.on_small_model.to_string());
        self.on_small_model || default
    }

    /// Returns an error if the user has requested fewer epochs than in the book's training run.
    /// Notebooks call this method before cells that need the fully trained model.
    ///
    /// # Errors
    ///
    /// Returns an error if the user has requested fewer than [`TrainingRun::EPOCHS`] epochs. If the
    /// current function returns this error, its remaining cells are skipped.
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
    /// build that the user requested, or `default` if the user didn't request one. If the two
    /// builds differ, the notebook's remaining cells aren't compared with the output of the
    /// original document, which was computed with the `default` build.
    pub fn dropout_build(&mut self, default: torch_rng::Build) -> torch_rng::Build {
        let training = self.settings.training.as_ref();
        let build = training.and_then(|run| run.build).unwrap_or(default);
        self.changed |= build != default;
        build
    }

    /// Records a computed value under the name `name`. In the prose of the notebook, this value
    /// replaces placeholders with this name, such as `{words}`.
    #[track_caller]
    pub fn value(&mut self, name: &str, value: impl Display) {
        let line = self.go_to_caller();
        self.values.add(name, line, value.to_string());
    }

    /// Runs code that is hidden from learners. Notebooks use this method to compute values for
    /// their prose and to check statements in their prose.
    #[track_caller]
    pub fn aside(&mut self, compute: impl FnOnce(&mut Self)) {
        self.go_to_caller();
        compute(self);
    }

    /// Checks that a statement in the prose of the notebook is true. If `is_true` is false, the
    /// cell that is nearest to this call in the source code fails with an error message that
    /// contains `statement`. The check is ignored if the learner has changed an input or if the
    /// notebook uses a text that the learner provided, because the statement may then no longer
    /// apply.
    #[track_caller]
    pub fn holds(&mut self, statement: &str, is_true: bool) {
        let line = self.go_to_caller();
        let is_known = !self.on_other_text || self.settings.other_text == Some(STORY);
        if !is_true && !self.changed && is_known {
            self.untrue
                .insert(line, format!("the prose is wrong: {statement}"));
        }
    }

    /// Begins a section that has the same number and title as in the original document. The section
    /// contains all cells up to the next call of this method.
    #[track_caller]
    pub fn section(&mut self, _number: &str, _title: &str) {
        self.go_to_caller();
    }

    /// Shows the introduction of the notebook: its goal, its prerequisites, and the time in minutes
    /// that it takes to read the notebook.
    #[track_caller]
    pub fn opens(&mut self, _goal: &str, _prerequisites: &str, _minutes: u32) {
        self.go_to_caller();
    }

    /// Asks the learner a question about the current section. In a web page, the answer is hidden
    /// until the learner opens it.
    #[track_caller]
    pub fn asks(&mut self, _question: &str, _answer: &str) {
        self.go_to_caller();
    }

    /// Shows a text drawing, such as a diagram of array shapes.
    #[track_caller]
    pub fn sketch(&mut self, _name: &str, _text: &str) {
        self.go_to_caller();
    }

    /// Shows the source code of a Rust item, such as a function, as a listing. This is the first
    /// item in the file `_path` whose first line begins with `_start`.
    #[track_caller]
    pub fn listing(&mut self, _path: &str, _start: &str) {
        self.go_to_caller();
    }

    /// Records that a cell of the original document, `_cell`, prints `_figures` values that the
    /// notebook doesn't compute or doesn't compare. `_why` gives the reason.
    #[track_caller]
    pub fn leaves_out(&mut self, _cell: &str, _figures: usize, _why: &str) {
        self.go_to_caller();
    }

    /// Shows a picture of computed values on the notebook's web page. The function `picture` is
    /// called only if the settings request pictures. Computations that are needed only for the
    /// picture should therefore be part of this function.
    #[track_caller]
    pub fn draws(&mut self, _name: &str, picture: impl FnOnce() -> Picture) {
        let line = self.go_to_caller();
        if self.settings.draws {
            self.figures.insert(line, html::figure(&picture()));
        }
    }

    /// Shows the product of the matrices `a`, of shape (rows, inner), and `b`, of shape (inner,
    /// columns), on the notebook's web page. For each element of the product, the page can show the
    /// row of `a` and the column of `b` from which it is computed, together with their elementwise
    /// products and the sum of these products.
    ///
    /// # Panics
    ///
    /// Panics if the settings request pictures and the number of columns of `a` differs from the
    /// number of rows of `b`.
    #[track_caller]
    pub fn multiplies(&mut self, name: &str, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) {
        let line = self.go_to_caller();
        if self.settings.draws {
            self.figures.insert(line, product(name, a, b));
        }
    }

    /// Returns the value of an input that the learner can change. This is the value that the
    /// learner has entered, if it is valid. Otherwise, it is `default`, the value in the original
    /// document.
    ///
    /// `bounds` is the range of the allowed values of a number, of the allowed numbers of
    /// characters in a text, or of the allowed numbers of elements in a matrix. The range must be
    /// small enough for the notebook to finish quickly with any allowed value.
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

    /// Returns the value of an input that is a string. The default value is `of_book` if the
    /// notebook uses the book's text, and `of_other` if it uses a substitute for this text.
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

    /// Compares a value that the crates of this workspace compute with the output that the original
    /// document prints. The tolerance follows from the printed digits.
    #[track_caller]
    pub fn prints(&mut self, _cell: &str, value: impl Shown, printed: &str) {
        self.compare(Kind::Printed, value, printed, None, None);
    }

    /// Compares a value that the crates of this workspace compute with the first `lines` lines of
    /// the output of the original document. This method is needed if the user has requested a
    /// shorter training run than in the original document. `within` can contain a tolerance that
    /// replaces the tolerance derived from the printed digits, together with the reason for the
    /// replacement.
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

    /// Compares a value that the notebook computes without the crates of this workspace, for
    /// example with ndarray alone, with the output that the original document prints. Reports don't
    /// count this value among the values that our crates compute.
    #[track_caller]
    pub fn shows(&mut self, _cell: &str, value: impl Shown, printed: &str) {
        self.compare(Kind::Shown, value, printed, None, None);
    }

    /// Compares a value with expected values that don't come from the original document. `figures`
    /// contains the expected values as PyTorch would print them, and `source` describes where they
    /// come from. Reports don't count them among the values that the original document prints.
    #[track_caller]
    pub fn reference(&mut self, _cell: &str, value: impl Shown, figures: &str, source: &str) {
        self.compare(Kind::Own, value, figures, None, Some(source));
    }

    /// Shows a value without comparing it. Learners can call this method to see values that they
    /// compute themselves, as in `book.yours("entropy", &entropy)`.
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

    /// Demonstrates a bug in the original document by showing two results: `wrong`, which the
    /// faulty code computes, under the title `bug`, and `right`, which the corrected code computes,
    /// under the title `remedy`. The cell fails if the two results are equal.
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

    /// Determines the line number at which the notebook calls a method of this type, stores it in
    /// `at`, and returns it.
    #[track_caller]
    fn go_to_caller(&mut self) -> u32 {
        self.at = Location::caller().line();
        self.at
    }
}

/// Path to the file that contains the story [`STORY`], which can be used in place of the book's
/// text. The path is relative to the root of the repository.
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
