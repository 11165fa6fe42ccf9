//! `gpt generate`: continues a text, as it comes on standard output, with timings on standard error.
//!
//! `--json` prints one object and no stream; `-i` goes on turn by turn (`interactive.rs`).

mod interactive;
mod options;
mod pieces;
mod session;
mod timings;

use std::time::Instant;

use anyhow::Result;
use generate::FinishReason;
use serde::Serialize;
use tokenizer::Gpt2Tokenizer;

use crate::failure::Usage;
use crate::ids::TextSource;
use crate::output::{print, print_json};
pub(crate) use options::GenerateArgs;
use session::Session;
use timings::{TimingsReport, tell};

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    /// The new ids alone.
    tokens: Vec<u32>,
    /// What they say, up to a stop string.
    text: String,
    /// `length`, `stop` or `context`.
    finish: &'static str,
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
    let given = args.tokens.is_some() || args.file.is_some() || prompt.text.is_some();
    let ids = match args.interactive && !given {
        true => None,
        false => prompt.prompt()?,
    };
    let began = Instant::now();
    let model = args.model.load()?;
    let load_time = began.elapsed();
    let mut session = Session::new(args, &model)?;
    if args.interactive {
        return interactive::run(session, ids);
    }
    let Some(ids) = ids else {
        let message =
            "no prompt: give a text, a file with -f, ids with --tokens, pipe a text in, or use -i";
        return Err(Usage(message.to_owned()).into());
    };
    session.add(&ids)?;
    if args.json {
        let continued = session.go_on(&mut |_| Ok(()))?;
        return print_json(&Report {
            timings: TimingsReport::new(&continued.timings, load_time),
            tokens: continued.tokens,
            text: continued.text,
            finish: match continued.finish {
                FinishReason::StopToken(_) | FinishReason::StopString(_) => "stop",
                FinishReason::ContextFull => "context",
                _ => "length",
            },
        });
    }
    if !args.no_display_prompt {
        print(shown(&ids))?;
    }
    let continued = session.go_on(&mut |text| print(text))?;
    print("\n")?;
    tell(&continued.timings, Some(load_time));
    Ok(())
}

/// The prompt as text.
fn shown(ids: &[u32]) -> String {
    let text = Gpt2Tokenizer::new().decode_lossy(ids);
    text.unwrap_or_else(|_| format!("{ids:?}"))
}
