//! Runs the chosen cases, those that share a large model one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

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

/// A panic of the code under test is that case's failure, and the others still run.
fn recompute(case: &Case, check: Option<&Check>, lab: &mut Lab) -> Result<Verdict> {
    let check = check.context("no function recomputes it")?;
    let computed = catch_unwind(AssertUnwindSafe(|| (check.recompute)(case, lab)));
    let computed = computed.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        anyhow!(
            "panicked: {}",
            text.or(panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message")
        )
    })?;
    compare(case, &computed?)
}

#[cfg(test)]
mod tests {
    use super::super::compare::Computed;
    use super::*;

    fn case() -> Case {
        let text = "id = 'x'\nsource = 's'\nwhat = 'w'\n[[figure]]\nname = 'n'\nkind = 'count'\nprinted = '3'";
        toml::from_str(text).unwrap()
    }

    fn status(check: &Check) -> Status {
        run_one(case(), Some(check), &mut Lab::new(None).unwrap()).status
    }

    #[test]
    fn a_wrong_number_an_error_and_a_panic_each_fail_their_case_alone() {
        assert_eq!(
            status(&Check::new("x", |_, _| Ok(Computed::new().count("n", 3)))),
            Status::Passed
        );
        for wrong in [
            Check::new("x", |_, _| Ok(Computed::new().count("n", 4))),
            Check::new("x", |_, _| anyhow::bail!("no")),
            Check::new("x", |_, _| panic!("no")),
        ] {
            assert!(matches!(status(&wrong), Status::Failed(faults) if faults.len() == 1));
        }
        assert!(matches!(
            run_one(case(), None, &mut Lab::new(None).unwrap()).status,
            Status::Failed(_)
        ));
    }

    #[test]
    fn a_tier_runs_only_when_it_is_named() {
        let mut tiered = case();
        tiered.tier = Some("train".to_owned());
        assert!(chosen(&case(), None) && chosen(&case(), Some("x")) && !chosen(&case(), Some("y")));
        assert!(
            chosen(&tiered, Some("train"))
                && !chosen(&tiered, None)
                && !chosen(&tiered, Some("tr"))
        );
    }
}
