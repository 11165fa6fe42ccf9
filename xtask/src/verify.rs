//! `cargo xtask verify`: runs the notebooks and reports, by chapter, which printed figures come
//! out.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use atomic_file::write_output;
use clap::Args;
use notebooks::{Cell, Kind, LeftOut, Outcome, Part, Settings, TrainingRun, cells, text};
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
    for row in &chosen.rows {
        print(&format!("{row}\n"))?;
    }
    let selections = &chosen.selections;
    if options.list {
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
    let mut report = Report {
        every_cell: options.verbose || filter.is_some(),
        ..Report::default()
    };
    for selection in selections {
        let parts = selection.program.run(&settings);
        if options.errata {
            report.errata(selection, &parts)?;
        } else {
            report.add(selection, &parts, filter.is_none())?;
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
            report.all.cells(),
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

/// What is counted, of a notebook or of all.
#[derive(Clone, Copy, Default)]
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
    fn cells(&self) -> usize {
        self.passed + self.failed + self.skipped
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.figures += other.figures;
        self.shown += other.shown;
        self.left_out += other.left_out;
    }
}

/// What is counted while the notebooks run.
#[derive(Default)]
struct Report {
    every_cell: bool,
    all: Counts,
    failed: Vec<String>,
    /// Each with its notebook.
    left_out: Vec<(&'static str, LeftOut)>,
    json: Vec<Value>,
}

impl Report {
    /// Prints and counts the chosen cells of a notebook that has run.
    fn add(&mut self, selection: &Selection, parts: &[Part], whole: bool) -> Result<()> {
        let program = selection.program;
        let mut counts = Counts::default();
        if self.every_cell {
            print(&format!("\n{:<20} {}\n", program.name, program.title))?;
        }
        let mut section = "";
        let chosen = || cells(parts).filter(|cell| selection.has(cell));
        for cell in chosen() {
            if section != cell.section && self.every_cell {
                section = &cell.section;
                print(&format!("  {section}  {}\n", cell.title))?;
            }
            let name = program.test_name(cell);
            counts.add(self.count(&name, program.title, cell)?);
        }
        for part in parts {
            if let Part::LeftOut(left_out) = part
                && (whole || chosen().any(|cell| cell.cell == left_out.cell))
            {
                counts.left_out += left_out.figures;
                self.left_out.push((program.name, left_out.clone()));
            }
        }
        if !self.every_cell {
            let skipped = match counts.skipped {
                0 => String::new(),
                skipped => format!(", {skipped} skipped"),
            };
            print(&format!(
                "{} {:<20} {:>3} passed, {} failed{skipped}; {} figures\n",
                if counts.failed == 0 { "ok  " } else { "FAIL" },
                program.name,
                counts.passed,
                counts.failed,
                counts.figures + counts.shown
            ))?;
        }
        self.all.add(counts);
        Ok(())
    }

    /// Prints the cell if it is to be shown, and counts it.
    fn count(&mut self, name: &str, source: &str, cell: &Cell) -> Result<Counts> {
        let mut counts = Counts::default();
        let faults = match &cell.outcome {
            Outcome::Ran(record) => record.verdict.faults.clone(),
            Outcome::Skipped(_) => Vec::new(),
            Outcome::Lost(fault) => vec![fault.clone()],
        };
        let (mark, status, counter) = match cell.outcome {
            _ if !faults.is_empty() => ("FAIL", "failed", &mut counts.failed),
            Outcome::Skipped(_) => ("skip", "skipped", &mut counts.skipped),
            _ => ("ok  ", "passed", &mut counts.passed),
        };
        *counter = 1;
        let mut about = String::new();
        let (mut figures, mut difference, mut allowed, mut seconds) = (0, 0.0, 0.0, 0.0);
        match &cell.outcome {
            Outcome::Ran(record) => {
                let verdict = &record.verdict;
                (difference, allowed) = (verdict.difference, verdict.allowed);
                (figures, seconds) = (verdict.figures, record.time.as_secs_f64());
                match record.kind {
                    Kind::Printed => counts.figures = figures,
                    Kind::Shown => counts.shown = figures,
                    Kind::Own | Kind::Changed => {}
                }
                if figures > 0 {
                    about = format!(
                        "{figures:>4} figures  diff {difference:8.1e}  allowed {allowed:8.1e}"
                    );
                }
                if record.kind == Kind::Shown {
                    about += "  by ndarray alone";
                }
                if let Some(why) = record.why {
                    about += &format!("\n         looser than the printed digits: {why}");
                }
            }
            Outcome::Skipped(why) => about.clone_from(why),
            Outcome::Lost(_) => {}
        }
        if self.every_cell || counts.failed > 0 {
            let shown = if self.every_cell { &cell.name } else { name };
            let mut lines = format!("    {mark} {shown:<28} {about}")
                .trim_end()
                .to_owned();
            for fault in faults.iter().take(FAULTS_SHOWN) {
                lines += &format!("\n         {fault}");
            }
            if faults.len() > FAULTS_SHOWN {
                lines += &format!("\n         and {} more", faults.len() - FAULTS_SHOWN);
            }
            print(&(lines + "\n"))?;
        }
        if counts.failed > 0 {
            self.failed.push(format!("  {name}  ({})", cell.title));
        }
        let number = |value: f64| match value.is_finite() {
            true => json!(value),
            false => json!("inf"),
        };
        self.json.push(json!({
            "id": name, "source": source, "numbers": figures, "max_diff": number(difference),
            "allowed": number(allowed), "status": status, "seconds": seconds,
        }));
        Ok(counts)
    }

    /// Prints the bugs of a notebook that has run.
    fn errata(&mut self, selection: &Selection, parts: &[Part]) -> Result<()> {
        let mut section = "";
        for cell in cells(parts).filter(|cell| selection.has(cell)) {
            if section != cell.section {
                section = &cell.section;
                print(&format!("{section}  {}\n", cell.title))?;
            }
            self.all.passed += 1;
            let (text, faults) = match &cell.outcome {
                Outcome::Ran(record) => (record.ours.as_str(), record.verdict.faults.as_slice()),
                Outcome::Skipped(why) => (why.as_str(), [].as_slice()),
                Outcome::Lost(fault) => (fault.as_str(), std::slice::from_ref(fault)),
            };
            let text = text.replace('\n', "\n        ");
            print(&format!("    {}\n        {text}\n", cell.name))?;
            let faults = faults.iter();
            let named = faults.map(|fault| format!("  {section} {}: {fault}", cell.name));
            self.failed.extend(named);
        }
        Ok(())
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
        } = self.all;
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
        let memory = peak_memory().map_or(String::new(), |mebibytes| {
            format!(", peak memory {mebibytes} MiB")
        });
        lines += &format!(", {left_out} left out, in {seconds:.1} s{memory}\n");
        let mut left_out = self.left_out.iter().peekable();
        while let Some((notebook, first)) = left_out.next() {
            // Neighbours that are left out for the same reason are one line.
            let (mut names, mut figures) = (first.cell.clone(), first.figures);
            let same = |next: &&(&str, LeftOut)| {
                (next.0, &next.1.section, &next.1.why) == (notebook, &first.section, &first.why)
            };
            while let Some((_, next)) = left_out.next_if(same) {
                names += &format!(", {}", next.cell);
                figures += next.figures;
            }
            let LeftOut { section, why, .. } = first;
            lines +=
                &format!("left out: {notebook} {section}, {names}: {figures} figures: {why}\n");
        }
        print(&lines)
    }

    /// Writes the report as JSON to `path`; a difference that is not finite becomes the text "inf".
    fn write_json(&self, path: &Path) -> Result<()> {
        let report = json!({
            "passed": self.all.passed, "failed": self.failed.len(), "skipped": self.all.skipped,
            "cases": self.json,
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
