//! `cargo xtask verify`: runs the notebooks and reports, by chapter, which printed figures come
//! out.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use atomic_file::write_output;
use clap::{Args, value_parser};
use notebooks::{
    Cell, Kind, LeftOut, Outcome, Part, Program, Record, Settings, TrainingRun, cells,
};
use serde_json::{Value, json};

use crate::select::{HOW_LONG, Selection, What, select};
use crate::workspace::print;

/// How many of a failed cell's faults are printed.
const FAULTS_SHOWN: usize = 5;

/// What to verify, and how to report it.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    what: What,
    /// Show every cell; those of a chosen part are shown anyway.
    #[arg(short, long)]
    verbose: bool,
    /// List the cells instead of running them.
    #[arg(long)]
    list: bool,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show each bug of the documents with its result and the right one, both computed.
    #[arg(long)]
    errata: bool,
    /// Train for fewer epochs than the book's ten (notebook `training`).
    #[arg(long, value_name = "N", default_value_t = TrainingRun::EPOCHS,
        value_parser = value_parser!(u64).range(1..=TrainingRun::EPOCHS))]
    epochs: u64,
    /// Train with the dropout of another build of PyTorch, portable or mkl (notebook `training`).
    #[arg(long, value_name = "BUILD", default_value_t)]
    dropout_build: torch_rng::Build,
}

/// Runs the chosen cells and prints the report.
///
/// # Errors
/// A cell failed, none was chosen, or a file could not be read or written.
pub(crate) fn run(options: &Options) -> Result<()> {
    let filter = options.what.filter.as_deref();
    let chosen = select(filter, options.errata)?;
    chosen.print_rows()?;
    let selections = &chosen.selections;
    if options.list || selections.is_empty() {
        return list(selections);
    }
    if let Some(long) = selections.iter().find(|selection| !selection.runs) {
        let (filter, name) = (filter.unwrap_or_default(), long.program.name);
        bail!("`{filter}` is in the notebook `{name}`, which {HOW_LONG}");
    }
    let trains = selections.iter().any(|it| it.program.name == "training");
    let settings = Settings {
        training: TrainingRun {
            epochs: options.epochs,
            build: options.dropout_build,
            json: options.json.clone().filter(|_| trains),
        },
        ..options.what.settings()?
    };
    let start = Instant::now();
    let by_chapter = !options.verbose && !options.errata && filter.is_none();
    let form = if options.errata { bug } else { line };
    let mut report = Report::default();
    for (place, selection) in selections.iter().enumerate() {
        let program = selection.program;
        let parts = program.run(&settings);
        let cells: Vec<&Cell> = cells(&parts).filter(|cell| selection.has(cell)).collect();
        if by_chapter {
            for cell in cells.iter().filter(|cell| status(cell) == FAILED) {
                print(&line(&program.test_name(cell), cell))?;
            }
        } else {
            print_cells(program, &cells, form)?;
        }
        report.add(selection, parts, filter.is_none());
        let next = selections.get(place + 1).map(|next| chapter(next.program));
        if by_chapter && next != Some(chapter(program)) {
            print(
                &report
                    .counts(|it| chapter(it) == chapter(program))
                    .line(chapter(program)),
            )?;
        }
    }
    if !options.errata {
        report.close(start.elapsed().as_secs_f64())?;
    }
    if let Some(path) = options.json.as_deref().filter(|_| !trains) {
        report.write_json(path)?;
    }
    let failed = report.cells().filter(|(_, cell)| status(cell) == FAILED);
    let failed = failed.map(|(it, cell)| format!("  {}  ({})", it.test_name(cell), cell.title));
    let failed: Vec<String> = failed.collect();
    ensure!(
        failed.is_empty(),
        "{} of {} cells failed:\n{}",
        failed.len(),
        report.cells().count(),
        failed.join("\n")
    );
    Ok(())
}

fn list(selections: &[Selection]) -> Result<()> {
    for selection in selections {
        let parts = selection.program.unrun("listed");
        for cell in cells(&parts).filter(|cell| selection.has(cell)) {
            let name = selection.program.test_name(cell);
            let needs = if cell.needs_text {
                "  (needs --book-text)"
            } else {
                ""
            };
            print(&format!("{name:<48} {}{needs}\n", cell.title))?;
        }
    }
    Ok(())
}

