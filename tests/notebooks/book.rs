//! Provides the type [`Notebook`]. Each notebook is a Rust port of an original document, usually
//! one of the book's Python notebooks, such as ch03.ipynb. The port calls the methods of
//! [`Notebook`] to show computed values and to compare them with the output in the original
//! document. The documentation of this crate defines the terms "document", "cell", "part" and
//! "learner".
//!
//! A notebook's code is divided into functions, which [`Notebook::part`] runs. If one of these
//! functions fails, the rest of the notebook still runs. Calls to [`Notebook::part`] can be nested.
//! In this module, the *current function* is the function that was passed to the innermost call
//! that is still running.

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

/// State of a notebook while it runs. A notebook is a Rust port of one of the book's Python
/// notebooks. Its code calls the methods of this type to show values and to compare them with the
/// output of the Python notebook. The result of each call is stored under the call's line number in
/// the notebook's source file. [`crate::Program::run`] can therefore show each result next to the
/// code that computed it.
#[derive(Default)]
pub struct Notebook {
    settings: Settings,
    pub(crate) records: HashMap<u32, Record>,
    /// HTML of each picture that the notebook has drawn for its web page. The key is the line
    /// number, in the notebook's source file, of the call that draws the picture.
    pub(crate) figures: HashMap<u32, String>,
    pub(crate) inputs: HashMap<u32, InputValue>,
    /// Computed values that replace placeholders in the notebook's prose. For example, the prose
    /// can contain `{words}` where it mentions the number of words that the notebook has counted.
    pub(crate) values: Values,
    /// Statements in the notebook's prose that turned out to be false in this run. For example, the
    /// prose may claim that one computed value is larger than another. The key is the line number
    /// of the [`Notebook::holds`] call that checks the statement.
    pub(crate) untrue: HashMap<u32, String>,
    /// Code that learners see in place of a call to a method of this type. The key is the line
    /// number of the call in the notebook's source file. The map contains only calls whose
    /// replacement depends on the run. For example, if the learner has entered the seed 7, the call
    /// that reads the seed is shown as `7`.
    pub(crate) code: HashMap<u32, String>,
    /// One entry for each function of the notebook that ended early because of an error, a panic or
    /// a setting. The entry contains the line number of the last [`Notebook`] method call that the
    /// function made. It also contains the outcome of the function's cells after this line, which
    /// weren't computed.
    pub(crate) ended: Vec<(u32, Outcome)>,
    /// Line number, in the notebook's source file, of the most recent call to a method of this
    /// type. If a function of the notebook fails, this number shows how far the function got.
    at: u32,
    /// Whether the learner has changed an input (such as a seed) or a setting (such as the PyTorch
    /// build) that affects the computed values. If so, the notebook's remaining cells aren't
    /// compared with the output of the original Python notebook, because different values are
    /// expected.
    changed: bool,
    /// Whether the current function of the notebook uses a substitute for the book's text, "The
    /// Verdict". If so, its cells aren't compared with the output of the original Python notebook.
    on_other_text: bool,
    /// Whether the notebook uses a small model instead of the book's model, which takes minutes to
    /// train. If so, its cells aren't compared with the output of the original Python notebook.
    on_small_model: bool,
}

/// Where the values shown in a notebook cell come from: whether the original Python notebook prints
/// them, and whether an input, the text or the model was replaced. This determines whether the
/// values are compared with the original notebook's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The original Python notebook prints these values. The Rust port computes them with the
    /// crates of this workspace and compares them with the printed output.
    Printed,
    /// The original Python notebook prints these values. The Rust port computes them without the
    /// crates of this workspace, for example with ndarray alone, and compares them with the printed
    /// output.
    Shown,
    /// The values depend on an input (such as a seed) or a setting that the learner has changed, so
    /// they aren't compared with the output of the original Python notebook.
    Changed,
    /// The values were computed from a substitute for the book's text, "The Verdict", so they
    /// aren't compared with the output of the original Python notebook.
    OtherText,
    /// The values were computed by a small model instead of the book's model, which takes minutes
    /// to train. They therefore aren't compared with the output of the original Python notebook.
    SmallModel,
    /// The cell shows something that the original Python notebook doesn't print, so there is no
    /// printed output to compare it with. Examples are the shape of an array, an error message,
    /// whether two values are equal, and the effect of a bug.
    #[default]
    Own,
}

