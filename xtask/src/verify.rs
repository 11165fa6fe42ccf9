//! `cargo xtask verify`: runs the notebooks and reports, by chapter, which printed figures come
//! out.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use atomic_file::write_output;
use clap::Args;
use notebooks::{
    Cell, Kind, LeftOut, Outcome, Part, Program, Record, Settings, TrainingRun, cells, text,
};
use serde_json::{Value, json};

use crate::select::{HOW_LONG, Selection, select};
use crate::workspace::print;

/// How many of a failed cell's faults are printed.
const FAULTS_SHOWN: usize = 5;

/// What to verify, and how to report it.
#[derive(Args)]
pub(crate) struct Options {
    /// A notebook (ch3, training), a section (3.6), a cell ("In [36]"), an exercise (ex3.2), a
    /// listing ("Listing 3.5"), an item (MultiHeadAttention), or a part of a name.
    filter: Option<String>,
    /// Show every cell; those of a chosen part are shown anyway.
    #[arg(short, long)]
    verbose: bool,
    /// List the cells instead of running them.
    #[arg(long)]
    list: bool,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The book's text (the-verdict.txt), which some cells need; `$BOOK_TEXT` names it too.
    #[arg(long, value_name = "FILE")]
    book_text: Option<PathBuf>,
    /// Show each bug of the documents with its result and the right one, both computed.
    #[arg(long)]
    errata: bool,
    /// Train for fewer epochs than the book's ten (notebook `training`).
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
    /// Train with the dropout of another build of PyTorch, portable or mkl (notebook `training`).
    #[arg(long, value_name = "BUILD")]
    dropout_build: Option<torch_rng::Build>,
}

