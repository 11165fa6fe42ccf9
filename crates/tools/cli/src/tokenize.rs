//! `gpt tokenize`: a text to ids and pieces, ids to text, and token files (`.bin`, u16) out of
//! either; GPT-2's, or a model's own.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use dataloader::Corpus;
use model_tokenizer::ModelTokenizer;
use serde::Serialize;
use tokenizer::{AllowedSpecial, Gpt2Tokenizer};

use crate::ids::{Given, TextArgs};
use crate::memory::check_free;
use crate::model::find;
use crate::output::{print, print_json};
use crate::vocabulary::check_encoding;
use crate::working::Working;

#[derive(Args, Debug)]
pub(crate) struct TokenizeArgs {
    #[command(flatten)]
    text: TextArgs,
    /// The model whose tokenizer it is: a folder or a run [default: GPT-2's]
    #[arg(short = 'm', long, value_name = "DIR", conflicts_with = "special")]
    model: Option<PathBuf>,
    /// What <|endoftext|> in the text is: a token, a mistake, or plain text
    #[arg(long, value_enum, default_value = "token")]
    special: Special,
    /// Write the ids to a file of little-endian u16, as nanoGPT does
    #[arg(short = 'o', long, value_name = "FILE.bin")]
    output: Option<PathBuf>,
    /// Print the ids alone, with commas
    #[arg(long, conflicts_with_all = ["count", "json"])]
    ids: bool,
    /// Print the number of tokens alone
    #[arg(long, conflicts_with = "json")]
    count: bool,
    /// Print one JSON object: tokens, pieces, text, count, characters, bytes
    #[arg(long)]
    json: bool,
}

/// What a special token in a text is.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Special {
    /// The token of that name
    Token,
    /// A mistake
    Refuse,
    /// The characters it is written with
    Text,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    tokens: &'a [u32],
    pieces: Vec<String>,
    text: &'a str,
    count: usize,
    characters: usize,
    bytes: usize,
}

pub(crate) fn run(args: &TokenizeArgs) -> Result<()> {
    let found = args.model.as_deref().map(|model| find(Some(model)));
    let found = found.transpose()?;
    let gpt2 = ModelTokenizer::gpt2();
    let tokenizer = match &found {
        Some(found) => found.vocabulary.tokenizer()?,
        None => &gpt2,
    };
    let (ids, text) = read(args, tokenizer)?;
    if let Some(path) = &args.output {
        Corpus::from_ids(ids.as_slice()).write_u16_file(path)?;
    }
    if args.json {
        return print_json(&Report {
            pieces: pieces(&ids, tokenizer),
            tokens: &ids,
            count: ids.len(),
            characters: text.chars().count(),
            bytes: text.len(),
            text: &text,
        });
    }
    if args.count {
        print(format!("{}\n", ids.len()))?;
    } else if args.ids {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        print(ids.join(",") + "\n")?;
    } else if let Some(path) = &args.output {
        print(format!("{} tokens to {}\n", ids.len(), path.display()))?;
    } else {
        print(table(&ids, &text, tokenizer))?;
    }
    Ok(())
}

/// The ids and the text they stand for, which is taken as it is.
fn read(args: &TokenizeArgs, tokenizer: &ModelTokenizer) -> Result<(Vec<u32>, String)> {
    let text = match args.text.whole()? {
        Given::Text(text) => text,
        Given::Ids(ids) => {
            // An id has four bytes, and its text about as many; the table and its pieces a few
            // more.
            check_free(16.0 * ids.len() as f64, "tokens and their text")?;
            let ids = ids.read(..)?.into_owned();
            let text = tokenizer.decode_lossy(&ids)?;
            return Ok((ids, text));
        }
    };
    check_encoding(&text, tokenizer)?;
    let _working = Working::on("encoding", 0);
    let ids = match args.special {
        Special::Token => tokenizer.encode(&text)?,
        Special::Refuse => Gpt2Tokenizer::new().encode_allowing(&text, AllowedSpecial::None)?,
        Special::Text => Gpt2Tokenizer::new().encode_ordinary(&text),
    };
    Ok((ids, text))
}

/// The text of each id, with U+FFFD where a character is cut.
fn pieces(ids: &[u32], tokenizer: &ModelTokenizer) -> Vec<String> {
    let pieces = ids.iter().filter_map(|&id| tokenizer.piece(id));
    pieces
        .map(|piece| String::from_utf8_lossy(piece).into_owned())
        .collect()
}

/// One line per token: its id, and its bytes as text.
fn table(ids: &[u32], text: &str, tokenizer: &ModelTokenizer) -> String {
    let mut table = String::new();
    let pieces = ids
        .iter()
        .filter_map(|&id| Some((id, tokenizer.piece(id)?)));
    for (id, piece) in pieces {
        let shown = match std::str::from_utf8(piece) {
            Ok(piece) => format!("{piece:?}"),
            Err(_) => format!("\"{}\"", piece.escape_ascii()),
        };
        table += &format!("{id:>6}  {shown}\n");
    }
    let (characters, bytes) = (text.chars().count(), text.len());
    table += &format!(
        "{} tokens, {characters} characters, {bytes} bytes\n",
        ids.len()
    );
    table
}
