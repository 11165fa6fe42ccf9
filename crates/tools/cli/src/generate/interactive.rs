//! `gpt generate -i`: the user and the model continue one text in turns.
//!
//! The text so far stays in the decoder's cache, so a turn computes what is new.
//! A line is added to the text as it is; an empty line lets the model go on; the end of the input
//! ends the session.
//! Ctrl-C ends an answer; before and after one it ends the program.

use std::io::{ErrorKind, IsTerminal, stdin};
use std::path::Path;

use anyhow::{Context, Result};
use rustyline::config::Behavior;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};

use super::session::Session;
use super::timings::tell;
use crate::ids::read_lines;
use crate::interrupt::INTERRUPTED;
use crate::model::Found;
use crate::output::{note, print, print_text};

pub(crate) fn run(mut session: Session<'_>, found: &Found, prompt: Option<Vec<u32>>) -> Result<()> {
    let mut lines = Lines::new()?;
    let mut turn = prompt;
    loop {
        session.interrupt.set(true);
        let ids = match turn.take() {
            Some(ids) => ids,
            None => match lines.next(if session.is_empty() { "text > " } else { "> " })? {
                Some(line) => session.turn(found, line)?,
                None => return Ok(()),
            },
        };
        if session.is_empty() && ids.is_empty() {
            continue; // there is nothing to go on with
        }
        session.add(&ids)?;
        session.interrupt.set(false);
        let continued = session.go_on(&mut print_text)?;
        print("\n")?;
        tell(&continued[0].timings, None);
    }
}

/// The source of the user's turns.
enum Lines {
    /// Lines with editing and a history.
    Terminal(Box<DefaultEditor>),
    Pipe(Box<dyn Iterator<Item = Result<String>>>),
}

impl Lines {
    fn new() -> Result<Self> {
        if !stdin().is_terminal() {
            return Ok(Self::Pipe(Box::new(read_lines(Path::new("-"))?)));
        }
        note("each line is added to the text, an empty line lets the model go on, Ctrl-D ends");
        // What is typed goes to the terminal even if standard output is a file.
        let config = Config::builder().behavior(Behavior::PreferTerm).build();
        let editor = DefaultEditor::with_config(config)?;
        Ok(Self::Terminal(Box::new(editor)))
    }

    /// The next line; `None` at the end of the input.
    fn next(&mut self, prompt: &str) -> Result<Option<String>> {
        match self {
            Self::Terminal(editor) => match editor.readline(prompt) {
                Ok(line) => {
                    editor.add_history_entry(&line)?;
                    Ok(Some(line))
                }
                Err(ReadlineError::Eof) => Ok(None),
                Err(ReadlineError::Interrupted) => std::process::exit(INTERRUPTED),
                Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                    note("this was no UTF-8 text, and is left out");
                    self.next(prompt)
                }
                Err(error) => Err(error).context("standard input"),
            },
            Self::Pipe(lines) => lines.next().transpose(),
        }
    }
}