/// Outcome of a cell in a run of the notebook: the cell was computed, was skipped on purpose, or
/// couldn't be computed. A cell is a value shown to learners, together with the code that computes
/// it.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The cell was computed. The [`Record`] contains the computed value and the result of
    /// comparing it with the expected output.
    Ran(Record),
    /// The cell of the notebook was skipped on purpose, for example because it requires minutes of
    /// training. The string contains the reason, which is shown to learners. A skipped cell doesn't
    /// count as a failure.
    Skipped(String),
    /// The cell of the notebook couldn't be computed. Either the notebook failed before it reached
    /// the cell, or the learner entered an invalid value for one of the cell's inputs (such as a
    /// seed). The string contains the reason.
    Lost(String),
}

/// The computed value of a notebook cell, and the result of comparing it with the output of the
/// original Python notebook.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Origin of the values that the cell shows. For example, [`Kind::Printed`] means that the
    /// original Python notebook prints these values. The origin determines whether they are
    /// compared.
    pub kind: Kind,
    /// Result of comparing the computed value with the expected output. It includes the number of
    /// compared values and a description of each mismatch.
    pub verdict: Verdict,
    /// Computed value in the format used by PyTorch or Python, such as `tensor([0.1000, 0.2000])`.
    pub ours: String,
    /// Expected output that the computed value was compared with, such as the output of the
    /// original Python notebook. This is `None` if the cell only shows a value, or only checks a
    /// property such as the shape of an array.
    pub printed: Option<String>,
    /// Note about the comparison, shown to learners. It says where the expected values come from if
    /// the original Python notebook doesn't print them, or why the tolerance is larger than the
    /// printed digits suggest.
    pub note: Option<String>,
}

impl Record {
    /// Returns a short summary that tells learners how the cell's values were compared. It contains
    /// the number of compared values, what they were compared with, and the difference that is
    /// largest relative to its tolerance. If an input, the text or the model was replaced, the
    /// summary instead says why the values weren't compared. Returns an empty string if the cell
    /// has no values that are compared one by one, for example because it shows the shape of an
    /// array.
    pub fn about(&self) -> String {
        let verdict = &self.verdict;
        let what = match self.kind {
            Kind::Printed => "compared with the output in the document",
            Kind::Shown => "computed by ndarray alone and compared with the output in the document",
            Kind::Own => "compared with expected values that the document doesn't print",
            Kind::Changed => {
                return "not compared, because an input or setting differs from the document"
                    .to_owned();
            }
            Kind::OtherText => {
                return "not compared, because the text isn't the book's text".to_owned();
            }
            Kind::SmallModel => {
                return "not compared, because the model isn't the book's model".to_owned();
            }
        };
        let mut about = match verdict.figures {
            0 => return String::new(),
            1 => format!("1 value was {what}"),
            count => format!("{count} values were {what}"),
        };
        if verdict.difference > 0.0 {
            let (difference, allowed) = (verdict.difference, verdict.allowed);
            about += &format!(
                "; the largest difference relative to its tolerance is {difference:.1e}, and this tolerance is {allowed:.1e}"
            );
        }
        if let Some(note) = &self.note {
            about += &format!("; {note}");
        }
        about
    }
}

