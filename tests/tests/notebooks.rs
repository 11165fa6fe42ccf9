//! Every cell of every notebook, as a test of its name: `cargo test -p workspace-tests --test notebooks 3.6`.
//!
//! A notebook runs once, when the first of its cells is asked for, and one at a time: two large models don't fit beside each other.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};
use notebooks::{Finished, Outcome, PROGRAMS, Tier, TrainingRun, test_name, text};

/// One notebook at a time.
static RUNNING: Mutex<()> = Mutex::new(());

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::from_args();
    let text = text::from_environment()
        .as_deref()
        .map(text::read)
        .transpose()?;
    let mut trials = Vec::new();
    for program in PROGRAMS {
        let finished: Arc<OnceLock<Result<Finished, String>>> = Arc::default();
        for (index, cell) in program.outline()?.cells().enumerate() {
            let finished = Arc::clone(&finished);
            let run = move || {
                let result = finished.get_or_init(|| {
                    let _one = RUNNING.lock();
                    program
                        .run(text, &TrainingRun::default(), false)
                        .map_err(|error| format!("{error:#}"))
                });
                verdict(&result.as_ref()?.cells[index].1)
            };
            let ignored = program.tier == Tier::Long || (cell.needs_text && text.is_none());
            trials.push(Trial::test(test_name(program, cell), run).with_ignored_flag(ignored));
        }
    }
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

fn verdict(outcome: &Outcome) -> Result<(), Failed> {
    match outcome {
        Outcome::Ran(record) if record.verdict.faults.is_empty() => Ok(()),
        Outcome::Ran(record) => Err(record.verdict.faults.join("\n").into()),
        Outcome::Skipped(_) => Ok(()),
        Outcome::Lost(fault) => Err(fault.into()),
    }
}