/// Runs the chosen cells and prints the report.
///
/// # Errors
/// A cell failed, none was chosen, or a file could not be read or written.
pub(crate) fn run(options: &Options) -> Result<()> {
    let filter = options.filter.as_deref();
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
    let text = book_text(options.book_text.as_deref())?;
    let epochs = options.epochs.unwrap_or(TrainingRun::EPOCHS);
    ensure!(
        (1..=TrainingRun::EPOCHS).contains(&epochs),
        "--epochs must be from 1 to {}, but is {epochs}",
        TrainingRun::EPOCHS
    );
    let trains = selections.iter().any(|it| it.program.name == "training");
    let training = TrainingRun {
        epochs,
        build: options.dropout_build.unwrap_or_default(),
        json: options.json.clone().filter(|_| trains),
    };
    let settings = Settings {
        text,
        training,
        ..Settings::default()
    };
    let start = Instant::now();
    let mut report = Report::default();
    for (place, selection) in selections.iter().enumerate() {
        let program = selection.program;
        let parts = program.run(&settings);
        let chosen: Vec<&Cell> = cells(&parts).filter(|cell| selection.has(cell)).collect();
        let by_chapter = !options.verbose && filter.is_none();
        match (options.errata, by_chapter) {
            (true, _) => print_errata(&chosen)?,
            (false, true) => print_failed(program, &chosen)?,
            (false, false) => print_cells(program, &chosen)?,
        }
        report.add(selection, parts, filter.is_none());
        let next = selections.get(place + 1);
        let ends = next.is_none_or(|next| chapter(next.program) != chapter(program));
        if by_chapter && ends && !options.errata {
            print(
                &report
                    .of(|it| chapter(it) == chapter(program))
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
    let failed = report
        .cells
        .iter()
        .filter(|(_, cell)| status(cell) == FAILED);
    let failed = failed.map(|(it, cell)| format!("  {}  ({})", it.test_name(cell), cell.title));
    let failed: Vec<String> = failed.collect();
    ensure!(
        failed.is_empty(),
        "{} of {} cells failed:\n{}",
        failed.len(),
        report.cells.len(),
        failed.join("\n")
    );
    Ok(())
}

/// The book's text at `path` or at `$BOOK_TEXT`.
pub(crate) fn book_text(path: Option<&Path>) -> Result<Option<&'static str>> {
    let path = path.map(Path::to_path_buf).or_else(text::from_environment);
    path.as_deref().map(text::read).transpose()
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
fn print_cells(program: &Program, cells: &[&Cell]) -> Result<()> {
    print(&format!("\n{:<20} {}\n", program.name, program.title))?;
    for cells in cells.chunk_by(|one, other| one.section == other.section) {
        print(&format!("  {}  {}\n", cells[0].section, cells[0].title))?;
        for cell in cells {
            print(&line(&cell.name, cell))?;
        }
    }
    Ok(())
}

fn print_failed(program: &Program, cells: &[&Cell]) -> Result<()> {
    for cell in cells.iter().filter(|cell| status(cell) == FAILED) {
        print(&line(&program.test_name(cell), cell))?;
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

/// Prints the bugs of a notebook that has run.
fn print_errata(cells: &[&Cell]) -> Result<()> {
    for cells in cells.chunk_by(|one, other| one.section == other.section) {
        print(&format!("{}  {}\n", cells[0].section, cells[0].title))?;
        for cell in cells {
            let mut text = Vec::new();
            match &cell.outcome {
                Outcome::Ran(record) => {
                    text.push(record.ours.clone());
                    text.extend(record.verdict.faults.iter().cloned());
                }
                Outcome::Skipped(why) | Outcome::Lost(why) => text.push(why.clone()),
            }
            let text = text.join("\n").replace('\n', "\n        ");
            print(&format!("    {}\n        {text}\n", cell.name))?;
        }
    }
    Ok(())
}

/// All that has been chosen and has run.
#[derive(Default)]
struct Report {
    cells: Vec<(&'static Program, Box<Cell>)>,
    left_out: Vec<(&'static Program, LeftOut)>,
}

/// What is counted of it.
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
        let program = selection.program;
        let first = self.cells.len();
        for part in parts {
            match part {
                Part::Cell(cell) if selection.has(&cell) => self.cells.push((program, cell)),
                Part::LeftOut(left_out) => {
                    let mut chosen = self.cells[first..].iter();
                    if whole || chosen.any(|(_, cell)| cell.cell == left_out.cell) {
                        self.left_out.push((program, left_out));
                    }
                }
                _ => {}
            }
        }
    }

    /// What is counted in the notebooks that are `chosen`.
    fn of(&self, chosen: impl Fn(&Program) -> bool) -> Counts {
        let cells = || self.cells.iter().filter(|(program, _)| chosen(program));
        let count = |of: &str| cells().filter(|(_, cell)| status(cell) == of).count();
        let figures = |of: Kind| -> usize {
            let figures = cells().map(|(_, cell)| match &cell.outcome {
                Outcome::Ran(record) if record.kind == of => record.verdict.figures,
                _ => 0,
            });
            figures.sum()
        };
        let left_out = self.left_out.iter().filter(|(program, _)| chosen(program));
        Counts {
            passed: count(PASSED),
            failed: count(FAILED),
            skipped: count(SKIPPED),
            figures: figures(Kind::Printed),
            shown: figures(Kind::Shown),
            left_out: left_out.map(|(_, left_out)| left_out.figures).sum(),
        }
    }

    /// Prints the summary.
    fn close(&self, seconds: f64) -> Result<()> {
        let Counts {
            passed,
            failed,
            skipped,
            figures,
            shown,
            left_out,
        } = self.of(|_| true);
        let mut lines = format!(
            "\n{passed} passed, {failed} failed, {skipped} skipped; {figures} of {} printed figures compared",
            figures + shown + left_out
        );
        if shown > 0 {
            lines += &format!(", {shown} more by ndarray alone");
        }
        if skipped > 0 {
            lines += " (those of the skipped cells not counted)";
        }
        lines += &format!(", {left_out} left out, in {seconds:.1} s");
        let memory = peak_memory().map(|mebibytes| format!(", peak memory {mebibytes} MiB"));
        lines += &(memory.unwrap_or_default() + "\n");
        // Neighbours that are left out for the same reason are one line.
        let same = |(one, first): &(&Program, LeftOut), (other, second): &(&Program, LeftOut)| {
            (one.name, &first.section, &first.why) == (other.name, &second.section, &second.why)
        };
        for all in self.left_out.chunk_by(same) {
            let (program, LeftOut { section, why, .. }) = &all[0];
            let names: Vec<&str> = all.iter().map(|(_, it)| it.cell.as_str()).collect();
            let figures: usize = all.iter().map(|(_, it)| it.figures).sum();
            let (notebook, names) = (program.name, names.join(", "));
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
        let cases = self.cells.iter().map(|(program, cell)| {
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
        let all = self.of(|_| true);
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
