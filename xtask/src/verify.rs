//! `cargo xtask verify`: runs the notebooks and reports, by chapter, which printed figures come
//! out.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Args, value_parser};
use notebooks::{
    Cell, HOW_TO_GIVE_TEXT, Kind, LeftOut, NEEDS_TEXT, Outcome, Part, Program, Settings,
    TrainingRun, cells,
};

use crate::select::{Selection, What, select};
use crate::workspace::print;

/// The number of a failed cell's faults that are printed.
const FAULTS_SHOWN: usize = 5;

/// The cells to verify, and how to train.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    what: What,
    /// Show every cell; those of a chosen part are shown anyway.
    #[arg(short, long)]
    verbose: bool,
    /// Train for fewer epochs than the book's ten (notebook `training`).
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=TrainingRun::EPOCHS))]
    epochs: Option<u64>,
    /// Train with the dropout of another build of PyTorch, portable or mkl (notebook `training`).
    #[arg(long, value_name = "BUILD")]
    dropout_build: Option<torch_rng::Build>,
    /// Write every step of the training as JSON (notebook `training`).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Options {
    /// The settings of a run of the selections.
    ///
    /// # Errors
    /// The book's text can't be read, or an option is for a training that was not chosen.
    fn settings(&self, selections: &[Selection]) -> Result<Settings> {
        let trains = selections.iter().any(|it| it.trains);
        for (name, is_given) in [
            ("--epochs", self.epochs.is_some()),
            ("--dropout-build", self.dropout_build.is_some()),
            ("--json", self.json.is_some()),
        ] {
            ensure!(
                trains || !is_given,
                "{name} is for the training, which was not chosen: cargo xtask verify training"
            );
        }
        let training = TrainingRun {
            epochs: self.epochs,
            build: self.dropout_build,
            json: self.json.clone(),
        };
        Ok(Settings {
            training: trains.then_some(training),
            ..self.what.settings()?
        })
    }
}

/// Runs the chosen cells and prints the report.
///
/// # Errors
/// A cell failed, none could be compared, or a file could not be read or written.
pub(crate) fn run(options: &Options) -> Result<()> {
    let filter = options.what.filter.as_deref();
    let chosen = select(filter)?;
    let settings = options.settings(&chosen.selections)?;
    chosen.print_rows()?;
    let start = Instant::now();
    let by_chapter = !options.verbose && filter.is_none();
    let mut report = Report::default();
    for selections in chosen
        .selections
        .chunk_by(|one, other| chapter(one.program) == chapter(other.program))
    {
        for selection in selections {
            let parts = selection.program.run(&settings);
            print_cells(selection, &parts, by_chapter)?;
            report.add(selection, parts, filter.is_none());
        }
        if by_chapter {
            print(&report.chapter(chapter(selections[0].program)))?;
        }
    }
    report.close(start.elapsed().as_secs_f64())
}

/// True if it ran and nothing disagrees, false if something does or it was lost; none if it was
/// skipped, or compared with nothing.
fn passed(cell: &Cell) -> Option<bool> {
    match &cell.outcome {
        Outcome::Ran(record) if record.kind == Kind::Changed => None,
        Outcome::Ran(record) => Some(record.verdict.faults.is_empty()),
        Outcome::Skipped(_) => None,
        Outcome::Lost(_) => Some(false),
    }
}

/// The common beginning of "Chapter 2: Working with Text Data" and "Chapter 2, exercise solutions".
fn chapter(program: &Program) -> &'static str {
    program.title.split([':', ',']).next().unwrap_or_default()
}

/// Prints the chosen cells of a notebook that has run, by section, or only those that failed.
fn print_cells(selection: &Selection, parts: &[Part], only_failed: bool) -> Result<()> {
    let program = selection.program;
    let mut lines = String::new();
    let mut section = "";
    if !only_failed {
        lines += &format!("\n{:<20} {}\n", program.name, program.title);
    }
    for cell in cells(parts).filter(|cell| selection.has(cell)) {
        if !only_failed && section != cell.section {
            lines += &format!("  {}  {}\n", cell.section, cell.title);
        }
        section = &cell.section;
        if !only_failed {
            lines += &line(&cell.name, cell);
        } else if passed(cell) == Some(false) {
            lines += &line(&program.full_name(cell), cell);
        }
    }
    print(&lines)
}

/// A cell's verdict, with the figures that disagree.
fn line(name: &str, cell: &Cell) -> String {
    let mark = match passed(cell) {
        Some(true) => "ok  ",
        Some(false) => "FAIL",
        None => "skip",
    };
    let (mut line, mut faults) = (format!("    {mark} {name:<28} "), Vec::new());
    match &cell.outcome {
        Outcome::Ran(record) => {
            let verdict = &record.verdict;
            if verdict.figures > 0 {
                line += &format!(
                    "{:>4} figures  diff {:8.1e}  allowed {:8.1e}",
                    verdict.figures, verdict.difference, verdict.allowed
                );
            }
            match record.kind {
                Kind::Shown => line += "  by ndarray alone",
                Kind::Changed => line += "compared with nothing: the document prints no such run",
                _ => {}
            }
            faults.extend(record.note.clone());
            faults.extend(verdict.faults.iter().take(FAULTS_SHOWN).cloned());
            let more = verdict.faults.len().saturating_sub(FAULTS_SHOWN);
            faults.extend((more > 0).then(|| format!("and {more} more")));
        }
        Outcome::Skipped(why) => line += why,
        Outcome::Lost(fault) => faults.push(fault.clone()),
    }
    let faults = faults.iter().map(|fault| format!("\n         {fault}"));
    line.trim_end().to_owned() + &faults.collect::<String>() + "\n"
}

