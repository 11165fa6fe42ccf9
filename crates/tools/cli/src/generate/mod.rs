//! `gpt generate`: continues a text, token by token on standard output, with its speed on standard
//! error.
//!
//! `--json` prints one object and no stream; `-i` runs turn by turn: each line of standard input is
//! added to the text.

mod options;
mod pieces;
mod session;

use std::io::{IsTerminal, stdin};

use anyhow::Result;
use generate::Decoder;

use crate::model::FoundModel;
use crate::model::ids::{Input, read_line};
use crate::model::vocabulary::Vocabulary;
use crate::terminal::failure::misused;
use crate::terminal::interrupt::Interrupt;
use crate::terminal::output::{note, print, print_json, print_text};
pub(crate) use options::{GenerateArgs, SamplingArgs};
use session::{Continued, Session};

/// Stands between the texts of `--num-samples`, as nanoGPT prints it.
const BETWEEN_SAMPLES: &str = "---------------\n";

pub(crate) fn run(args: &GenerateArgs) -> Result<()> {
    let GenerateArgs { input, output, .. } = args;
    output.threads.apply()?;
    // An interactive session reads its turns from standard input.
    let prompt = match input.interactive && !input.text.is_present() {
        true => None,
        false => input.text.prompt()?,
    };
    if prompt.is_none() && !input.interactive {
        return misused(
            "no prompt: give a text, a file with -f, ids with --tokens, pipe a text in, or use -i",
        );
    }
    let found = input.model.find()?;
    let vocabulary = &found.vocabulary;
    let settings = args.settings(&found)?;
    let ids = prompt
        .map(|prompt| args.prompt(&found, prompt))
        .transpose()?;
    let weights = found.weights(output.dtype)?;
    let decoder = Decoder::with_config(weights, args.decoder())?;
    let mut session = Session::new(args, settings, decoder, vocabulary)?;
    if input.interactive {
        found.note();
        return take_turns(args, session, &found, ids);
    }
    let ids = ids.unwrap_or_default();
    for sample in 0..args.length.num_samples.0 {
        session.begin(&ids)?;
        if output.json {
            print_json(&session.continue_text(&mut |_| Ok(()))?)?;
            continue;
        }
        match sample {
            0 => {
                found.note();
                session.note_seed();
            }
            _ => print(BETWEEN_SAMPLES)?,
        }
        if !output.no_display_prompt {
            print_text(&shown(&ids, vocabulary))?;
        }
        let continued = session.continue_text(&mut print_text)?;
        print("\n")?;
        note_speed(&continued);
    }
    Ok(())
}

/// Lets the user and the model continue one text in turns, to the end of standard input.
///
/// An empty line lets the model continue. Ctrl-C ends an answer; before and after one it ends the
/// program.
fn take_turns(
    args: &GenerateArgs,
    mut session: Session<'_>,
    found: &FoundModel,
    prompt: Option<Vec<u32>>,
) -> Result<()> {
    session.interrupt = Interrupt::listen_to_ctrl_c()?;
    session.note_seed();
    if stdin().is_terminal() {
        note("each line is added to the text, an empty line lets the model continue, Ctrl-D ends");
    }
    let mut turn = prompt;
    loop {
        session.interrupt.set(true);
        let ids = match turn.take() {
            Some(ids) => ids,
            None => match read_line()? {
                Some(line) if session.is_empty() => args.prompt(found, Input::Text(line))?,
                Some(line) => {
                    found.vocabulary.note_unknown(&line);
                    found.vocabulary.encode_part(&line)?
                }
                None => return Ok(()),
            },
        };
        match session.is_empty() {
            true if ids.is_empty() => continue, // nothing to continue from
            true => session.begin(&ids)?,
            false => session.add(&ids)?,
        }
        session.interrupt.set(false);
        let continued = session.continue_text(&mut print_text)?;
        print("\n")?;
        note_speed(&continued);
    }
}

/// The prompt as text, without the tokens that the tokenizer puts before each text; ids stand apart
/// from those that follow.
fn shown(ids: &[u32], vocabulary: &Vocabulary) -> String {
    match vocabulary.tokenizer() {
        Ok(tokenizer) => {
            let text = ids.strip_prefix(tokenizer.ids_before());
            vocabulary.text_of(text.unwrap_or(ids))
        }
        Err(_) if ids.is_empty() => String::new(),
        Err(_) => vocabulary.text_of(ids) + " ",
    }
}

fn note_speed(Continued { timings, .. }: &Continued) {
    note(&format!(
        "prompt {} tokens, {:.1} tokens/s; decode {} tokens, {:.1} tokens/s",
        timings.prompt_tokens,
        timings.prompt_tokens_per_second(),
        timings.decoded_tokens,
        timings.decoded_tokens_per_second()
    ));
}
