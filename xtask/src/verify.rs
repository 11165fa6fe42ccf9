//! `cargo xtask verify`: runs the notebooks and reports, by chapter and section, which printed figures come out.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use notebooks::{
    Cell, Finished, Kind, LeftOut, Outcome, Selection, TrainingRun, select, test_name, text,
};
use serde_json::{Value, json};

use crate::workspace::print;

/// How many of a failed cell's faults are printed.
const FAULTS_SHOWN: usize = 5;

/// What to verify, and how to report it.
#[derive(Args)]
pub(crate) struct Options {
    /// A notebook (ch03, training), a section (3.6), a cell ("In [36]"), an exercise (ex3.2), or a part of a name.
    filter: Option<String>,
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
    let selections = select(filter, options.errata)?;
    if options.list {
        return list(&selections);
    }
    let text = book_text(options.book_text.as_deref())?;
    let epochs = options.epochs.unwrap_or(TrainingRun::EPOCHS);
    ensure!(
        (1..=TrainingRun::EPOCHS).contains(&epochs),
        "--epochs must be from 1 to {}, but is {epochs}",
        TrainingRun::EPOCHS
    );
    let trains = selections
        .iter()
        .any(|selection| selection.program.name == "training");
    let training = TrainingRun {
        epochs,
        build: options.dropout_build.unwrap_or_default(),
        json: options.json.clone().filter(|_| trains),
    };
    let start = Instant::now();
    let mut report = Report::default();
    for selection in &selections {
        let finished = selection.program.run(text, &training, false)?;
        if options.errata {
            report.errata(selection, &finished)?;
        } else {
            report.add(selection, finished, filter.is_none())?;
        }
    }
    if !options.errata {
        report.close(start.elapsed().as_secs_f64())?;
    }
    if let Some(path) = options.json.as_deref().filter(|_| !trains) {
        report.write_json(path)?;
    }
    match report.failed.len() {
        0 => Ok(()),
        failed => bail!(
            "{failed} of {} cells failed:\n{}",
            report.cells,
            report.failed.join("\n")
        ),
    }
}

/// The book's text at `path` or at `$BOOK_TEXT`.
pub(crate) fn book_text(path: Option<&Path>) -> Result<Option<&'static str>> {
    let path = path.map(Path::to_path_buf).or_else(text::from_environment);
    path.as_deref().map(text::read).transpose()
}

fn list(selections: &[Selection]) -> Result<()> {
    for Selection { program, cells } in selections {
        for cell in cells {
            let needs = if cell.needs_text {
                "  (needs --book-text)"
            } else {
                ""
            };
            print(&format!(
                "{:<48} {}{needs}\n",
                test_name(program, cell),
                cell.title
            ))?;
        }
    }
    Ok(())
}

/// What is counted while the notebooks run.
#[derive(Default)]
struct Report {
    cells: usize,
    passed: usize,
    skipped: usize,
    failed: Vec<String>,
    /// Printed figures that were compared.
    figures: usize,
    /// Printed figures that ndarray alone computes.
    shown: usize,
    left_out: Vec<(&'static str, LeftOut)>,
    json: Vec<Value>,
}

impl Report {
    /// Prints and counts the chosen cells of a notebook that has run.
    fn add(&mut self, selection: &Selection, finished: Finished, all: bool) -> Result<()> {
        let Selection { program, cells } = selection;
        print(&format!("\n{:<12} {}\n", program.name, program.title))?;
        let chosen = |name: &Cell| cells.iter().any(|cell| cell.line == name.line);
        let mut section = "";
        for (cell, outcome) in finished.cells.iter().filter(|(cell, _)| chosen(cell)) {
            if section != cell.section {
                section = &cell.section;
                print(&format!("  {section}  {}\n", cell.title))?;
            }
            self.count(&test_name(program, cell), program.title, cell, outcome)?;
        }
        for left_out in finished.left_out {
            if all || cells.iter().any(|cell| cell.cell == left_out.cell) {
                self.left_out.push((program.name, left_out));
            }
        }
        Ok(())
    }

