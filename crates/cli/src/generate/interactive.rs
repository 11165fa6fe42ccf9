//! `gpt generate -i`: the user and the model continue one text in turns.
//!
//! The text so far stays in the decoder's cache, so a turn computes what is new.
//! A line is added to the text as it is; an empty line lets the model go on; the end of the input ends the session.

use std::io::{BufRead, IsTerminal, Write, stdin};

use anyhow::{Context, Result};
use generate::Decoder;
use gpt::GptModel;

use super::{GenerateArgs, decoder, note, rng, start, stream, tell};
use crate::ids::ids_of_text;
use crate::output::print;

pub(super) fn run(args: &GenerateArgs, model: &GptModel, prompt: Option<Vec<u32>>) -> Result<()> {
    let mut decoder = decoder(args, model)?;
    let mut rng = rng(args);
    if stdin().is_terminal() {
        note("each line is added to the text, an empty line lets the model go on, Ctrl-D ends");
    }
    let mut turn = prompt;
    loop {
        let ids = match turn.take() {
            Some(ids) => ids,
            None => match read_turn(decoder.batch() == 0)? {
                Some(ids) => ids,
                None => return Ok(()),
            },
        };
        if !add(args, &mut decoder, &ids)? {
            continue;
        }
        let continued = stream::text(args, &mut decoder, &mut rng, &mut |text| print(text))?;
        print("\n")?;
        tell(&continued.timings, std::time::Duration::ZERO);
    }
}

/// Adds a turn to the text; whether there is a text to continue.
fn add(args: &GenerateArgs, decoder: &mut Decoder, ids: &[u32]) -> Result<bool> {
    if decoder.batch() > 0 {
        decoder.push(0, ids)?;
    } else if !ids.is_empty() {
        start(args, decoder, ids)?;
    }
    Ok(decoder.batch() > 0)
}

/// The ids of the next line; `None` at the end of the input.
fn read_turn(is_first: bool) -> Result<Option<Vec<u32>>> {
    if stdin().is_terminal() {
        let _ = write!(
            std::io::stderr(),
            "{}> ",
            if is_first { "text " } else { "" }
        );
    }
    let mut line = String::new();
    if stdin()
        .lock()
        .read_line(&mut line)
        .context("standard input")?
        == 0
    {
        return Ok(None);
    }
    ids_of_text(line.trim_end_matches(['\r', '\n'])).map(Some)
}
