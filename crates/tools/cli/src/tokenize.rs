//! `gpt tokenize`: a text to ids and pieces, ids to text, and token files (`.bin`, u16) out of
//! either; GPT-2's, or a model's own.

use std::path::{Path, PathBuf};

use anyhow::Result;
use checkpoint::ModelFolder;
use clap::Args;
use dataloader::Corpus;
use model_tokenizer::ModelTokenizer;
use serde::Serialize;

use crate::hints::program;
use crate::ids::{Given, TextArgs};
use crate::model::read;
use crate::output::{LongText, print};
use crate::runs::typed;
use crate::target::check_output;
use crate::vocabulary::Vocabulary;
use crate::working::Working;

#[derive(Args, Debug)]
pub(crate) struct TokenizeArgs {
    #[command(flatten)]
    text: TextArgs,
    /// Whose tokenizer it is: a model, a run, or a folder with a tokenizer alone [default: GPT-2's]
    #[arg(short = 'm', long, value_name = "DIR")]
    model: Option<PathBuf>,
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

pub(crate) fn run(args: &TokenizeArgs) -> Result<()> {
    let source = args.text.source();
    if let Some(path) = &args.output {
        let inputs: Vec<&Path> = source.into_iter().chain(args.model.as_deref()).collect();
        check_output("-o", path, &inputs)?;
    }
    let vocabulary = match &args.model {
        Some(folder) => of_folder(folder)?,
        None => Vocabulary::new(ModelTokenizer::gpt2()),
    };
    let tokenizer = vocabulary.tokenizer()?;
    let given = args.text.whole()?;
    let encoding = Working::on("encoding", 0);
    let ids = vocabulary.corpus(&given)?;
    drop(encoding);
    if let Some(path) = &args.output {
        ids.write_u16_file(path)?;
    }
    if args.count {
        return Ok(print(format!("{}\n", ids.len()))?);
    }
    if args.ids {
        return print_ids(&ids);
    }
    if let (Some(path), false) = (&args.output, args.json) {
        let file = path.display();
        print(format!("{} tokens to {file}\n", ids.len()))?;
        return match &args.model {
            Some(model) => Ok(print(format!(
                "to train on them: {} train --data {} --tokenizer {}\n",
                program(),
                typed(path),
                typed(model)
            ))?),
            None => Ok(()),
        };
    }
    let ids = ids.read(..)?;
    let text = match given {
        Given::Text(text) => text,
        Given::Ids(_) => tokenizer.decode_lossy(&ids)?,
    };
    match args.json {
        true => print_report(&ids, &text, tokenizer),
        false => print_table(&ids, &text, tokenizer),
    }
}

/// The tokenizer of a model, or of a folder that has nothing else.
fn of_folder(path: &Path) -> Result<Vocabulary> {
    let (vocabulary, _) = read(path, |folder| {
        if let Some(tokenizer) = ModelTokenizer::from_folder(folder)? {
            return Ok(Vocabulary::new(tokenizer));
        }
        let model = ModelFolder::open(folder)?;
        Vocabulary::of_model(folder, model.config().vocab_size)
    })?;
    Ok(vocabulary)
}

/// The ids alone, of which a file may have more than the memory.
fn print_ids(ids: &Corpus) -> Result<()> {
    const PIECE: usize = 1 << 20;
    let mut out = LongText::default();
    for start in (0..ids.len()).step_by(PIECE) {
        let end = ids.len().min(start + PIECE);
        out.push(if start > 0 { "," } else { "" })?;
        push_list(&mut out, ids.read(start..end)?.iter())?;
    }
    out.push("\n")?;
    Ok(out.finish()?)
}

/// `{"tokens","pieces","text","count","characters","bytes"}`; a piece has U+FFFD where a character
/// is cut.
fn print_report(ids: &[u32], text: &str, tokenizer: &ModelTokenizer) -> Result<()> {
    let mut out = LongText::default();
    out.push("{\"tokens\":[")?;
    push_list(&mut out, ids.iter())?;
    out.push("],\"pieces\":[")?;
    let pieces = ids.iter().filter_map(|&id| tokenizer.piece(id));
    push_list(&mut out, pieces.map(String::from_utf8_lossy))?;
    let (count, characters, bytes) = (ids.len(), text.chars().count(), text.len());
    let text = serde_json::to_string(text)?;
    out.push(&format!(
        "],\"text\":{text},\"count\":{count},\"characters\":{characters},\"bytes\":{bytes}}}\n"
    ))?;
    Ok(out.finish()?)
}

/// The items of a list in JSON, without its brackets.
fn push_list(out: &mut LongText, items: impl Iterator<Item = impl Serialize>) -> Result<()> {
    for (i, item) in items.enumerate() {
        let comma = if i > 0 { "," } else { "" };
        out.push(&(comma.to_owned() + &serde_json::to_string(&item)?))?;
    }
    Ok(())
}

/// One line per token: its id, and its bytes as text.
fn print_table(ids: &[u32], text: &str, tokenizer: &ModelTokenizer) -> Result<()> {
    let mut out = LongText::default();
    for (id, piece) in ids
        .iter()
        .filter_map(|&id| Some((id, tokenizer.piece(id)?)))
    {
        let shown = match std::str::from_utf8(piece) {
            Ok(piece) => format!("{piece:?}"),
            Err(_) => format!("\"{}\"", piece.escape_ascii()),
        };
        out.push(&format!("{id:>6}  {shown}\n"))?;
    }
    let (count, characters, bytes) = (ids.len(), text.chars().count(), text.len());
    out.push(&format!(
        "{count} tokens, {characters} characters, {bytes} bytes\n"
    ))?;
    Ok(out.finish()?)
}
