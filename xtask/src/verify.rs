//! The command `cargo xtask verify`, which runs the notebooks and compares each number that the
//! book prints.

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Args, value_parser};
use notebooks::{Cell, Kind, Outcome, Part, Settings, TrainingRun, cells, how_to_give_text};

use crate::select::{CellFilter, Selection, select};
use crate::workspace::print;

/// Number of differences that are printed for a failed cell.
const FAULTS_SHOWN: usize = 5;

/// Options that choose which cells to verify and how to train.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    what: CellFilter,
    /// Show every cell. Without this option, cells that pass are shown only if you select a part of
    /// the notebooks
    #[arg(short, long)]
    verbose: bool,
    /// Train for fewer than the book's ten epochs (applies to the notebook `training`)
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=TrainingRun::EPOCHS))]
    epochs: Option<u64>,
    /// Train with the dropout masks of another build of PyTorch, `portable` or `mkl` (applies to
    /// the notebook `training`)
    #[arg(long, value_name = "BUILD")]
    dropout_build: Option<torch_rng::Build>,
}

impl Options {
    /// Returns the settings for running the selected notebooks.
    ///
    /// # Errors
    ///
    /// Returns an error if the book's text can't be read, or if an option applies only to training
    /// but no training run was selected.
    fn settings(&self, selections: &[Selection]) -> Result<Settings> {
        let trains = selections.iter().any(|it| it.trains);
        for (name, is_given) in [
            ("--epochs", self.epochs.is_some()),
            ("--dropout-build", self.dropout_build.is_some()),
        ] {
            ensure!(
                trains || !is_given,
                "{name} applies only to the training run; use it with `cargo xtask verify training`"
            );
        }
        let training = TrainingRun {
            epochs: self.epochs,
            build: self.dropout_build,
        };
        Ok(Settings {
            training: trains.then_some(training),
            ..self.what.settings()?
        })
    }
}

/// Runs the selected cells and prints the report.
///
/// # Errors
///
/// Returns an error if a cell failed, if no cell could be compared, or if a file can't be read.
pub(crate) fn run(options: &Options) -> Result<()> {
    let is_all = options.what.filter.is_none();
    let selections = select(options.what.filter.as_deref())?;
    let settings = options.settings(&selections)?;
    let start = Instant::now();
    let mut report = Report::default();
    for selection in &selections {
        let program = selection.program;
        print(&format!("{:<20} {}\n", program.name, program.title))?;
        let parts = program.run(&settings);
        print(&report.add(selection, &parts, is_all, !is_all || options.verbose))?;
    }
    report.close(start.elapsed().as_secs_f64())
}

/// Returns true if the cell ran and all of its numbers agree with the original document. Returns
/// false if a number differs or if the cell couldn't run. Returns `None` if the cell was skipped,
/// or if its numbers weren't compared because one of its inputs was changed.
fn passed(cell: &Cell) -> Option<bool> {
    match &cell.outcome {
        Outcome::Ran(record) if record.kind == Kind::Changed => None,
        Outcome::Ran(record) => Some(record.verdict.faults.is_empty()),
        Outcome::Skipped(_) => None,
        Outcome::Lost(_) => Some(false),
    }
}

/// Returns the lines of the report for a cell: the name and result of the cell, followed by the
/// numbers that differ from the original document.
fn line(cell: &Cell) -> String {
    let mark = match passed(cell) {
        Some(true) => "ok  ",
        Some(false) => "FAIL",
        None => "skip",
    };
    let (about, faults) = match &cell.outcome {
        Outcome::Ran(record) => (record.about(), &record.verdict.faults[..]),
        Outcome::Skipped(why) | Outcome::Lost(why) => (why.clone(), &[][..]),
    };
    let name = format!("{} {}", cell.section, cell.name);
    let mut line = format!("    {mark} {name:<34} {about}")
        .trim_end()
        .to_owned()
        + "\n";
    for fault in faults.iter().take(FAULTS_SHOWN) {
        line += &format!("         {fault}\n");
    }
    if let Some(more @ 1..) = faults.len().checked_sub(FAULTS_SHOWN) {
        line += &format!("         and {more} more differences\n");
    }
    line
}

