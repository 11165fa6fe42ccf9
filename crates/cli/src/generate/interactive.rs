//! `gpt generate -i`: the user and the model continue one text in turns.
//!
//! The text so far stays in the decoder's cache, so a turn computes what is new.
//! A line is added to the text as it is; an empty line lets the model go on; the end of the input ends the session.

use std::io::{BufRead, IsTerminal, Write, stdin};

use anyhow::{Context, Result};

use super::session::Session;
use super::timings::tell;
use crate::ids::ids_of_text;
use crate::output::{note, print};

pub(crate) fn run(mut session: Session<'_>, prompt: Option<Vec<u32>>) -> Result<()> {
    if stdin().is_terminal() {
        note("each line is added to the text, an empty line lets the model go on, Ctrl-D ends");
    }
    let mut turn = prompt;
    loop {
        let ids = match turn.take() {
            Some(ids) => ids,
            None => match read_turn(session.is_empty())? {
                Some(ids) => ids,
                None => return Ok(()),
            },
        };
        if session.is_empty() && ids.is_empty() {
            continue; // there is nothing to go on with
        }
        session.add(&ids)?;
        let continued = session.go_on(&mut |text| print(text))?;
        print("\n")?;
        tell(&continued.timings, None);
    }
}

/// The ids of the next line; `None` at the end of the input.
fn read_turn(is_first: bool) -> Result<Option<Vec<u32>>> {
    if stdin().is_terminal() {
        let prompt = if is_first { "text " } else { "" };
        let _ = write!(std::io::stderr(), "{prompt}> ");
    }
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line);
    if read.context("standard input")? == 0 {
        return Ok(None);
    }
    ids_of_text(line.trim_end_matches(['\r', '\n'])).map(Some)
}