const PASSED: &str = "passed";
const FAILED: &str = "failed";
const SKIPPED: &str = "skipped";

fn status(cell: &Cell) -> &'static str {
    match &cell.outcome {
        Outcome::Ran(record) if record.verdict.faults.is_empty() => PASSED,
        Outcome::Ran(_) | Outcome::Lost(_) => FAILED,
        Outcome::Skipped(_) => SKIPPED,
    }
}

/// Of "Chapter 2: Working with Text Data" and "Chapter 2, exercise solutions" what they share.
fn chapter(program: &Program) -> &'static str {
    program.title.split([':', ',']).next().unwrap_or_default()
}

/// Prints the cells of a notebook that has run, by section.
fn print_cells(program: &Program, cells: &[&Cell], form: fn(&str, &Cell) -> String) -> Result<()> {
    print(&format!("\n{:<20} {}\n", program.name, program.title))?;
    for cells in cells.chunk_by(|one, other| one.section == other.section) {
        print(&format!("  {}  {}\n", cells[0].section, cells[0].title))?;
        for cell in cells {
            print(&form(&cell.name, cell))?;
        }
    }
    Ok(())
}

/// A cell's verdict, with what does not agree.
fn line(name: &str, cell: &Cell) -> String {
    let mark = match status(cell) {
        PASSED => "ok  ",
        FAILED => "FAIL",
        _ => "skip",
    };
    let (mut line, mut faults) = (format!("    {mark} {name:<28} "), Vec::new());
    match &cell.outcome {
        Outcome::Skipped(why) => line += why,
        Outcome::Lost(fault) => faults.push(fault.clone()),
        Outcome::Ran(record) => {
            let verdict = &record.verdict;
            if verdict.figures > 0 {
                line += &format!(
                    "{:>4} figures  diff {:8.1e}  allowed {:8.1e}",
                    verdict.figures, verdict.difference, verdict.allowed
                );
            }
            if record.kind == Kind::Shown {
                line += "  by ndarray alone";
            }
            let why = record.why.iter();
            faults.extend(why.map(|why| format!("looser than the printed digits: {why}")));
            faults.extend(verdict.faults.iter().take(FAULTS_SHOWN).cloned());
            let more = verdict.faults.len().saturating_sub(FAULTS_SHOWN);
            faults.extend((more > 0).then(|| format!("and {more} more")));
        }
    }
    let faults = faults.iter().map(|fault| format!("\n         {fault}"));
    line.trim_end().to_owned() + &faults.collect::<String>() + "\n"
}

/// A bug's result beside the right one.
fn bug(name: &str, cell: &Cell) -> String {
    let text = match &cell.outcome {
        Outcome::Ran(Record { ours, verdict, .. }) => {
            let faults = verdict.faults.iter().map(|fault| format!("\n{fault}"));
            ours.clone() + &faults.collect::<String>()
        }
        Outcome::Skipped(why) | Outcome::Lost(why) => why.clone(),
    };
    format!("    {name}\n        {}\n", text.replace('\n', "\n        "))
}

