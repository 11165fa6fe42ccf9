//! `gpt generate`: continues a text, as it comes on standard output, with timings on standard error.
//!
//! `--json` prints one object and no stream; `-i` goes on turn by turn (`interactive.rs`).

mod interactive;
mod options;
mod pieces;
mod session;
mod timings;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use generate::FinishReason;
use serde::Serialize;

use crate::failure::Usage;
use crate::ids::TextSource;
use crate::interrupt::Interrupt;
use crate::output::{print, print_json, print_text};
use crate::vocabulary::Vocabulary;
pub(crate) use options::GenerateArgs;
use session::{Continued, Session};
use timings::{TimingsReport, tell};

/// Stands between the texts of `--num-samples`, as nanoGPT prints it.
const BETWEEN_SAMPLES: &str = "---------------\n";

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    /// The new ids alone.
    tokens: Vec<u32>,
    /// What they say, up to a stop string.
    text: String,
    /// `length`, `stop` or `context`.
    finish: &'static str,
    /// Of the generator that all samples are drawn with; none if nothing is drawn.
    seed: Option<u64>,
    timings: TimingsReport,
}

pub(crate) fn run(args: &GenerateArgs) -> Result<()> {
    args.threads.apply()?;
    args.check()?;
    let prompt = TextSource {
        tokens: args.tokens.as_ref(),
        file: args.file.as_ref(),
        text: args.text.as_deref().or(args.prompt.as_deref()),
    };
    // An interactive session reads its turns from standard input.
    let is_given = args.tokens.is_some() || args.file.is_some() || prompt.text.is_some();
    let given = match args.interactive && !is_given {
        true => None,
        false => prompt.prompt()?,
    };
    if given.is_none() && !args.interactive {
        let message =
            "no prompt: give a text, a file with -f, ids with --tokens, pipe a text in, or use -i";
        return Err(Usage(message.to_owned()).into());
    }
    let began = Instant::now();
    let found = args.model.find()?;
    let vocabulary = &found.vocabulary;
    if !args.stop.is_empty() {
        vocabulary.tokenizer().context("--stop")?;
    }
    let ids = given.map(|given| vocabulary.ids(given)).transpose()?;
    let model = found.load()?;
    let load_time = began.elapsed();
    let mut session = Session::new(args, &model, vocabulary)?;
    if args.interactive {
        session.interrupt = Interrupt::listen("")?;
        found.name.tell();
        return interactive::run(session, ids);
    }
    let ids = ids.unwrap_or_default();
    for sample in 0..args.num_samples {
        session.begin(&ids)?;
        if args.json {
            let continued = session.go_on(&mut |_| Ok(()))?;
            print_json(&Report::new(continued, session.seed(), load_time))?;
            continue;
        }
        match sample {
            0 => {
                found.name.tell();
                session.tell_seed();
            }
            _ => print(BETWEEN_SAMPLES)?,
        }
        if !args.no_display_prompt {
            print_text(&shown(&ids, vocabulary))?;
        }
        let continued = session.go_on(&mut print_text)?;
        print("\n")?;
        tell(&continued.timings, (sample == 0).then_some(load_time));
    }
    Ok(())
}

impl Report {
    fn new(continued: Continued, seed: Option<u64>, load_time: Duration) -> Self {
        Self {
            timings: TimingsReport::new(&continued.timings, load_time),
            tokens: continued.tokens,
            seed,
            text: continued.text,
            finish: match continued.finish {
                FinishReason::StopToken(_) | FinishReason::StopString(_) => "stop",
                FinishReason::ContextFull => "context",
                _ => "length",
            },
        }
    }
}

/// The prompt as text; as ids they stand apart from those that follow.
fn shown(ids: &[u32], vocabulary: &Vocabulary) -> String {
    let apart = if vocabulary.tokenizer().is_ok() {
        ""
    } else {
        " "
    };
    vocabulary.text_of(ids) + apart
}