/// All chosen cells after their run, and the figures that are left out, each with its notebook.
#[derive(Default)]
struct Report(Vec<(&'static Program, Part)>);

/// The sums of a report or a chapter of it.
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

impl Report {
    /// Adds the chosen cells, and the figures left out of a `whole` notebook or of one of the
    /// cells.
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

    fn counts(&self, is_counted: impl Fn(&Program) -> bool) -> Counts {
        let mut counts = Counts::default();
        for (_, part) in self.0.iter().filter(|(program, _)| is_counted(program)) {
            match part {
                Part::LeftOut(left_out) => counts.left_out += left_out.figures,
                Part::Cell(cell) => {
                    match passed(cell) {
                        Some(true) => counts.passed += 1,
                        Some(false) => counts.failed += 1,
                        None => counts.skipped += 1,
                    }
                    if let Outcome::Ran(record) = &cell.outcome {
                        match record.kind {
                            Kind::Printed => counts.figures += record.verdict.figures,
                            Kind::Shown => counts.shown += record.verdict.figures,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        counts
    }

    /// The line of a chapter.
    fn chapter(&self, name: &str) -> String {
        let counts = self.counts(|it| chapter(it) == name);
        let mark = if counts.failed == 0 { "ok  " } else { "FAIL" };
        let mut line = format!("{mark} {name:<24} {:>3} passed", counts.passed);
        for (count, what) in [(counts.failed, "failed"), (counts.skipped, "skipped")] {
            if count > 0 {
                line += &format!(", {count} {what}");
            }
        }
        line += &format!("; {} figures", counts.figures + counts.shown);
        if counts.left_out > 0 {
            line += &format!(", {} left out", counts.left_out);
        }
        line + "\n"
    }

    /// Prints the summary.
    ///
    /// # Errors
    /// A cell failed, or all were skipped.
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
        lines += &format!(", {left_out} left out, in {seconds:.1} s\n");
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
        let needs_text = |(_, cell): &(_, &Cell)| matches!(&cell.outcome, Outcome::Skipped(why) if why == NEEDS_TEXT);
        let needing = self.cells().filter(needs_text).count();
        if needing > 0 {
            lines += &format!("{needing} cells need the book's text: {HOW_TO_GIVE_TEXT}\n");
        }
        print(&lines)?;
        let failed = self.cells().filter(|(_, cell)| passed(cell) == Some(false));
        let failed = failed.map(|(it, cell)| format!("  {}  ({})", it.full_name(cell), cell.title));
        let failed: Vec<String> = failed.collect();
        ensure!(
            failed.is_empty(),
            "{} of {} cells failed:\n{}",
            failed.len(),
            self.cells().count(),
            failed.join("\n")
        );
        let mut cells = self.cells().peekable();
        let is_skipped = |(_, cell): (_, &Cell)| matches!(cell.outcome, Outcome::Skipped(_));
        ensure!(
            cells.peek().is_none() || !cells.all(is_skipped),
            "nothing was compared: all chosen cells were skipped"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &[&str]) -> Options {
        Command::parse_from(["verify"].iter().chain(words)).options
    }

    #[test]
    fn options_of_the_training_are_refused_where_nothing_trains() {
        for words in [
            ["--epochs", "1"],
            ["--dropout-build", "mkl"],
            ["--json", "x"],
        ] {
            for filter in ["3.6", "5.2", "ch05", ""] {
                let filter: Vec<&str> = Some(filter)
                    .into_iter()
                    .filter(|it| !it.is_empty())
                    .collect();
                let options = options(&[&words[..], &filter].concat());
                let error = run(&options).unwrap_err().to_string();
                let start = format!("{} is for the training, which was not chosen", words[0]);
                assert!(error.starts_with(&start), "{error}");
            }
        }
    }

    /// The README's command, with another text, a small model and an epoch of a few batches.
    #[test]
    fn the_readme_s_command_trains_chapter_5_s_model() {
        let readme = include_str!("../../README.md");
        let command = "cargo xtask verify training --book-text the-verdict.txt";
        assert!(readme.contains(command));
        let options = options(&["training", "--epochs", "1"]);
        let selections = select(options.what.filter.as_deref()).unwrap().selections;
        let [selection] = &selections[..] else {
            panic!("one notebook is chosen")
        };
        let unrun = selection.program.unrun();
        let small = notebooks::inputs(&unrun).map(|(_, input)| (input.line, "1".to_owned()));
        let text = "The bell rang once, and the bell rang twice, and nobody came. ".repeat(250);
        let settings = Settings {
            text: Some(text.leak()),
            inputs: small.collect(),
            ..options.settings(&selections).unwrap()
        };
        let parts = selection.program.run(&settings);
        let shown = |name: &str| match cells(&parts)
            .find(|it| it.name == name)
            .map(|it| &it.outcome)
        {
            Some(Outcome::Ran(record)) => record.ours.clone(),
            other => panic!("{name}: {other:?}"),
        };
        let losses: Vec<f64> = notebooks::numbers(&shown("In [27]"))
            .iter()
            .map(|(it, _)| *it)
            .collect();
        let losses: Vec<&[f64]> = losses.chunks(4).collect();
        let (first, last) = (losses[0], losses[losses.len() - 1]);
        assert!(losses.len() > 1 && first[2] > 10.0, "{losses:?}");
        assert!(last[2] < first[2] && last[3] < first[3], "{losses:?}");
        assert!(shown("In [27] (2)").starts_with("Every effort moves you"));
        assert_eq!(shown("the lists"), "true");
        let of_all_epochs = cells(&parts).find(|cell| cell.name == "In [29]").unwrap();
        assert!(matches!(&of_all_epochs.outcome, Outcome::Skipped(_)));
    }
}
