//! Implements `gpt generate`, which continues a text. New tokens are printed to standard output as
//! soon as they are generated. The speed is printed to standard error.
//!
//! With `--json`, each text is printed as a JSON object as soon as it is complete. With `-i`, the
//! user and the model take turns: each line that the user enters is appended to the text, and then
//! the model continues the text.

mod options;
mod pieces;
mod session;
mod texts;

use std::io::{IsTerminal, stdin};

use anyhow::Result;
use generate::{Decoder, DecoderWeights, Timings};

use crate::model::FoundModel;
use crate::model::ids::{Input, read_line};
use crate::model::vocabulary::Vocabulary;
use crate::terminal::failure::misused;
use crate::terminal::interrupt::Interrupt;
use crate::terminal::output::{note, print, print_text};
use options::Settings;
pub(crate) use options::{GenerateArgs, SamplingArgs};
use session::Session;
use texts::Texts;

pub(crate) fn run(args: &GenerateArgs) -> Result<()> {
    let GenerateArgs { input, output, .. } = args;
    output.threads.apply()?;
    // In an interactive session, standard input contains the lines that the user enters. The prompt
    // is therefore read only if the arguments specify it. Otherwise, the session begins without a
    // prompt.
    let prompt = match input.interactive && !input.text.is_present() {
        true => None,
        false => input.text.prompt()?,
    };
    if prompt.is_none() && !input.interactive {
        return misused(
            "there is no prompt; specify a text, a file (-f) or token IDs (--tokens), pipe in a text, or use -i",
        );
    }
    let found = input.model.find()?;
    let settings = args.settings(&found)?;
    let prompts = args.prompts(&found, prompt)?;
    let longest = prompts.iter().map(Vec::len).max();
    let memory = args.memory(&found, &settings, prompts.len(), longest.unwrap_or(0))?;
    let weights = found.weights(output.dtype, &memory)?;
    // This decoder isn't used. Creating it checks whether the model supports the requested context
    // size, so that an error is reported before anything is printed.
    Decoder::with_config(&weights, args.decoder())?;
    if !output.json {
        found.note();
        settings.note_seed(args);
    }
    if input.interactive {
        return take_turns(args, &settings, &found, &weights, prompts);
    }
    Texts::new(args, &settings, &found.vocabulary, &weights, &prompts).run()
}

/// Runs an interactive session until standard input ends. In each turn, the user adds a line to the
/// text, and then the model continues the text.
///
/// If the user enters an empty line, nothing is added, and the model continues the existing text.
/// While the model generates text, Ctrl-C stops it and returns control to the user. While the
/// program waits for the user's input, Ctrl-C ends the program.
fn take_turns(
    args: &GenerateArgs,
    settings: &Settings,
    found: &FoundModel,
    weights: &DecoderWeights,
    prompts: Vec<Vec<u32>>,
) -> Result<()> {
    let interrupt = Interrupt::listen_to_ctrl_c()?;
    let vocabulary = &found.vocabulary;
    let mut session = Session::new(args, settings, vocabulary, weights, &interrupt)?;
    if stdin().is_terminal() {
        note(
            "type a line to add it to the text, or press Enter to let the model continue; Ctrl-D ends the session",
        );
    }
    let mut turn = prompts.into_iter().next();
    loop {
        interrupt.set(true);
        let ids = match turn.take() {
            Some(ids) => ids,
            None => match read_line()? {
                Some(line) if session.is_empty() => args.prompt(found, Input::Text(line))?,
                Some(line) => {
                    vocabulary.note_unknown(&line);
                    vocabulary.encode_part(&line)?
                }
                None => return Ok(()),
            },
        };
        match session.is_empty() {
            // There is no text yet for the model to continue.
            true if ids.is_empty() => continue,
            true => session.add(vocabulary.begin(&ids)?)?,
            false => session.add(&ids)?,
        }
        interrupt.set(false);
        let timings = session.continue_text(&mut print_text)?;
        print("\n")?;
        note_speed(&timings);
    }
}

/// Converts a prompt to the text that is printed before the generated text. The tokens that the
/// tokenizer adds at the beginning of each text are omitted. If the model has no tokenizer, the
/// prompt is printed as token IDs, followed by a space that separates them from the generated IDs.
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

fn note_speed(timings: &Timings) {
    note(&format!(
        "processed {} prompt tokens at {:.1} tokens/s, and decoded {} tokens at {:.1} tokens/s",
        timings.prompt_tokens,
        timings.prompt_tokens_per_second(),
        timings.decoded_tokens,
        timings.decoded_tokens_per_second()
    ));
}
