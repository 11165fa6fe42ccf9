//! What a notebook writes into while it runs: its section, and a record for each cell.

use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::ops::RangeBounds;
use std::panic::Location;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use pictures::Picture;

use crate::contents::{Cell, Outcome, Part};
use crate::input::Input;
use crate::printed::{Verdict, compare};
use crate::torch_form;
use crate::value::{Shown, Value};
use crate::{Settings, TrainingRun};

/// One notebook while it runs.
#[derive(Default)]
pub struct Notebook {
    settings: Settings,
    source: &'static str,
    since: Option<Instant>,
    /// What each call has said, by its line.
    pub(crate) parts: HashMap<u32, Part>,
    pub(crate) inputs: HashMap<u32, Given>,
    /// Why it has ended before its end, if that is no fault.
    pub(crate) ended: Option<String>,
    /// The output that was printed last.
    printed: String,
    /// Whether an input is not what the document has: what follows is compared with nothing.
    changed: bool,
}

/// What a record counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Figures that a document prints.
    Printed,
    /// Figures that a document prints and that no crate of ours computes.
    Shown,
    /// Computed from an input that the document has not: compared with nothing.
    Changed,
    /// What no document prints: a shape, the same result by two ways, a refusal, a bug beside the
    /// right code.
    #[default]
    Own,
}

/// What a cell has computed.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What it counts as.
    pub kind: Kind,
    /// The comparison.
    pub verdict: Verdict,
    /// The computed value as PyTorch prints it.
    pub ours: String,
    /// What the document prints.
    pub printed: Option<String>,
    /// Why it may lie further off than the printed digits say.
    pub why: Option<&'static str>,
    /// Since the cell before.
    pub time: Duration,
}

/// A value that a reader may change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Its name in its cell.
    pub name: String,
    /// What the document has.
    pub default: String,
    /// What was asked for instead.
    pub value: Option<String>,
    /// That, as Rust has it.
    pub(crate) code: Option<String>,
    /// The line of its call.
    pub line: u32,
}

/// Figures that a document prints and that are not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The number of their section.
    pub section: String,
    /// Where they stand.
    pub cell: String,
    /// How many.
    pub figures: usize,
    /// Why.
    pub why: String,
}

impl Notebook {
    pub(crate) fn new(source: &'static str, settings: Settings) -> Self {
        Self {
            settings,
            source,
            since: now(),
            ..Self::default()
        }
    }

    /// The cells that follow belong to this section, by the document's own number and title.
    #[track_caller]
    pub fn section(&mut self, number: &str, title: &str) {
        self.since = now();
        let (number, title) = (number.to_owned(), title.to_owned());
        self.say(Part::Section { number, title });
    }

    /// The item of the file `path` whose first line begins with `start` is printed here.
    #[track_caller]
    pub fn listing(&mut self, path: &str, start: &str) {
        let (path, start) = (path.to_owned(), start.to_owned());
        self.say(Part::Listing { path, start });
    }

    /// A picture of what was computed, for the notebook's page; costs nothing where no page is
    /// asked for.
    ///
    /// What only the picture needs is computed inside `picture`.
    #[track_caller]
    pub fn draws(&mut self, name: &str, picture: impl FnOnce() -> Picture) {
        self.say(Part::Picture {
            name: name.to_owned(),
            line: Location::caller().line(),
            code: String::new(),
            picture: self.settings.draws.then(|| Box::new(picture())),
        });
    }

    /// A value that a reader may change; `default` is what the document has, and `bounds` are those
    /// of what is computed in a moment: of a number, a text's characters, or a matrix's numbers.
    ///
    /// # Errors
    /// What the reader asked for is no such value, or not within the bounds.
    #[track_caller]
    pub fn input<T: Input>(
        &mut self,
        name: &str,
        default: T,
        bounds: impl RangeBounds<T::Size> + Debug,
    ) -> Result<T> {
        let line = Location::caller().line();
        let default_text = default.written();
        let asked = self.settings.inputs.iter().rev();
        let asked = asked.filter(|(at, text)| *at == line && *text != default_text);
        let value = asked.map(|(_, text)| text.clone()).next();
        self.changed |= value.is_some();
        let given = Given {
            name: name.to_owned(),
            default: default_text,
            code: value.as_deref().map(T::code),
            value: value.clone(),
            line,
        };
        self.inputs.insert(line, given);
        let Some(text) = value else {
            return Ok(default);
        };
        let value = T::read(&text).with_context(|| format!("the input {name}"))?;
        if !bounds.contains(&value.size()) {
            let shown: String = text.chars().take(20).collect();
            bail!("the input {name}: the size of `{shown}` is not within {bounds:?}");
        }
        Ok(value)
    }

