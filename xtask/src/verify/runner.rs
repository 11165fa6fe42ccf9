//! Runs the chosen cases, those that share a large model one after the other.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::compare::{Verdict, compare};
use super::lab::Lab;
use super::registry::{Check, checks};
use super::table::Case;

/// What became of a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Status {
    /// Every number agrees.
    Passed,
    /// Something does not agree, or the computation failed: what, one line each.
    Failed(Vec<String>),
    /// It was not run: why.
    Skipped(String),
}

/// One line of the report.
pub(crate) struct Line {
    /// The case.
    pub(crate) case: Case,
    /// Its outcome.
    pub(crate) status: Status,
    /// The comparison, empty when skipped.
    pub(crate) verdict: Verdict,
    /// How long it took.
    pub(crate) time: Duration,
}

/// Whether `filter` chooses `case`: part of its id, or its whole tier.
pub(crate) fn chosen(case: &Case, filter: Option<&str>) -> bool {
    match (&case.tier, filter) {
        (None, None) => true,
        (None, Some(filter)) => case.id.contains(filter),
        (Some(_), None) => false,
        (Some(tier), Some(filter)) => filter == tier || case.id == filter,
    }
}

/// Runs every case of `cases`, and returns the lines in the order of the table.
pub(crate) fn run(cases: Vec<Case>, lab: &mut Lab) -> Vec<Line> {
    let mut jobs: Vec<(usize, Case, Option<&'static Check>)> = cases
        .into_iter()
        .enumerate()
        .map(|(index, case)| {
            let check = checks().find(|check| check.id == case.id);
            (index, case, check)
        })
        .collect();
    jobs.sort_by_key(|(index, _, check)| (check.map(|check| check.model), *index));
    let mut lines: Vec<(usize, Line)> = jobs
        .into_iter()
        .map(|(index, case, check)| {
            if let Some(check) = check {
                lab.keep_only(check.model);
            }
            (index, run_one(case, check, lab))
        })
        .collect();
    lines.sort_by_key(|(index, _)| *index);
    lines.into_iter().map(|(_, line)| line).collect()
}

fn run_one(case: Case, check: Option<&Check>, lab: &mut Lab) -> Line {
    let start = Instant::now();
    if case.needs_book_text && !lab.has_book_text() {
        let status = Status::Skipped("needs --book-text".to_owned());
        return Line {
            case,
            status,
            verdict: Verdict::default(),
            time: start.elapsed(),
        };
    }
    let (status, verdict) = match recompute(&case, check, lab) {
        Ok(verdict) if verdict.faults.is_empty() => (Status::Passed, verdict),
        Ok(verdict) => (Status::Failed(verdict.faults.clone()), verdict),
        Err(error) => (
            Status::Failed(vec![format!("{error:#}")]),
            Verdict::default(),
        ),
    };
    Line {
        case,
        status,
        verdict,
        time: start.elapsed(),
    }
}

fn recompute(case: &Case, check: Option<&Check>, lab: &mut Lab) -> Result<Verdict> {
    let check = check.ok_or_else(|| anyhow::anyhow!("no function recomputes it"))?;
    let computed = (check.recompute)(case, lab)?;
    compare(case, &computed)
}
