//! `cargo xtask verify`: every printed figure of the documents, recomputed from its seed and compared.
//!
//! The figures are data ([`table`]), the functions that recompute them stand beside their ids ([`registry`]),
//! and the allowance follows from the printed digits ([`literal`]).
//! Nothing here draws a golden from our own output.
//! A long run is a tier: its cases carry `tier = "<name>"` in the table and run only as `verify <name>`.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;

pub(crate) mod book_text;
mod cases;
mod compare;
#[cfg(test)]
mod coverage;
mod errata;
mod lab;
pub(crate) mod literal;
mod registry;
mod report;
pub(crate) mod rows;
mod runner;
pub(crate) mod table;
mod train;

/// What to verify, and how to report it.
#[derive(Args)]
pub(crate) struct Options {
    /// Only the cases whose id contains this, or the tier of this name.
    filter: Option<String>,
    /// List the cases instead of running them.
    #[arg(long)]
    list: bool,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The book's text (the-verdict.txt), which some cases need; `$BOOK_TEXT` names it too.
    #[arg(long, value_name = "FILE")]
    book_text: Option<PathBuf>,
    /// Show each bug of the documents with its number and the right one, both computed.
    #[arg(long)]
    errata: bool,
    /// Train for fewer epochs than the book's ten (tier `train`).
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
    /// Train with the dropout of another build of PyTorch, portable or mkl (tier `train`).
    #[arg(long, value_name = "BUILD")]
    dropout_build: Option<torch_rng::Build>,
}

/// Runs the chosen cases and prints the report.
///
/// # Errors
/// A case failed, no case was chosen, or a file could not be read or written.
pub(crate) fn run(options: &Options) -> Result<()> {
    let filter = options.filter.as_deref();
    if options.errata {
        return errata::run(filter);
    }
    let training = train::TrainingRun::new(options.epochs, options.dropout_build)?;
    let mut cases = table::load()?;
    if options.list {
        for case in cases
            .iter()
            .filter(|case| filter.is_none() || runner::chosen(case, filter))
        {
            let needs = if case.needs_book_text {
                "  (needs --book-text)"
            } else {
                ""
            };
            println!("{:<28} {}: {}{needs}", case.id, case.source, case.what);
        }
        return Ok(());
    }
    cases.retain(|case| runner::chosen(case, filter));
    if cases.is_empty() {
        bail!(
            "no case matches `{}`; `verify --list` names them all",
            filter.unwrap_or_default()
        );
    }
    let book_text = options
        .book_text
        .clone()
        .or_else(book_text::from_environment);
    let book_text = book_text.as_deref().map(book_text::read).transpose()?;
    let mut lab = lab::Lab::new(book_text)?.with_training(training);
    if filter == Some(train::TIER) {
        if !training.is_comparable() {
            return train::write_run(lab.trained()?, options.json.as_deref());
        }
        training.shorten(&mut cases);
    }
    let start = Instant::now();
    let lines = runner::run(cases, &mut lab);
    report::print(&lines, start.elapsed());
    if let Some(path) = &options.json {
        match filter {
            Some(train::TIER) => train::write_run(lab.trained()?, Some(path))?,
            _ => report::write_json(path, &lines)?,
        }
    }
    match report::summary(&lines).failed {
        0 => Ok(()),
        failed => bail!("{failed} of {} cases failed", lines.len()),
    }
}