    /// Runs a part that shares nothing with the others; in a page not where a reader has changed
    /// only what stands elsewhere: its cells are then as they were.
    ///
    /// # Errors
    /// What the part could not do.
    pub fn part<F: FnOnce(&mut Self) -> Result<()>>(&mut self, run: F) -> Result<()> {
        let name = std::any::type_name::<F>(); // of a function its path
        let name = name.rsplit("::").next().unwrap_or(name);
        let Settings { small, inputs, .. } = &self.settings;
        let is_here = |(line, _): &(u32, String)| self.function_at(*line) == Some(name);
        if *small && !inputs.is_empty() && !inputs.iter().any(is_here) {
            return Ok(());
        }
        run(self)
    }

    /// The name of the function that a line of the source stands in.
    fn function_at(&self, line: u32) -> Option<&'static str> {
        let before = self.source.lines().take(line as usize);
        let heads = before.filter_map(|line| line.strip_prefix("fn "));
        heads.last()?.split('(').next()
    }

    /// The book's text, if it was given.
    pub fn the_verdict(&self) -> Option<&'static str> {
        self.settings.text
    }

    /// Whether cells with models of 124 million parameters are left out.
    pub fn is_small(&self) -> bool {
        self.settings.small
    }

    /// How chapter 5's run was asked for.
    pub fn training(&self) -> &TrainingRun {
        &self.settings.training
    }

    /// The document prints this; the digits say how near the value must lie.
    #[track_caller]
    pub fn prints(&mut self, cell: &str, value: impl Shown, printed: &str) {
        self.compare(cell, Kind::Printed, value.value(), printed, None);
    }

    /// As [`Self::prints`], within another tolerance, for a reason.
    #[track_caller]
    pub fn prints_within(
        &mut self,
        cell: &str,
        value: impl Shown,
        printed: &str,
        tolerance: f64,
        why: &'static str,
    ) {
        let within = Some((tolerance, why));
        self.compare(cell, Kind::Printed, value.value(), printed, within);
    }

    /// The document prints this, but no crate of ours computes it: compared, and not counted as
    /// ours.
    #[track_caller]
    pub fn shows(&mut self, cell: &str, value: impl Shown, printed: &str) {
        self.compare(cell, Kind::Shown, value.value(), printed, None);
    }

    /// The same output as the last one printed, computed another way: compared with the same
    /// digits, not counted twice.
    #[track_caller]
    pub fn again(&mut self, cell: &str, value: impl Shown) {
        let printed = self.printed.clone();
        self.compare(cell, Kind::Own, value.value(), &printed, None);
    }

    /// Figures that the document does not print itself, and where they come from: compared, not
    /// counted as printed.
    #[track_caller]
    pub fn known(&mut self, cell: &str, value: impl Shown, figures: &str, _source: &str) {
        self.compare(cell, Kind::Own, value.value(), figures, None);
    }

    /// The array has this shape.
    #[track_caller]
    pub fn shape<S: ndarray::RawData, D: ndarray::Dimension>(
        &mut self,
        cell: &str,
        array: &ndarray::ArrayBase<S, D>,
        shape: &[usize],
    ) {
        let sizes = |shape: &[usize]| format!("torch.Size({shape:?})");
        let fault = (array.shape() != shape).then(|| format!("expected {}", sizes(shape)));
        self.own(cell, fault, sizes(array.shape()));
    }

    /// Both are the same, bit for bit.
    #[track_caller]
    pub fn agrees(&mut self, cell: &str, one: impl Shown, other: impl Shown) {
        let (one, other) = (one.value(), other.value());
        let agree = one == other;
        let fault = (!agree).then(|| {
            let [one, other] = [&one, &other].map(torch_form::print);
            format!("they differ:\n{one}\n{other}")
        });
        self.own(cell, fault, agree.to_string());
    }

    /// It is refused, with this text in the error.
    #[track_caller]
    pub fn refuses<T, E: Display>(&mut self, cell: &str, result: Result<T, E>, text: &str) {
        let error = result.err().map(|error| error.to_string());
        let fault = match &error {
            Some(error) if error.contains(text) => None,
            Some(error) => Some(format!("expected `{text}`, but the error is `{error}`")),
            None => Some(format!("expected `{text}`, but there is no error")),
        };
        self.own(cell, fault, error.unwrap_or_default());
    }

    /// A bug of a document: what its code gives and what is right, both computed; they must differ.
    #[track_caller]
    pub fn erratum(
        &mut self,
        cell: &str,
        bug: &str,
        wrong: impl Shown,
        remedy: &str,
        right: impl Shown,
    ) {
        let (wrong, right) = (wrong.value(), right.value());
        let fault = (wrong == right).then(|| "the bug makes no difference".to_owned());
        let [wrong, right] = [&wrong, &right].map(torch_form::print);
        self.own(cell, fault, format!("{bug}:\n{wrong}\n{remedy}:\n{right}"));
    }

    /// Figures of a cell that are not compared, and why.
    #[track_caller]
    pub fn leaves_out(&mut self, cell: &str, figures: usize, why: &str) {
        self.say(Part::LeftOut(LeftOut {
            section: String::new(),
            cell: cell.to_owned(),
            figures,
            why: why.to_owned(),
        }));
    }

    /// Unless `goes_on`, the cells that follow are not run, for this reason, which is no fault.
    ///
    /// # Errors
    /// If the notebook ends here.
    pub fn ends_unless(&mut self, goes_on: bool, why: &str) -> Result<()> {
        if !goes_on {
            self.ended = Some(why.to_owned());
            bail!("{why}");
        }
        Ok(())
    }

    #[track_caller]
    fn compare(
        &mut self,
        cell: &str,
        kind: Kind,
        value: Value,
        printed: &str,
        within: Option<(f64, &'static str)>,
    ) {
        printed.clone_into(&mut self.printed);
        let verdict = compare(&value, printed, within.map(|(tolerance, _)| tolerance));
        let record = Record {
            kind,
            verdict: verdict.unwrap_or_else(|error| Verdict::of_fault(format!("{error:#}"))),
            ours: torch_form::print(&value),
            printed: Some(printed.to_owned()),
            why: within.map(|(_, why)| why),
            ..Record::default()
        };
        self.record(cell, record);
    }

    #[track_caller]
    fn own(&mut self, cell: &str, fault: Option<String>, ours: String) {
        let verdict = fault.map(Verdict::of_fault).unwrap_or_default();
        let record = Record {
            verdict,
            ours,
            ..Record::default()
        };
        self.record(cell, record);
    }

    #[track_caller]
    fn record(&mut self, cell: &str, mut record: Record) {
        if self.changed {
            record.kind = Kind::Changed;
            record.verdict = Verdict::default();
        }
        let since = std::mem::replace(&mut self.since, now());
        record.time = since.map_or(Duration::ZERO, |since| since.elapsed());
        self.say(Part::Cell(Box::new(Cell {
            cell: cell.to_owned(),
            line: Location::caller().line(),
            outcome: Outcome::Ran(record),
            ..Cell::default()
        })));
    }

    /// A line says one thing: a cell whose line runs twice is lost.
    #[track_caller]
    fn say(&mut self, part: Part) {
        let line = Location::caller().line();
        if self.parts.insert(line, part).is_some()
            && let Some(Part::Cell(cell)) = self.parts.get_mut(&line)
        {
            cell.outcome = Outcome::Lost("its line ran twice".to_owned());
        }
    }
}

/// The time, where there is a clock: WebAssembly alone has none.
fn now() -> Option<Instant> {
    (!cfg!(target_family = "wasm")).then(Instant::now)
}