/// All cells that have been chosen and have run, and what is left out, each with its notebook.
#[derive(Default)]
struct Report(Vec<(&'static Program, Part)>);

/// What is counted of it.
#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Printed figures that were compared.
    figures: usize,
    /// Printed figures that ndarray alone computes.
    shown: usize,
    left_out: usize,
}

impl Counts {
    fn add(&mut self, part: &Part) {
        match part {
            Part::LeftOut(left_out) => self.left_out += left_out.figures,
            Part::Cell(cell) => {
                match status(cell) {
                    PASSED => self.passed += 1,
                    FAILED => self.failed += 1,
                    _ => self.skipped += 1,
                }
                if let Outcome::Ran(record) = &cell.outcome {
                    match record.kind {
                        Kind::Printed => self.figures += record.verdict.figures,
                        Kind::Shown => self.shown += record.verdict.figures,
                        Kind::Own | Kind::Changed => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Of a chapter.
    fn line(&self, chapter: &str) -> String {
        let mark = if self.failed == 0 { "ok  " } else { "FAIL" };
        let mut line = format!("{mark} {chapter:<24} {:>3} passed", self.passed);
        for (count, what) in [(self.failed, FAILED), (self.skipped, SKIPPED)] {
            if count > 0 {
                line += &format!(", {count} {what}");
            }
        }
        line += &format!("; {} figures", self.figures + self.shown);
        if self.left_out > 0 {
            line += &format!(", {} left out", self.left_out);
        }
        line + "\n"
    }
}

impl Report {
    /// The chosen cells, and what is left out: of a `whole` notebook or of one of the cells.
    fn add(&mut self, selection: &Selection, parts: Vec<Part>, whole: bool) {
        let names = cells(&parts).filter(|cell| selection.has(cell));
        let names: Vec<String> = names.map(|cell| cell.cell.clone()).collect();
        let is_chosen = |part: &Part| match part {
            Part::Cell(cell) => selection.has(cell),
            Part::LeftOut(left_out) => whole || names.contains(&left_out.cell),
            _ => false,
        };
        let chosen = parts.into_iter().filter(is_chosen);
        self.0.extend(chosen.map(|part| (selection.program, part)));
    }

    fn cells(&self) -> impl Iterator<Item = (&'static Program, &Cell)> {
        self.0.iter().filter_map(|(program, part)| match part {
            Part::Cell(cell) => Some((*program, cell.as_ref())),
            _ => None,
        })
    }

    /// What is counted in the notebooks that are `chosen`.
    fn counts(&self, chosen: impl Fn(&Program) -> bool) -> Counts {
        let mut counts = Counts::default();
        let parts = self.0.iter().filter(|(program, _)| chosen(program));
        parts.for_each(|(_, part)| counts.add(part));
        counts
    }

    /// Prints the summary.
    fn close(&self, seconds: f64) -> Result<()> {
        let all = self.counts(|_| true);
        let (figures, shown, left_out) = (all.figures, all.shown, all.left_out);
        let mut lines = format!(
            "\n{} passed, {} failed, {} skipped; {figures} of {} printed figures compared",
            all.passed,
            all.failed,
            all.skipped,
            figures + shown + left_out
        );
        if shown > 0 {
            lines += &format!(", {shown} more by ndarray alone");
        }
        if all.skipped > 0 {
            lines += " (those of the skipped cells not counted)";
        }
        lines += &format!(", {left_out} left out, in {seconds:.1} s");
        let memory = peak_memory().map(|mebibytes| format!(", peak memory {mebibytes} MiB"));
        lines += &(memory.unwrap_or_default() + "\n");
        let left_out = self.0.iter().filter_map(|(program, part)| match part {
            Part::LeftOut(it) => Some(((program.name, &it.section, &it.why), it)),
            _ => None,
        });
        let left_out: Vec<(_, &LeftOut)> = left_out.collect();
        // Neighbours that are left out for the same reason are one line.
        for all in left_out.chunk_by(|one, other| one.0 == other.0) {
            let (notebook, section, why) = all[0].0;
            let names: Vec<&str> = all.iter().map(|(_, it)| it.cell.as_str()).collect();
            let figures: usize = all.iter().map(|(_, it)| it.figures).sum();
            let names = names.join(", ");
            lines +=
                &format!("left out: {notebook} {section}, {names}: {figures} figures: {why}\n");
        }
        print(&lines)
    }

    /// Writes the report as JSON to `path`; a difference that is not finite becomes the text "inf".
    fn write_json(&self, path: &Path) -> Result<()> {
        let number = |value: f64| match value.is_finite() {
            true => json!(value),
            false => json!("inf"),
        };
        let unrun = Record::default();
        let cases = self.cells().map(|(program, cell)| {
            let record = match &cell.outcome {
                Outcome::Ran(record) => record,
                _ => &unrun,
            };
            let verdict = &record.verdict;
            json!({
                "id": program.test_name(cell), "source": program.title,
                "numbers": verdict.figures, "max_diff": number(verdict.difference),
                "allowed": number(verdict.allowed), "status": status(cell),
                "seconds": record.time.as_secs_f64(),
            })
        });
        let cases: Vec<Value> = cases.collect();
        let all = self.counts(|_| true);
        let report = json!({
            "passed": all.passed, "failed": all.failed, "skipped": all.skipped, "cases": cases,
        });
        let text = serde_json::to_string_pretty(&report).context("a report is valid JSON")?;
        Ok(write_output(path, |out| writeln!(out, "{text}"))?)
    }
}

/// The largest resident memory of this process in MiB, where the system tells it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes / 1024)
}