/// An input of a notebook: a value in its code, such as a seed, that the learner can change on the
/// web page or in the terminal. This type stores the allowed values of the input and the value that
/// the learner entered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputValue {
    /// Name of the input, such as `seed`. It is unique within the cell of the notebook that reads
    /// the input.
    pub name: String,
    /// Value of the input in the original Python notebook, written as a learner would enter it. For
    /// example, a matrix is written as `0.4 0.1; 0.5 0.8`.
    pub default: String,
    /// Range of the values that a learner may enter for this input, in Rust syntax, such as
    /// `1..=64`. For a text, the range limits the number of characters. For a matrix, it limits the
    /// number of elements.
    pub bounds: String,
    /// Description of what a learner may enter for this input. For a number, it gives the allowed
    /// range, such as `1 to 64`. For a text or a matrix, it gives the allowed size, such as
    /// `at most 1000 characters`.
    pub range: String,
    /// Text that the learner entered for this input, or `None` if the learner entered nothing or
    /// the default value.
    pub value: Option<String>,
    /// Explanation of why the value that the learner entered for this input is invalid. In this
    /// case, the notebook ran with the default value instead. This is `None` if the value is valid
    /// or if the learner hasn't entered a value.
    pub fault: Option<String>,
    /// Line number, in the notebook's source file, of the call that reads this input, such as
    /// `book.input("seed", 123, ..)`.
    pub line: u32,
}

/// A note to learners about values that the original Python notebook prints but that the Rust port
/// doesn't compute or compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the cell in the original Python notebook that prints the omitted values, such as
    /// `In [36]`.
    pub cell: String,
    /// Number of values that the original Python notebook prints but that the Rust port doesn't
    /// compute or compare.
    pub figures: usize,
    /// Explanation, shown to learners, of why the Rust port doesn't compute or compare these
    /// values.
    pub why: String,
}

