//! What a notebook writes into while it runs: its section, and a record for each cell.

use std::fmt::Display;
use std::panic::Location;
use std::time::{Duration, Instant};

use pictures::Picture;

use crate::TrainingRun;
use crate::printed::{Verdict, compare};
use crate::torch_form;
use crate::value::{Shown, Value};

/// One notebook while it runs.
pub struct Notebook {
    text: Option<&'static str>,
    training: TrainingRun,
    since: Instant,
    pub(crate) records: Vec<Record>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) ended: Option<String>,
    /// Each with the line of its call; `None` where no page is asked for.
    pub(crate) pictures: Option<Vec<(u32, Picture)>>,
}

/// What a record counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Figures that a document prints.
    Printed,
    /// Figures that a document prints and that no crate of ours computes.
    Shown,
    /// What no document prints: a shape, the same result by two ways, a refusal, a bug beside the right code.
    Own,
}

/// What became of a cell.
#[derive(Clone, Debug)]
pub struct Record {
    /// The line of its call.
    pub(crate) line: u32,
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

/// Figures that a document prints and that are not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Where they stand.
    pub cell: &'static str,
    /// How many.
    pub figures: usize,
    /// Why.
    pub why: &'static str,
}

impl Notebook {
    pub(crate) fn new(text: Option<&'static str>, training: TrainingRun, draws: bool) -> Self {
        Self {
            text,
            training,
            since: Instant::now(),
            records: Vec::new(),
            left_out: Vec::new(),
            ended: None,
            pictures: draws.then(Vec::new),
        }
    }

    /// The cells that follow belong to this section, by the document's own number and title.
    ///
    /// The outline reads both from the source.
    pub fn section(&mut self, _number: &str, _title: &str) {
        self.since = Instant::now();
    }

    /// `cargo xtask notebook` prints the item of the file `path` whose first line begins with `start`.
    ///
    /// The outline reads both from the source, and a test that there is such an item.
    pub fn listing(&mut self, _path: &str, _start: &str) {}

    /// A picture of what was computed, for the notebook's page; costs nothing where no page is asked for.
    ///
    /// What only the picture needs is computed inside `picture`.
    #[track_caller]
    pub fn draws(&mut self, _name: &str, picture: impl FnOnce() -> Picture) {
        if let Some(pictures) = &mut self.pictures {
            pictures.push((Location::caller().line(), picture()));
        }
    }

    /// The book's text, if it was given.
    pub fn the_verdict(&self) -> Option<&'static str> {
        self.text
    }

    /// How chapter 5's run was asked for.
    pub fn training(&self) -> &TrainingRun {
        &self.training
    }

    /// The document prints this; the digits say how near the value must lie.
    #[track_caller]
    pub fn prints(&mut self, _cell: &str, value: &(impl Shown + ?Sized), printed: &str) {
        self.compare(Kind::Printed, value.value(), printed, None);
    }

    /// As [`Self::prints`], within another tolerance, for a reason.
    #[track_caller]
    pub fn prints_within(
        &mut self,
        _cell: &str,
        value: &(impl Shown + ?Sized),
        printed: &str,
        tolerance: f64,
        why: &'static str,
    ) {
        self.compare(
            Kind::Printed,
            value.value(),
            printed,
            Some((tolerance, why)),
        );
    }

    /// The document prints this, but no crate of ours computes it: compared, and not counted as ours.
    #[track_caller]
    pub fn shows(&mut self, _cell: &str, value: &(impl Shown + ?Sized), printed: &str) {
        self.compare(Kind::Shown, value.value(), printed, None);
    }

    /// The same output as the last one printed, computed another way: compared with the same digits, not counted twice.
    #[track_caller]
    pub fn again(&mut self, _cell: &str, value: &(impl Shown + ?Sized)) {
        let printed = self
            .records
            .iter()
            .rev()
            .find_map(|record| record.printed.clone());
        let printed = printed.unwrap_or_default();
        self.compare(Kind::Own, value.value(), &printed, None);
    }

    /// Figures that the document does not print itself, and where they come from: compared, not counted as printed.
    #[track_caller]
    pub fn known(
        &mut self,
        _cell: &str,
        value: &(impl Shown + ?Sized),
        figures: &str,
        _source: &str,
    ) {
        self.compare(Kind::Own, value.value(), figures, None);
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
    pub fn agrees(
        &mut self,
        _cell: &str,
        one: &(impl Shown + ?Sized),
        other: &(impl Shown + ?Sized),
    ) {
        let (one, other) = (one.value(), other.value());
        let fault = (one != other).then(|| "they differ".to_owned());
        self.own(fault, torch_form::print(&one));
    }

    /// It is refused, with this text in the error.
    #[track_caller]
    pub fn refuses<T, E: Display>(&mut self, _cell: &str, result: Result<T, E>, text: &str) {
        let error = result.err().map(|error| error.to_string());
        let fault = match &error {
            Some(error) if error.contains(text) => None,
            Some(error) => Some(format!("expected `{text}`, but the error is `{error}`")),
            None => Some(format!("expected `{text}`, but there is no error")),
        };
        self.own(fault, error.unwrap_or_default());
    }

    /// A bug of a document: what its code gives and what is right, both computed; they must differ.
    #[track_caller]
    pub fn erratum(
        &mut self,
        _cell: &str,
        bug: &str,
        wrong: &(impl Shown + ?Sized),
        remedy: &str,
        right: &(impl Shown + ?Sized),
    ) {
        let (wrong, right) = (wrong.value(), right.value());
        let fault = (wrong == right).then(|| "the bug makes no difference".to_owned());
        self.own(
            fault,
            format!(
                "{bug}:\n{}\n{remedy}:\n{}",
                torch_form::print(&wrong),
                torch_form::print(&right)
            ),
        );
    }

    /// Figures of a cell that are not compared, and why.
    pub fn leaves_out(&mut self, cell: &'static str, figures: usize, why: &'static str) {
        self.left_out.push(LeftOut { cell, figures, why });
    }

    /// The cells that follow are not run, for this reason; the notebook returns.
    pub fn ends(&mut self, why: impl Into<String>) {
        self.ended = Some(why.into());
    }

    #[track_caller]
    fn compare(
        &mut self,
        kind: Kind,
        value: Value,
        printed: &str,
        within: Option<(f64, &'static str)>,
    ) {
        let verdict = compare(&value, printed, within.map(|(tolerance, _)| tolerance));
        let verdict = verdict.unwrap_or_else(|error| Verdict {
            faults: vec![format!("{error:#}")],
            ..Verdict::default()
        });
        let why = within.map(|(_, why)| why);
        self.record(
            kind,
            verdict,
            torch_form::print(&value),
            Some(printed.to_owned()),
            why,
        );
    }

    #[track_caller]
    fn own(&mut self, fault: Option<String>, ours: String) {
        let verdict = Verdict {
            faults: Vec::from_iter(fault),
            ..Verdict::default()
        };
        self.record(Kind::Own, verdict, ours, None, None);
    }

    #[track_caller]
    fn record(
        &mut self,
        kind: Kind,
        verdict: Verdict,
        ours: String,
        printed: Option<String>,
        why: Option<&'static str>,
    ) {
        let line = Location::caller().line();
        let time = self.since.elapsed();
        self.since = Instant::now();
        self.records.push(Record {
            line,
            kind,
            verdict,
            ours,
            printed,
            why,
            time,
        });
    }
}
