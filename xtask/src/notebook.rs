//! The command `cargo xtask notebook`, which prints notebooks with Rust code and with outputs in
//! PyTorch's format. The option `--html` is implemented in the module `page`.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use notebooks::{
    Cell, InputValue, Kind, Outcome, Part, Record, Settings, TrainingRun, cells, how_to_give_text,
    text,
};

use crate::digits::differences;
use crate::inputs;
use crate::select::{CellFilter, Selection, select};
use crate::workspace::{listing, print};

/// Options that select the cells and determine the format in which they are printed.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    what: CellFilter,
    /// Change an input, either in all selected cells (seed=123) or in one cell ("In [24].seed=123")
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "html")]
    set: Vec<String>,
    /// Write the selected notebooks as web pages to this folder, with figures and an index, instead
    /// of printing them
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Make the pages interactive: each input becomes a field, and changing it runs the notebook
    /// again in the browser
    #[arg(long, requires = "html")]
    live: bool,
    /// Folder of a run or model to use on the interactive page of chapter 5 [default: a model
    /// trained on this project's short story]
    #[arg(long, value_name = "DIR", requires = "live")]
    model: Option<PathBuf>,
}

/// Runs the selected notebooks, and prints the selected cells or writes web pages.
///
/// # Errors
///
/// Returns an error if nothing was selected, if a file can't be read or written, or if a cell
/// didn't run.
pub(crate) fn run(options: &Options) -> Result<()> {
    let filter = options.what.filter.as_deref();
    let settings = Settings {
        other_text: Some(text::STORY),
        ..options.what.settings()?
    };
    if let Some(folder) = &options.html {
        return pages(
            folder,
            filter,
            settings,
            options.live,
            options.model.as_deref(),
        );
    }
    let selections = select(filter)?;
    let set = inputs::find(&options.set, &selections)?;
    let (mut lost, mut how) = (0, None);
    for selection in &selections {
        let settings = Settings {
            training: selection.trains.then(TrainingRun::default),
            inputs: set.get(selection.program.name).cloned().unwrap_or_default(),
            ..settings.clone()
        };
        print(&format!("# {}\n", selection.program.title))?;
        let parts = selection.program.run(&settings);
        print_cells(selection, &parts)?;
        print("\n")?;
        let chosen = || cells(&parts).filter(|cell| selection.has(cell));
        how = how.or(how_to_give_text(chosen()));
        lost += chosen()
            .filter(|cell| matches!(cell.outcome, Outcome::Lost(_)))
            .count();
    }
    if let Some(how) = how {
        print(&format!(
            "Some notebook cells read the short story \"The Answering Bell\" instead of the book's text, so their output differs from the output in the book. To use the book's text, specify {how}.\n"
        ))?;
    }
    ensure!(
        lost == 0,
        "{lost} cells didn't run; see their output above for the reasons"
    );
    Ok(())
}

#[cfg(feature = "pages")]
use crate::page::write as pages;

#[cfg(not(feature = "pages"))]
use crate::workspace;

/// Builds this program again with the feature `pages` and runs it with the same arguments.
#[cfg(not(feature = "pages"))]
fn pages(
    _: &std::path::Path,
    _: Option<&str>,
    _: Settings,
    _: bool,
    _: Option<&std::path::Path>,
) -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words = "run --release --package xtask";
    workspace::run(&mut workspace::cargo(words, &workspace::root(), &arguments))?;
    Ok(())
}