/// Error returned by a function of a notebook that can't compute its remaining cells with the
/// current settings, for example because the user hasn't provided the book's text. The error
/// contains the reason. The remaining cells are marked as skipped, which doesn't count as a
/// failure.
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

    /// Runs `run`, a function that computes some of the notebook's cells, and returns its result.
    /// Returns `None` if the function returns an error or panics, so that the notebook can continue
    /// with its other functions. The cells that the failed function didn't reach are marked as
    /// [`Outcome::Lost`] or [`Outcome::Skipped`].
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
    /// text, returns their substitute text. In that case, the remaining cells of the current
    /// function aren't compared with the output of the original Python notebook.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings contain neither the book's text nor a substitute. The
    /// calling function of the notebook should propagate this error (for example, with `?`), so
    /// that its remaining cells are skipped.
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

    /// Returns an error if the notebook runs in a web page, where notebooks run as WebAssembly.
    /// WebAssembly rules out large models, sizes that don't fit in 32 bits, and catching a panic.
    /// Notebooks therefore call this method before cells that need any of these.
    ///
    /// # Errors
    ///
    /// Returns an error if the notebook is running in a web page. The function of the notebook that
    /// calls this method should propagate the error with `?`, so that the remaining cells of this
    /// function are skipped.
    #[track_caller]
    pub fn not_in_a_page(&mut self) -> Result<()> {
        self.goes_on(!self.settings.small, NOT_IN_A_PAGE)
    }

    /// Returns an error if the user hasn't requested the training run of chapter 5. Notebooks call
    /// this method before cells that take minutes to compute. By default, these cells are therefore
    /// skipped.
    ///
    /// # Errors
    ///
    /// Returns an error if the user hasn't requested the training run. The function of the notebook
    /// that calls this method should propagate the error with `?`, so that the remaining cells of
    /// this function are skipped.
    #[track_caller]
    pub fn takes_minutes(&mut self) -> Result<()> {
        self.goes_on(self.settings.training.is_some(), TAKES_MINUTES)
    }

    /// Returns true if the notebook should train a small model instead of the book's model, which
    /// takes minutes to train. This is the case if the user hasn't requested the training run and
    /// the notebook either runs in a web page or may use a substitute text. If the small model is
    /// used, the notebook's remaining cells aren't compared with the output of the original Python
    /// notebook.
    ///
    /// Notebooks must pass `false` as `default`. Learners see `false` or `true` in place of this
    /// call. Before the notebook has run, they see the argument, `false`. Afterwards, they see the
    /// value that the call returned.
    #[track_caller]
    pub fn takes_small_model(&mut self, default: bool) -> bool {
        let line = self.go_to_caller();
        let is_shown = self.settings.other_text.is_some() || self.settings.small;
        self.on_small_model = is_shown && self.settings.training.is_none();
        self.code.insert(line, self.on_small_model.to_string());
        self.on_small_model || default
    }

    /// Returns an error if the user has requested a training run with fewer epochs than the book's.
    /// Notebooks call this method before cells that need the fully trained model.
    ///
    /// # Errors
    ///
    /// Returns an error if the user has requested fewer than [`TrainingRun::EPOCHS`] epochs. The
    /// calling function of the notebook should propagate this error (for example, with `?`), so
    /// that its remaining cells are skipped.
    #[track_caller]
    pub fn takes_all_epochs(&mut self) -> Result<()> {
        let all = TrainingRun::EPOCHS;
        self.goes_on(
            self.epochs(all) == all,
            "it needs a model that was trained for all epochs",
        )
    }

    #[track_caller]
    fn goes_on(&mut self, goes_on: bool, why: &'static str) -> Result<()> {
        self.go_to_caller();
        ensure!(goes_on, NotRun(why));
        Ok(())
    }

    /// Returns the number of epochs that the user requested for the book's training run, or
    /// `default` if the user didn't request a number.
    pub fn epochs(&self, default: u64) -> u64 {
        let training = self.settings.training.as_ref();
        training.and_then(|run| run.epochs).unwrap_or(default)
    }

    /// Returns the PyTorch build whose dropout masks the training run should reproduce, because
    /// some builds draw different masks from the same seed. This is the build that the user
    /// requested, or `default` if the user didn't request one. The output of the original Python
    /// notebook was computed with the `default` build. If the user requested another build, the
    /// notebook's remaining cells aren't compared with this output.
    pub fn dropout_build(&mut self, default: torch_rng::Build) -> torch_rng::Build {
        let training = self.settings.training.as_ref();
        let build = training.and_then(|run| run.build).unwrap_or(default);
        self.changed |= build != default;
        build
    }

    /// Records a computed value under the name `name`, so that the notebook's prose can mention it.
    /// Wherever the prose contains a placeholder with this name, such as `{words}`, learners see
    /// the recorded value.
    #[track_caller]
    pub fn value(&mut self, name: &str, value: impl Display) {
        let line = self.go_to_caller();
        self.values.add(name, line, value.to_string());
    }

    /// Runs code that the web page and the terminal don't show to learners. Notebooks use this
    /// method to compute values that their prose mentions and to check statements in their prose.
    #[track_caller]
    pub fn aside(&mut self, compute: impl FnOnce(&mut Self)) {
        self.go_to_caller();
        compute(self);
    }

    /// Checks that a statement in the notebook's prose, such as "no choice is right", is true for
    /// the computed values. If `is_true` is false, the cell nearest to this call in the source code
    /// fails with an error message that contains `statement`. The check is ignored if the learner
    /// has changed an input or if the notebook uses a text that the learner provided. In these
    /// cases, the statement may no longer apply.
    #[track_caller]
    pub fn holds(&mut self, statement: &str, is_true: bool) {
        let line = self.go_to_caller();
        let is_known = !self.on_other_text || self.settings.other_text == Some(STORY);
        if !is_true && !self.changed && is_known {
            self.untrue
                .insert(line, format!("the prose is wrong: {statement}"));
        }
    }

    /// Begins a section of the notebook. Its number (such as `3.6.2`) and its title are those of
    /// the section in the original Python notebook. The section contains all cells up to the next
    /// call to this method.
    #[track_caller]
    pub fn section(&mut self, _number: &str, _title: &str) {
        self.go_to_caller();
    }

    /// Shows learners the introduction of the notebook: its goal, its prerequisites, and its
    /// reading time in minutes.
    #[track_caller]
    pub fn opens(&mut self, _goal: &str, _prerequisites: &str, _minutes: u32) {
        self.go_to_caller();
    }

    /// Asks the learner a question about the current section of the notebook. On a web page, the
    /// answer is hidden until the learner opens it.
    #[track_caller]
    pub fn asks(&mut self, _question: &str, _answer: &str) {
        self.go_to_caller();
    }

    /// Shows learners a diagram that is drawn with text characters, for example of array shapes.
    /// `_name` is its title.
    #[track_caller]
    pub fn sketch(&mut self, _name: &str, _text: &str) {
        self.go_to_caller();
    }

    /// Shows learners the source code of a Rust item, such as a function that the notebook calls.
    /// This is the first item in the file `_path` whose first line begins with `_start`, such as
    /// `pub fn generate(`.
    #[track_caller]
    pub fn listing(&mut self, _path: &str, _start: &str) {
        self.go_to_caller();
    }

    /// Tells learners about values that the original Python notebook prints but that the Rust port
    /// doesn't compute or compare. `_cell` is the cell that prints these values, `_figures` is
    /// their number, and `_why` says why they are left out.
    #[track_caller]
    pub fn leaves_out(&mut self, _cell: &str, _figures: usize, _why: &str) {
        self.go_to_caller();
    }

    /// Shows a picture of computed values on the notebook's web page. The function `picture` is
    /// called only if pictures are enabled in the settings. It should therefore include the
    /// computations that only the picture needs.
    #[track_caller]
    pub fn draws(&mut self, _name: &str, picture: impl FnOnce() -> Picture) {
        let line = self.go_to_caller();
        if self.settings.draws {
            self.figures.insert(line, html::figure(&picture()));
        }
    }

    /// Shows the product of the matrices `a`, of shape (rows, inner), and `b`, of shape (inner,
    /// columns), on the notebook's web page. For each element of the product, the page can show the
    /// row of `a` and the column of `b` that the element is computed from. It can also show their
    /// elementwise products and the sum of these products.
    ///
    /// # Panics
    ///
    /// Panics if pictures are enabled in the settings and `a` doesn't have as many columns as `b`
    /// has rows.
    #[track_caller]
    pub fn multiplies(&mut self, name: &str, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) {
        let line = self.go_to_caller();
        if self.settings.draws {
            self.figures.insert(line, product(name, a, b));
        }
    }

    /// Returns the value of the input called `name`. An input is a value in the notebook's code,
    /// such as a seed, that the learner can change on the web page or in the terminal. If the
    /// learner has entered a valid value, returns this value. Otherwise, returns `default`, the
    /// value in the original Python notebook.
    ///
    /// `bounds` limits what a learner may enter: the value of a number, the number of characters in
    /// a text, or the number of elements in a matrix. The limits must be narrow enough that the
    /// notebook finishes quickly with any allowed value.
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

    /// Returns the value of an input that is a string, which the learner can change. The default
    /// value is `of_book` if the notebook uses the book's text, and `of_other` if it uses a
    /// substitute for this text. There are two default values because a word of one text may not
    /// occur in the other.
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

    /// Shows a value that the crates of this workspace compute, and compares it with `printed`.
    /// This is the output of the cell `_cell` in the original Python notebook, such as
    /// `tensor([0.4306])`. The tolerance follows from the number of printed digits.
    #[track_caller]
    pub fn prints(&mut self, _cell: &str, value: impl Shown, printed: &str) {
        self.compare(Kind::Printed, value, printed, None, None);
    }

    /// Shows a value that the crates of this workspace compute, and compares it with the first
    /// `lines` lines of `printed`, the output of the original Python notebook. This method is
    /// needed if the user has requested fewer epochs of training, because a shorter training run
    /// prints fewer lines. If `within` contains a tolerance and the reason for it, this tolerance
    /// replaces the one derived from the printed digits.
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

    /// Shows a value that the notebook computes without the crates of this workspace, for example
    /// with ndarray alone. Compares this value with `printed`, the output of the original Python
    /// notebook. Reports don't count it as a value that our crates compute.
    #[track_caller]
    pub fn shows(&mut self, _cell: &str, value: impl Shown, printed: &str) {
        self.compare(Kind::Shown, value, printed, None, None);
    }

    /// Shows a value and compares it with expected values that the original Python notebook doesn't
    /// print. `figures` contains these expected values in PyTorch's format, and `source` tells
    /// learners where they come from. Reports don't count them as values that the original Python
    /// notebook prints.
    #[track_caller]
    pub fn reference(&mut self, _cell: &str, value: impl Shown, figures: &str, source: &str) {
        self.compare(Kind::Own, value, figures, None, Some(source));
    }

    /// Shows a value without comparing it with an expected output. Learners can add calls to this
    /// method to a notebook to see values that they compute themselves, as in
    /// `book.yours("entropy", &entropy)`.
    #[track_caller]
    pub fn yours(&mut self, _name: &str, value: impl Shown) {
        self.own(None, torch_form::print(&value.value()));
    }

    /// Shows the shape of an array, such as `torch.Size([2, 3])`, in a cell of the notebook. The
    /// cell fails if the array's shape isn't `shape`.
    #[track_caller]
    pub fn shape<S: ndarray::RawData, D: ndarray::Dimension>(
        &mut self,
        _cell: &str,
        array: &ndarray::ArrayBase<S, D>,
        shape: &[usize],
    ) {
        let sizes = |shape: &[usize]| format!("torch.Size({shape:?})");
        let fault =
            (array.shape() != shape).then(|| format!("the shape should be {}", sizes(shape)));
        self.own(fault, sizes(array.shape()));
    }

    /// Shows whether two values that the notebook computes are equal bit for bit. The cell fails if
    /// they aren't, and its error message contains both values.
    #[track_caller]
    pub fn agrees(&mut self, _cell: &str, one: impl Shown, other: impl Shown) {
        let (one, other) = (one.value(), other.value());
        let agree = one == other;
        let fault = (!agree).then(|| {
            let [one, other] = [&one, &other].map(torch_form::print);
            format!("the two values differ:\n{one}\n{other}")
        });
        self.own(fault, agree.to_string());
    }

    /// Shows the error message of an operation that is expected to fail, such as the multiplication
    /// of two matrices whose shapes don't match. The cell of the notebook fails if the operation
    /// succeeded, or if the error message doesn't contain `text`.
    #[track_caller]
    pub fn refuses<T, E: Display>(&mut self, _cell: &str, result: Result<T, E>, text: &str) {
        let error = result.err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| "no error".to_owned());
        let is_other = !error.contains(text);
        let fault = is_other
            .then(|| format!("the error message should contain `{text}`, but it is `{error}`"));
        self.own(fault, error);
    }

    /// Demonstrates a bug in the original document, such as one of the book's Python notebooks, by
    /// showing two results: the faulty code's result (`wrong`), titled `bug`, and the corrected
    /// code's result (`right`), titled `remedy`. The cell fails if the two results are equal.
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
        let fault = (wrong == right)
            .then(|| "the faulty code and the corrected code give the same result".to_owned());
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
        let looser = within.map(|(_, why)| {
            format!("the tolerance is larger than the rounding of the printed digits requires, because {why}")
        });
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
        assert!(before.is_none(), "the call at line {line} ran twice");
    }

    /// Stores the line number of the notebook's current call to a method of this type in `at`, and
    /// returns it. This is the line number in the notebook's source file. It later shows which
    /// result belongs to which line of the source code.
    #[track_caller]
    fn go_to_caller(&mut self) -> u32 {
        self.at = Location::caller().line();
        self.at
    }
}

/// Path to the file that contains the story [`STORY`], relative to the root of the repository. A
/// notebook can use this story as a substitute for the book's text. If it does, learners see this
/// path in its code.
const STORY_FILE: &str = "crates/tools/cli/data/the-answering-bell.txt";

/// Returns Rust code that reads the text file `path`. Learners see this code in place of the
/// notebook's call that returns the book's text.
pub(crate) fn read_file(path: &str) -> String {
    format!("&std::fs::read_to_string({path:?})")
}

/// Returns a description of what learners may enter for an input of a notebook. `bounds` is a range
/// in Rust syntax, and `unit` is the unit of its limits. For example, the range `..=1000` for the
/// length of a text becomes `at most 1000 characters`.
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
