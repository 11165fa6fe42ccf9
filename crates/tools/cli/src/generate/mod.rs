//! `gpt generate`: continues a text, as it comes on standard output, with timings on standard
//! error.
//!
//! `--json` prints one object and no stream; `-i` goes on turn by turn (`interactive.rs`).

mod interactive;
mod options;
mod pieces;
mod session;
mod timings;

use std::iter::{from_fn, once};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use generate::FinishReason;
use serde::Serialize;

use crate::failure::misused;
use crate::ids::{Given, read_lines};
use crate::interrupt::Interrupt;
use crate::model::Found;
use crate::output::{print, print_json, print_text};
use crate::vocabulary::Vocabulary;
pub(crate) use options::GenerateArgs;
use session::{Continued, Session};
use timings::{TimingsReport, tell};

/// Stands between the texts of `--num-samples`, as nanoGPT prints it.
const BETWEEN_SAMPLES: &str = "---------------\n";

/// The object that `--json` prints for a text.
#[derive(Serialize)]
struct Report {
    /// The new ids alone.
    tokens: Vec<u32>,
    /// Their text, up to a stop string.
    text: String,
    /// `length`, `stop` or `context`.
    finish: &'static str,
    /// The seed that all samples are drawn with; none if nothing is drawn.
    seed: Option<u64>,
    timings: TimingsReport,
}

/// Prompts that are continued at once; more of them are taken in turns.
const AT_ONCE: usize = 32;

pub(crate) fn run(args: &GenerateArgs) -> Result<()> {
    let GenerateArgs { input, output, .. } = args;
    output.threads.apply()?;
    args.check()?;
    // An interactive session reads its turns from standard input.
    let given = match input.prompts.is_some() || (input.interactive && !input.text.is_said()) {
        true => None,
        false => input.text.prompt()?,
    };
    if given.is_none() && !input.interactive && input.prompts.is_none() {
        return misused(
            "no prompt: give a text, a file with -f, ids with --tokens, pipe a text in, or use -i",
        );
    }
    let began = Instant::now();
    let found = input.model.find()?;
    let vocabulary = &found.vocabulary;
    if !args.length.stop.is_empty() {
        vocabulary.tokenizer().context("--stop")?;
    }
    let ids = given.map(|given| args.prompt(&found, given)).transpose()?;
    if input.interactive {
        let mut model = None;
        let decoder = found.decoder(args.decoder(), &mut model)?;
        let mut session = Session::new(args, decoder, vocabulary, 1)?;
        session.interrupt = Interrupt::listen("")?;
        found.name.tell();
        return interactive::run(session, &found, ids);
    }
    let mut turns = turns(args, &found, ids.unwrap_or_default())?;
    let Some(first) = turns.next().transpose()? else {
        return Ok(()); // a file without a line
    };
    let mut model = None;
    let decoder = found.decoder(args.decoder(), &mut model)?;
    let load_time = began.elapsed();
    let mut session = Session::new(args, decoder, vocabulary, first.len())?;
    let streams = input.prompts.is_none() && !output.json;
    let mut texts = 0;
    let mut begin_text = |ids: &[u32]| -> Result<()> {
        if texts > 0 {
            print(BETWEEN_SAMPLES)?;
        }
        texts += 1;
        if !output.no_display_prompt {
            print_text(&shown(ids, vocabulary))?;
        }
        Ok(())
    };
    for (turn, prompts) in once(Ok(first)).chain(turns).enumerate() {
        let prompts = prompts?;
        session.begin(&prompts)?;
        if turn == 0 && !output.json {
            found.name.tell();
            session.tell_seed();
        }
        if streams {
            begin_text(&prompts[0])?;
        }
        let all = session.go_on(&mut |piece| match streams {
            true => print_text(piece),
            false => Ok(()),
        })?;
        if streams {
            print("\n")?;
        }
        if let (false, Some(first)) = (output.json, all.first()) {
            tell(&first.timings, (turn == 0).then_some(load_time));
        }
        for (ids, continued) in prompts.iter().zip(all) {
            if output.json {
                print_json(&Report::new(continued, session.seed(), load_time))?;
            } else if !streams {
                begin_text(ids)?;
                print_text(&(continued.text + "\n"))?;
            }
        }
    }
    Ok(())
}

/// The prompts that are continued together: some lines of a file, or one for each sample.
type Turn = Result<Vec<Vec<u32>>>;

/// The turns of the options: of a file, which may be a pipe, no more is read than the next one
/// needs.
fn turns<'a>(
    args: &'a GenerateArgs,
    found: &'a Found,
    ids: Vec<u32>,
) -> Result<Box<dyn Iterator<Item = Turn> + 'a>> {
    let Some(path) = &args.input.prompts else {
        let samples = 0..args.length.num_samples;
        return Ok(Box::new(samples.map(move |_| Ok(vec![ids.clone()]))));
    };
    let mut lines = read_lines(path)?.zip(1..);
    Ok(Box::new(from_fn(move || {
        let prompts = lines.by_ref().take(AT_ONCE).map(|(line, number)| {
            let ids = line.and_then(|line| args.prompt(found, Given::Text(line)));
            ids.with_context(|| format!("--prompts, line {number}"))
        });
        let prompts = prompts.collect::<Turn>();
        let are_any = prompts.as_ref().map_or(true, |prompts| !prompts.is_empty());
        are_any.then_some(prompts)
    })))
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
    let are_shown = vocabulary.tokenizer().is_err() && !ids.is_empty();
    vocabulary.text_of(ids) + if are_shown { " " } else { "" }
}
