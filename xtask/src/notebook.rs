//! `cargo xtask notebook`: prints a chapter or a section as its notebook does, the code in Rust, the output in PyTorch's form; `--html` is page/'s.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use notebooks::{Cell, Item, Outcome, Record, Selection, TrainingRun, item, select};

use crate::page::{self, digits::Difference};
use crate::verify::book_text;
use crate::workspace::{print, root};

/// What to print.
#[derive(Args)]
pub(crate) struct Options {
    /// A notebook (ch03), a section (3.6), a cell ("In [36]"), an exercise (ex3.2), or a part of a name.
    filter: Option<String>,
    /// The book's text (the-verdict.txt), which some cells need; `$BOOK_TEXT` names it too.
    #[arg(long, value_name = "FILE")]
    book_text: Option<PathBuf>,
    /// Write the chosen notebooks as pages into this folder, with pictures and an index, instead of printing.
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
}

/// Runs the chosen notebooks and prints the chosen cells.
///
/// # Errors
/// Nothing was chosen, a file could not be read, or a cell did not run.
pub(crate) fn run(options: &Options) -> Result<()> {
    let text = book_text(options.book_text.as_deref())?;
    if let Some(folder) = &options.html {
        return page::write(folder, options.filter.as_deref(), text);
    }
    let mut lost = 0;
    for Selection { program, cells } in select(options.filter.as_deref(), false)? {
        let outline = program.outline()?;
        let finished = program.run(text, &TrainingRun::default(), false)?;
        print(&format!("# {}\n", program.title))?;
        let chosen = |cell: &Cell| cells.iter().any(|chosen| chosen.line == cell.line);
        let mut outcomes = finished.cells.iter();
        let (mut section, mut name) = (String::new(), String::new());
        let mut listings = Vec::new();
        for part in outline.items {
            match part {
                Item::Section { number, .. } => (section, listings) = (number, Vec::new()),
                Item::Listing { path, start } => listings.push((path, start)),
                Item::Picture { .. } => {}
                Item::Cell(cell) => {
                    let (_, outcome) = outcomes
                        .next()
                        .context("a cell of the outline has an outcome")?;
                    let listings = std::mem::take(&mut listings);
                    if !chosen(&cell) {
                        continue;
                    }
                    if !section.is_empty() {
                        print(&format!("\n## {section} {}\n", cell.title))?;
                        section.clear();
                    }
                    if name != cell.cell {
                        print(&format!("\n{}:", cell.cell))?;
                    }
                    print("\n")?;
                    name.clone_from(&cell.cell);
                    for (path, start) in listings {
                        let source = std::fs::read_to_string(root().join(&path))
                            .with_context(|| path.clone())?;
                        let item = item(&source, &start)?;
                        print(&indented(&format!(
                            "// {path}
{item}
"
                        )))?;
                    }
                    print(&indented(&cell.code))?;
                    match outcome {
                        Outcome::Ran(record) => print(&output(record))?,
                        Outcome::Skipped(why) => print(&format!("({why})\n"))?,
                        Outcome::Lost(fault) => {
                            print(&format!("({fault})\n"))?;
                            lost += 1;
                        }
                    }
                }
            }
        }
        print("\n")?;
    }
    if lost > 0 {
        bail!("{lost} cells did not run");
    }
    Ok(())
}

/// What was computed, and what the document prints where any digit differs.
fn output(record: &Record) -> String {
    let mut output = format!("{}\n", record.ours);
    if let Some(printed) = &record.printed
        && !Difference::of(&record.ours, printed).is_none()
    {
        output += &format!("\nthe document prints:\n{printed}\n");
    }
    for fault in &record.verdict.faults {
        output += &format!("FAIL {fault}\n");
    }
    output
}

/// Code stands four columns in, so that output is told from it; a blank line ends it.
fn indented(code: &str) -> String {
    let lines = code.lines().map(|line| {
        if line.is_empty() {
            String::new()
        } else {
            format!("    {line}")
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n\n"
}