/// Prints the selected cells of a notebook, together with the explanations and listings between
/// them.
fn print_cells(selection: &Selection, parts: &[Part]) -> Result<()> {
    let (mut section, mut name) = (String::new(), "");
    // Text since the last cell. It is printed before the next selected cell, or at the end of the
    // section.
    let mut before = String::new();
    for part in parts {
        match part {
            Part::Section { number, title } => {
                section = format!("\n## {number} {title}\n");
                let end = std::mem::take(&mut before);
                print(if name.is_empty() { "" } else { &end })?;
                name = "";
            }
            Part::Listing { path, start } => {
                let (_, item) = listing(path, start)?;
                before += &format!("\n{}", indented(&format!("// {path}\n{item}")).trim_end());
                before += "\n";
            }
            Part::Prose { text, .. } => before += &format!("\n{}\n", wrapped(text)),
            Part::Cell(cell) if !selection.has(cell) => {
                before.clear();
                name = "";
            }
            Part::Cell(cell) => {
                print(&(std::mem::take(&mut section) + &std::mem::take(&mut before)))?;
                if name != cell.cell {
                    print(&format!("\n{}:", cell.cell))?;
                }
                name = &cell.cell;
                print(&format!("\n{}", text_of(cell)))?;
            }
            Part::Intro(intro) if selection.is_whole(parts) => {
                let (goal, known, minutes) = (&intro.goal, &intro.prerequisites, &intro.minutes);
                let text =
                    format!("{goal}\n\nPrerequisites: {known} Reading time: {minutes} minutes.");
                print(&format!("\n{}\n", wrapped(&text)))?;
            }
            Part::Question {
                question, answer, ..
            } => {
                let text = format!("Question. {question}\n\nAnswer. {answer}");
                before += &format!("\n{}\n", wrapped(&text));
            }
            Part::Sketch {
                name: title, text, ..
            } => before += &format!("\n{title}\n{text}\n"),
            Part::Figure { .. } | Part::LeftOut(_) | Part::Intro(_) => {}
        }
    }
    print(if name.is_empty() { "" } else { &before })
}

fn text_of(cell: &Cell) -> String {
    let mut text = match cell.about.as_str() {
        "" => String::new(),
        about => wrapped(about) + "\n\n",
    };
    text += &indented(&cell.code);
    for InputValue {
        name,
        default,
        value,
        ..
    } in &cell.inputs
    {
        if let Some(value) = value {
            text += &format!(
                "(The output isn't compared with the document, because {name} is {value} here, but {default} in the document.)\n"
            );
        }
    }
    text + &match (&cell.outcome, &cell.printed) {
        (Outcome::Ran(record), _) => output(record),
        (Outcome::Skipped(why), Some(printed)) => {
            format!(
                "(This cell isn't run here because {why}. The original document shows the following output.)\n{printed}\n"
            )
        }
        (Outcome::Skipped(why), None) => format!("(This cell isn't run here because {why}.)\n"),
        (Outcome::Lost(why), _) => format!("({why})\n"),
    }
}

/// Returns the text that is printed as the output of a cell. If any digit differs from the output
/// in the original document, the document's output is appended. If the comparison failed, the
/// reason is appended, too.
fn output(record: &Record) -> String {
    let mut output = format!("{}\n", record.ours);
    let instead = match record.kind {
        Kind::OtherText => Some("The output for the book's text:"),
        Kind::SmallModel => Some("The output of the book's model:"),
        _ => None,
    };
    if let (Some(instead), Some(printed)) = (instead, &record.printed) {
        output += &format!("\n({instead})\n{printed}\n");
    }
    if let Some(printed) = &record.printed
        && ![Kind::Changed, Kind::OtherText, Kind::SmallModel].contains(&record.kind)
        && !differences(&record.ours, printed).is_empty()
    {
        output += &format!("\n(The original document shows the following output.)\n{printed}\n");
    }
    let faults = &record.verdict.faults;
    if !faults.is_empty() {
        let faults = match &record.printed {
            Some(_) => format!("{} numbers differ from the document", faults.len()),
            None => faults.join("; "),
        };
        output += &format!("(The comparison failed: {faults})\n");
    }
    output
}

/// Wraps paragraphs at 90 characters per line. Each item of a list begins on a new line.
fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 90;
    let (mut wrapped, mut column, mut is_blank) = (String::new(), 0, false);
    for line in text.lines() {
        if is_blank || line.is_empty() || line.starts_with("- ") {
            wrapped.push('\n');
            column = 0;
        }
        is_blank = line.is_empty();
        for word in line.split_whitespace() {
            let end = column + 1 + word.chars().count();
            let is_first = column == 0;
            wrapped += match is_first {
                true => "",
                false if end > COLUMNS => "\n",
                false => " ",
            };
            column = if is_first || end > COLUMNS {
                end - column - 1
            } else {
                end
            };
            wrapped += word;
        }
    }
    wrapped.trim_start_matches('\n').to_owned()
}

/// Indents code by four spaces to distinguish it from output, and appends an empty line.
fn indented(code: &str) -> String {
    let lines = code.lines().map(|line| format!("    {line}"));
    let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n\n"
}