    fn count(&mut self, name: &str, source: &str, cell: &Cell, outcome: &Outcome) -> Result<()> {
        self.cells += 1;
        let faults = match outcome {
            Outcome::Ran(record) => record.verdict.faults.clone(),
            Outcome::Skipped(_) => Vec::new(),
            Outcome::Lost(fault) => vec![fault.clone()],
        };
        let (mark, status) = match outcome {
            _ if !faults.is_empty() => ("FAIL", "failed"),
            Outcome::Skipped(_) => ("skip", "skipped"),
            _ => ("ok  ", "passed"),
        };
        let mut about = String::new();
        let (mut figures, mut difference, mut allowed, mut seconds) = (0, 0.0, 0.0, 0.0);
        match outcome {
            Outcome::Ran(record) => {
                let verdict = &record.verdict;
                (difference, allowed) = (verdict.difference, verdict.allowed);
                (figures, seconds) = (verdict.figures, record.time.as_secs_f64());
                let counted = match record.kind {
                    Kind::Printed => &mut self.figures,
                    Kind::Shown => &mut self.shown,
                    Kind::Own => &mut 0,
                };
                *counted += figures;
                if figures > 0 {
                    about = format!(
                        "{figures:>4} figures  diff {difference:8.1e}  allowed {allowed:8.1e}"
                    );
                }
                if record.kind == Kind::Shown {
                    about += "  by ndarray alone";
                }
            }
            Outcome::Skipped(why) => about.clone_from(why),
            Outcome::Lost(_) => {}
        }
        print(format!("    {mark} {:<28} {about}", cell.name).trim_end())?;
        print("\n")?;
        if let Outcome::Ran(record) = outcome
            && let Some(why) = record.why
        {
            print(&format!("         looser than the printed digits: {why}\n"))?;
        }
        for fault in faults.iter().take(FAULTS_SHOWN) {
            print(&format!("         {fault}\n"))?;
        }
        if faults.len() > FAULTS_SHOWN {
            print(&format!(
                "         and {} more\n",
                faults.len() - FAULTS_SHOWN
            ))?;
        }
        match status {
            "failed" => self.failed.push(format!("  {name}  ({})", cell.title)),
            "skipped" => self.skipped += 1,
            _ => self.passed += 1,
        }
        let number = |value: f64| {
            if value.is_finite() {
                json!(value)
            } else {
                json!("inf")
            }
        };
        self.json.push(json!({
            "id": name, "source": source, "numbers": figures, "max_diff": number(difference),
            "allowed": number(allowed), "status": status, "seconds": seconds,
        }));
        Ok(())
    }

    /// Prints the bugs of a notebook that has run.
    fn errata(&mut self, selection: &Selection, finished: &Finished) -> Result<()> {
        let mut section = "";
        for (cell, outcome) in &finished.cells {
            if !selection
                .cells
                .iter()
                .any(|chosen| chosen.line == cell.line)
            {
                continue;
            }
            if section != cell.section {
                section = &cell.section;
                print(&format!("{section}  {}\n", cell.title))?;
            }
            self.cells += 1;
            let (text, faults) = match outcome {
                Outcome::Ran(record) => (record.ours.as_str(), record.verdict.faults.as_slice()),
                Outcome::Skipped(why) => (why.as_str(), [].as_slice()),
                Outcome::Lost(fault) => (fault.as_str(), std::slice::from_ref(fault)),
            };
            print(&format!(
                "    {}\n        {}\n",
                cell.name,
                text.replace('\n', "\n        ")
            ))?;
            self.failed.extend(
                faults
                    .iter()
                    .map(|fault| format!("  {section} {}: {fault}", cell.name)),
            );
        }
        Ok(())
    }

    /// Prints the summary.
    fn close(&self, seconds: f64) -> Result<()> {
        let left_out: usize = self
            .left_out
            .iter()
            .map(|(_, left_out)| left_out.figures)
            .sum();
        let total = self.figures + self.shown + left_out;
        let memory = peak_memory().map_or(String::new(), |mebibytes| {
            format!(", peak memory {mebibytes} MiB")
        });
        let mut lines = format!(
            "\n{} passed, {} failed, {} skipped; {} of {total} printed figures compared",
            self.passed,
            self.failed.len(),
            self.skipped,
            self.figures
        );
        if self.shown > 0 {
            lines += &format!(", {} more by ndarray alone", self.shown);
        }
        if self.skipped > 0 {
            lines += " (those of the skipped cells not counted)";
        }
        lines += &format!(", {left_out} left out, in {seconds:.1} s{memory}\n");
        for (notebook, LeftOut { cell, figures, why }) in &self.left_out {
            lines += &format!("left out: {notebook} {cell}, {figures} figures: {why}\n");
        }
        print(&lines)
    }

    /// Writes the report as JSON to `path`; a difference that is not finite becomes the text "inf".
    fn write_json(&self, path: &Path) -> Result<()> {
        let report = json!({
            "passed": self.passed, "failed": self.failed.len(), "skipped": self.skipped, "cases": self.json,
        });
        let text = serde_json::to_string_pretty(&report).context("a report is valid JSON")?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The largest resident memory of this process in MiB, where the system tells it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes / 1024)
}