/// Totals over the selected cells.
#[derive(Default)]
struct Report {
    /// Number of cells that ran.
    ran: usize,
    passed: usize,
    /// Names of the cells that failed.
    failed: Vec<String>,
    skipped: usize,
    /// Number of printed numbers that were compared.
    figures: usize,
    /// Number of printed numbers that are computed by ndarray alone. They are counted separately
    /// because comparing them doesn't test any code of this project.
    shown: usize,
    /// Number of printed numbers that aren't compared.
    left_out: usize,
    reasons: String,
    how_to_give_text: Option<&'static str>,
}

impl Report {
    /// Adds the results of a notebook's selected cells to the totals. The numbers that aren't
    /// compared are counted for the whole notebook if `all` is true, and only for the selected
    /// cells otherwise. Returns the lines to print, which describe all selected cells if `verbose`
    /// is true, and only the failed cells otherwise.
    fn add(&mut self, selection: &Selection, parts: &[Part], all: bool, verbose: bool) -> String {
        let mut lines = String::new();
        let chosen = || cells(parts).filter(|cell| selection.has(cell));
        for cell in chosen() {
            match passed(cell) {
                Some(true) => self.passed += 1,
                Some(false) => self.failed.push(selection.program.full_name(cell)),
                None => self.skipped += 1,
            }
            if let Outcome::Ran(record) = &cell.outcome {
                self.ran += 1;
                match record.kind {
                    Kind::Printed => self.figures += record.verdict.figures,
                    Kind::Shown => self.shown += record.verdict.figures,
                    _ => {}
                }
            }
            if verbose || passed(cell) == Some(false) {
                lines += &line(cell);
            }
        }
        for part in parts {
            if let Part::LeftOut(it) = part
                && (all || chosen().any(|cell| cell.cell == it.cell))
            {
                self.left_out += it.figures;
                let (name, figures) = (selection.program.name, it.figures);
                let what = format!("{figures} numbers of {name} {}: {}", it.cell, it.why);
                self.reasons += &format!("not compared: {what}\n");
            }
        }
        self.how_to_give_text = self.how_to_give_text.or(how_to_give_text(chosen()));
        lines
    }

    /// Prints the totals.
    ///
    /// # Errors
    ///
    /// Returns an error if a cell failed or if all cells were skipped.
    fn close(self, seconds: f64) -> Result<()> {
        let (failed, skipped) = (self.failed.len(), self.skipped);
        let (figures, shown, left_out) = (self.figures, self.shown, self.left_out);
        let printed = figures + shown + left_out;
        let mut lines = format!(
            "\n{} cells passed, {failed} failed and {skipped} were skipped in {seconds:.1} s\n\
             {figures} of the {printed} numbers that the documents print were compared with \
             numbers that this project computes, {shown} more with numbers that ndarray alone \
             computes, and {left_out} weren't compared\n",
            self.passed
        );
        if skipped > 0 {
            lines += "the numbers of skipped cells aren't counted\n";
        }
        lines += &self.reasons;
        if let Some(how) = self.how_to_give_text {
            lines += &format!("to compare the cells that require the book's text, specify {how}\n");
        }
        print(&lines)?;
        let names = self.failed.join("\n  ");
        ensure!(failed == 0, "{failed} cells failed:\n  {names}");
        ensure!(
            self.ran > 0,
            "nothing was compared because all selected cells were skipped{}",
            match self.how_to_give_text {
                Some(how) =>
                    format!("; to run the cells that require the book's text, specify {how}"),
                None => String::new(),
            }
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
    fn options_for_training_are_rejected_if_nothing_trains() {
        for option in [["--epochs", "1"], ["--dropout-build", "mkl"]] {
            for filter in [&["3.6"][..], &["5.2"], &["ch05"], &[]] {
                let options = options(&[&option, filter].concat());
                let error = run(&options).unwrap_err().to_string();
                let start = format!("{} applies only to the training run", option[0]);
                assert!(error.starts_with(&start), "{error}");
            }
        }
    }

    /// Runs a command that the README recommends. To save time, the test uses a different text, a
    /// small model, and a single epoch with few batches.
    #[test]
    fn the_command_in_the_readme_trains_the_model_of_chapter_5() {
        let readme = include_str!("../../README.md");
        let command = "cargo xtask verify training --book-text the-verdict.txt";
        assert!(readme.contains(command));
        let options = options(&["training", "--epochs", "1"]);
        let selections = select(options.what.filter.as_deref()).unwrap();
        let [selection] = &selections[..] else {
            panic!("one notebook is chosen")
        };
        let parts = selection.program.run(&Settings::default());
        let small = notebooks::inputs(&parts).map(|(_, input)| (input.line, "1".to_owned()));
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
