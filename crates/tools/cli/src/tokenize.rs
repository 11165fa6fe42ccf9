//! Implements `gpt tokenize`, which converts text to token IDs, or token IDs to text, using GPT-2's
//! tokenizer or the tokenizer of a model. The command prints the tokens, or writes their IDs to a
//! `.bin` or `.npy` file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Result;
use checkpoint::ModelFolder;
use clap::Args;
use model_tokenizer::ModelTokenizer;
use serde::Serialize;

use crate::model::ids::{Input, TextArgs, extension};
use crate::model::read;
use crate::model::vocabulary::Vocabulary;
use crate::terminal::failure::misused;
use crate::terminal::output::{check_new, note, print, print_json};
use crate::terminal::shell::{program, shell_quoted};

#[derive(Args, Debug)]
pub(crate) struct TokenizeArgs {
    #[command(flatten)]
    text: TextArgs,
    /// The folder of a model, of a training run, or of a tokenizer without a model [default:
    /// GPT-2's tokenizer]
    #[arg(short = 'm', long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Write the token IDs to a new file: .npy (NumPy) or .bin (16-bit integers, as in nanoGPT)
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print only the token IDs, separated by commas
    #[arg(long, conflicts_with_all = ["count", "json"])]
    ids: bool,
    /// Print only the number of tokens
    #[arg(long, conflicts_with = "json")]
    count: bool,
    /// Print a JSON object with the keys tokens, pieces and text
    #[arg(long)]
    json: bool,
}

/// The object that `gpt tokenize --json` prints. The field `pieces` contains the text of each
/// token. If a multibyte character is divided among several tokens, the pieces of these tokens
/// contain U+FFFD instead of the character.
#[derive(Serialize)]
struct Report<'t> {
    tokens: &'t [u32],
    pieces: Vec<Cow<'t, str>>,
    text: &'t str,
}

pub(crate) fn run(args: &TokenizeArgs) -> Result<()> {
    args.output.as_deref().map_or(Ok(()), check_output)?;
    let vocabulary = match &args.model {
        Some(folder) => of_folder(folder)?,
        None => Vocabulary::new(ModelTokenizer::gpt2()),
    };
    let tokenizer = vocabulary.tokenizer()?;
    let input = args.text.required_text()?;
    let corpus = vocabulary.corpus(&input)?;
    if let Some(path) = &args.output {
        match extension(path).as_str() {
            "npy" => corpus.write_npy_file(path)?,
            _ => corpus.write_u16_file(path)?,
        }
    }
    if args.count {
        return Ok(print(format!("{}\n", corpus.len()))?);
    }
    let ids = corpus.read(..)?;
    if args.ids {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        return Ok(print(ids.join(",") + "\n")?);
    }
    if let (Some(path), false) = (&args.output, args.json) {
        // The messages about the written file go to standard error instead of standard output,
        // because the user may have chosen `/dev/stdout` as the output file.
        note(&format!("wrote {} tokens to {}", ids.len(), path.display()));
        if let Some(model) = &args.model {
            note(&format!(
                "to train a model on these token IDs, use: {} train --data {} --tokenizer {}",
                program(),
                shell_quoted(path),
                shell_quoted(model)
            ));
        }
        return Ok(());
    }
    let text = match input {
        Input::Text(text) => text,
        Input::Ids(_) => tokenizer.decode_lossy(&ids)?,
    };
    let pieces = ids.iter().filter_map(|&id| tokenizer.piece(id));
    match args.json {
        true => print_json(&Report {
            tokens: &ids,
            pieces: pieces.map(String::from_utf8_lossy).collect(),
            text: &text,
        }),
        false => print_table(&ids, &text, tokenizer),
    }
}

/// Checks that token IDs can be written to `path`.
///
/// # Errors
/// Returns an error if the file already exists, or a usage error if the name of a new file doesn't
/// end in `.bin` or `.npy`.
fn check_output(path: &Path) -> Result<()> {
    check_new(path)?;
    let is_new = !path.exists();
    match extension(path).as_str() {
        "bin" | "npy" => Ok(()),
        // `check_new` accepts an existing output path only if it is a device or a pipe, such as
        // `/dev/stdout`. The name of a device or a pipe needs no extension.
        _ if !is_new => Ok(()),
        _ => misused(format!(
            "{}: the name must end in .bin or .npy; to print token IDs as text, use --ids",
            path.display()
        )),
    }
}

/// Reads the tokenizer in the folder of a model or a training run, or in a folder that contains
/// nothing but a tokenizer.
fn of_folder(path: &Path) -> Result<Vocabulary> {
    let (vocabulary, _) = read(Some(path), |folder| {
        if let Some(tokenizer) = ModelTokenizer::from_folder(folder)? {
            return Ok(Vocabulary::new(tokenizer));
        }
        let model = ModelFolder::open(folder)?;
        Vocabulary::of_model(folder, model.config().vocab_size)
    })?;
    Ok(vocabulary)
}

/// Prints the ID and the text of each token on a separate line, followed by a line with the number
/// of tokens, characters and bytes.
fn print_table(ids: &[u32], text: &str, tokenizer: &ModelTokenizer) -> Result<()> {
    let mut table = String::new();
    for (id, piece) in ids
        .iter()
        .filter_map(|&id| Some((id, tokenizer.piece(id)?)))
    {
        let shown = match std::str::from_utf8(piece) {
            Ok(piece) => format!("{piece:?}"),
            Err(_) => format!("\"{}\"", piece.escape_ascii()),
        };
        table += &format!("{id:>6}  {shown}\n");
    }
    let (count, characters, bytes) = (ids.len(), text.chars().count(), text.len());
    table += &format!("{count} tokens, {characters} characters, {bytes} bytes\n");
    Ok(print(table)?)
}
