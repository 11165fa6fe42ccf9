//! Every cell of every notebook, as a test of its name:
//! `cargo test -p workspace-tests --test notebooks 3.6`.
//!
//! A notebook runs once, when the first of its cells is asked for, and one at a time: two large
//! models don't fit beside each other.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};
use notebooks::{Outcome, PROGRAMS, Part, Tier, cells, text};

/// One notebook at a time.
static RUNNING: Mutex<()> = Mutex::new(());

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::from_args();
    let settings = text::settings(None)?;
    let mut trials = Vec::new();
    for program in PROGRAMS {
        let ran: Arc<OnceLock<Vec<Part>>> = Arc::default();
        for (index, cell) in cells(&program.unrun("listed")).enumerate() {
            let (ran, settings) = (Arc::clone(&ran), settings.clone());
            let ignored =
                program.tier == Tier::Long || (cell.needs_text && settings.text.is_none());
            let name = program.test_name(cell);
            let run = move || {
                let parts = ran.get_or_init(|| {
                    let _one = RUNNING.lock();
                    program.run(&settings)
                });
                verdict(cells(parts).nth(index).map(|cell| &cell.outcome))
            };
            trials.push(Trial::test(name, run).with_ignored_flag(ignored));
        }
    }
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

fn verdict(outcome: Option<&Outcome>) -> Result<(), Failed> {
    match outcome {
        Some(Outcome::Ran(record)) if record.verdict.faults.is_empty() => Ok(()),
        Some(Outcome::Ran(record)) => Err(record.verdict.faults.join("\n").into()),
        Some(Outcome::Skipped(_)) => Ok(()),
        Some(Outcome::Lost(fault)) => Err(fault.into()),
        None => Err("it is not in the notebook that ran".into()),
    }
}
