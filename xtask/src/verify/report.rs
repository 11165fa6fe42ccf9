//! The report: one line a case, failures first and worst first; the same as JSON.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::runner::{Line, Status};

/// How many of a failed case's faults are printed.
const FAULTS_SHOWN: usize = 5;

/// Counts of the three outcomes.
pub(crate) struct Summary {
    /// Cases whose every number agrees.
    pub(crate) passed: usize,
    /// Cases that disagree.
    pub(crate) failed: usize,
    /// Cases that were not run.
    pub(crate) skipped: usize,
}

/// Counts the outcomes.
pub(crate) fn summary(lines: &[Line]) -> Summary {
    let count =
        |wanted: fn(&Status) -> bool| lines.iter().filter(|line| wanted(&line.status)).count();
    Summary {
        passed: count(|status| *status == Status::Passed),
        failed: count(|status| matches!(status, Status::Failed(_))),
        skipped: count(|status| matches!(status, Status::Skipped(_))),
    }
}

/// Prints every line and the summary.
pub(crate) fn print(lines: &[Line], elapsed: Duration) {
    let (mut failed, others): (Vec<&Line>, Vec<&Line>) = lines
        .iter()
        .partition(|line| matches!(line.status, Status::Failed(_)));
    failed.sort_by(|one, other| other.verdict.severity().total_cmp(&one.verdict.severity()));
    for line in failed.into_iter().chain(others) {
        print_line(line);
    }
    let Summary {
        passed,
        failed,
        skipped,
    } = summary(lines);
    let numbers: usize = lines.iter().map(|line| line.verdict.numbers).sum();
    let memory = peak_memory().map_or(String::new(), |mebibytes| {
        format!(", peak memory {mebibytes} MiB")
    });
    println!(
        "\n{passed} passed, {failed} failed, {skipped} skipped; {numbers} numbers compared in {:.1} s{memory}",
        elapsed.as_secs_f64()
    );
}

fn print_line(line: &Line) {
    let (mark, tail) = match &line.status {
        Status::Passed => ("ok  ", String::new()),
        Status::Failed(_) => ("FAIL", String::new()),
        Status::Skipped(why) => ("skip", format!("  {why}")),
    };
    let verdict = &line.verdict;
    let differences = match &line.status {
        Status::Skipped(_) => String::new(),
        _ => format!(
            "{:>4} numbers  diff {:8.1e}  allowed {:8.1e}",
            verdict.numbers, verdict.max_diff, verdict.allowed
        ),
    };
    println!(
        "{mark} {:<28} {differences:<48} {}{tail}",
        line.case.id, line.case.source
    );
    if let Some(why) = &line.case.why {
        println!("     looser than the printed digits: {why}");
    }
    if let Status::Failed(faults) = &line.status {
        for fault in faults.iter().take(FAULTS_SHOWN) {
            println!("     {fault}");
        }
        if faults.len() > FAULTS_SHOWN {
            println!("     and {} more", faults.len() - FAULTS_SHOWN);
        }
    }
}

/// Writes the report as JSON to `path`; a difference that is not finite becomes the text "inf".
///
/// # Errors
/// The file can't be written.
pub(crate) fn write_json(path: &Path, lines: &[Line]) -> Result<()> {
    let Summary {
        passed,
        failed,
        skipped,
    } = summary(lines);
    let cases: Vec<Value> = lines.iter().map(as_json).collect();
    let report = json!({ "passed": passed, "failed": failed, "skipped": skipped, "cases": cases });
    let text = serde_json::to_string_pretty(&report).context("a report is valid JSON")?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}

fn as_json(line: &Line) -> Value {
    let number = |value: f64| {
        if value.is_finite() {
            json!(value)
        } else {
            json!("inf")
        }
    };
    let status = match line.status {
        Status::Passed => "passed",
        Status::Failed(_) => "failed",
        Status::Skipped(_) => "skipped",
    };
    json!({
        "id": line.case.id,
        "source": line.case.source,
        "numbers": line.verdict.numbers,
        "max_diff": number(line.verdict.max_diff),
        "allowed": number(line.verdict.allowed),
        "status": status,
        "seconds": line.time.as_secs_f64(),
    })
}

/// The largest resident memory of this process in MiB, where the system tells it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes / 1024)
}
