//! `cargo xtask notebook`: prints a chapter or a section as its notebook does, the code in Rust,
//! the output in PyTorch's form; `--html` is page/'s.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use notebooks::{
    Cell, Given, HOW_TO_GIVE_TEXT, Kind, NEEDS_TEXT, Outcome, Part, Record, Settings, TrainingRun,
    cells,
};

use crate::digits::differences;
use crate::inputs;
use crate::select::{Selection, What, select};
use crate::workspace::{listing, print};

/// The cells to print, and in which form.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    what: What,
    /// Change an input: of all chosen cells by its name (seed=123), or of one ("In [24].seed=123").
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "html")]
    set: Vec<String>,
    /// Write the chosen notebooks as pages into this folder, with pictures and an index, instead of
    /// printing.
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Let the pages compute: a field for each input, whose change runs the notebook again in the
    /// browser.
    #[arg(long, requires = "html")]
    live: bool,
}

/// Runs the chosen notebooks and prints the chosen cells.
///
/// # Errors
/// Nothing was chosen, a file could not be read, or a cell did not run.
pub(crate) fn run(options: &Options) -> Result<()> {
    let (filter, settings) = (options.what.filter.as_deref(), options.what.settings()?);
    if let Some(folder) = &options.html {
        return pages(folder, filter, settings, options.live);
    }
    let chosen = select(filter)?;
    let set = inputs::find(&options.set, &chosen.selections)?;
    chosen.print_rows()?;
    let (mut lost, mut needs_text) = (0, false);
    for selection in &chosen.selections {
        let settings = Settings {
            training: selection.trains.then(TrainingRun::default),
            inputs: inputs::of(selection, &set),
            ..settings.clone()
        };
        print(&format!("# {}\n", selection.program.title))?;
        let parts = selection.program.run(&settings);
        print_cells(selection, &parts)?;
        print("\n")?;
        for cell in cells(&parts).filter(|cell| selection.has(cell)) {
            lost += usize::from(matches!(cell.outcome, Outcome::Lost(_)));
            needs_text |= matches!(&cell.outcome, Outcome::Skipped(why) if why == NEEDS_TEXT);
        }
    }
    if needs_text {
        print(&format!("the book's text: {HOW_TO_GIVE_TEXT}\n"))?;
    }
    if lost > 0 {
        bail!("{lost} cells did not run");
    }
    Ok(())
}

#[cfg(feature = "pages")]
use crate::page::write as pages;

/// Builds the program with pictures, and lets it do what this one was asked for.
#[cfg(not(feature = "pages"))]
fn pages(_: &std::path::Path, _: Option<&str>, _: Settings, _: bool) -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    crate::workspace::cargo("run --release --package xtask", &[], &arguments)
}

/// Prints the chosen cells.
fn print_cells(selection: &Selection, parts: &[Part]) -> Result<()> {
    let (mut section, mut name) = (String::new(), "");
    let mut listings = Vec::new();
    for part in parts {
        match part {
            Part::Section { number, title } => {
                section = format!("\n## {number} {title}\n");
                listings.clear();
            }
            Part::Listing { path, start } => listings.push((path, start)),
            Part::Cell(cell) if !selection.has(cell) => listings.clear(),
            Part::Cell(cell) => {
                print(&std::mem::take(&mut section))?;
                if name != cell.cell {
                    print(&format!("\n{}:", cell.cell))?;
                }
                name = &cell.cell;
                print("\n")?;
                for (path, start) in listings.drain(..) {
                    print(&indented(&format!(
                        "// {path}\n{}",
                        listing(path, start)?.1
                    )))?;
                }
                print(&text_of(cell))?;
            }
            Part::Picture { .. } | Part::LeftOut(_) => {}
        }
    }
    Ok(())
}

fn text_of(cell: &Cell) -> String {
    let about = match cell.about.as_str() {
        "" => String::new(),
        about => format!("{about}\n\n"),
    };
    let output = match &cell.outcome {
        Outcome::Ran(record) => output(record),
        Outcome::Skipped(why) => match &cell.printed {
            Some(printed) => format!("the document prints (not run here: {why}):\n{printed}\n"),
            None => format!("(not run here: {why})\n"),
        },
        Outcome::Lost(why) => format!("({why})\n"),
    };
    let changed = cell.inputs.iter().filter_map(|input| {
        let value = input.value.as_ref()?;
        let Given { name, default, .. } = input;
        Some(format!(
            "({name} is {value}, in the document {default}: compared with nothing)\n"
        ))
    });
    about + &indented(&cell.code) + &changed.collect::<String>() + &output
}

/// The computed output, and the document's where any digit differs.
fn output(record: &Record) -> String {
    let mut output = format!("{}\n", record.ours);
    if let Some(printed) = &record.printed
        && record.kind != Kind::Changed
        && !differences(&record.ours, printed).is_empty()
    {
        output += &format!("\nthe document prints:\n{printed}\n");
    }
    let faults = record.verdict.faults.len();
    output += &match (record.printed.is_some(), faults) {
        (_, 0) => String::new(),
        (true, _) => format!(
            "(the code was changed: {faults} of {} figures are not the document's)\n",
            record.verdict.figures.max(faults)
        ),
        (false, _) => format!(
            "(the code was changed: {})\n",
            record.verdict.faults.join("; ")
        ),
    };
    output
}

/// Code stands four columns in, so that output is told from it; a blank line ends it.
fn indented(code: &str) -> String {
    let lines = code.lines().map(|line| format!("    {line}"));
    let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n\n"
}
