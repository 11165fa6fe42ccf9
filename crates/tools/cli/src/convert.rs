//! `gpt convert`: a model folder into Hugging Face's layout, which transformers loads, the book's,
//! or llama.cpp's file.

use std::path::PathBuf;

use anyhow::{Result, bail};
use atomic_file::{StagedFolder, create_folder, folder_of, require_new_or_empty};
use checkpoint::{
    GgufFormat, GgufToken, GgufTokenKind, GgufTokens, Precision, save_book, save_gguf,
    save_hugging_face,
};
use clap::{Args, ValueEnum};
use gpt::GptModel;
use model_tokenizer::ModelTokenizer;
use serde_json::Value;
use tensor_ops::Parameters;

use crate::generate::SamplingArgs;
use crate::model::ids::extension;
use crate::model::vocabulary::Vocabulary;
use crate::model::{FoundModel, find};
use crate::terminal::failure::misused;
use crate::terminal::numbers::count;
use crate::terminal::output::{check_new, note, print};

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The model: a folder in either layout, or a run
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// A new or empty folder, or a new file ending in .gguf
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// The layout to write [default: hugging-face, or gguf by TO's ending]
    #[arg(long, value_enum, visible_alias = "to")]
    layout: Option<Layout>,
    /// The format of the numbers; bf16 is Hugging Face's, q8_0 is GGUF's
    #[arg(
        short = 'p',
        long,
        value_name = "P",
        value_enum,
        default_value = "f32",
        visible_alias = "dtype"
    )]
    precision: Numbers,
}

/// The names that a model's weights have, and the files that they are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// transformers' GPT2LMHeadModel
    #[value(alias = "hf", alias = "huggingface")]
    HuggingFace,
    /// The book's state_dict names
    Book,
    /// One file for llama.cpp
    Gguf,
}

/// The format of numbers in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Numbers {
    /// 4 bytes, exact
    F32,
    /// 2 bytes, up to 65504
    F16,
    /// 2 bytes, f32's range
    Bf16,
    /// 8 bits, and a scale for 32 of them
    #[value(name = "q8_0")]
    Q8_0,
}

impl ConvertArgs {
    /// The layout of the option, or of the name's extension.
    fn layout(&self) -> Result<Layout> {
        let extension = extension(&self.to);
        let is_gguf = extension == "gguf";
        let to = self.to.display();
        match (self.layout, is_gguf) {
            (Some(Layout::Gguf), _) | (None, true) => Ok(Layout::Gguf),
            (Some(_), true) => misused(format!(
                "{to} is a GGUF file by its name; --layout makes a folder"
            )),
            (layout, false) if ["safetensors", "bin", "pt", "pth"].contains(&extension.as_str()) => {
                misused(format!(
                    "{to}: a single .{extension} file is not written; name a folder, or a .gguf file"
                ))
                .map(|()| layout.unwrap_or(Layout::HuggingFace))
            }
            (layout, false) => Ok(layout.unwrap_or(Layout::HuggingFace)),
        }
    }
}

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let found = find(Some(&args.from))?;
    match (args.layout()?, args.precision) {
        (Layout::HuggingFace, Numbers::F32) => to_folder(args, &found, Some(Precision::F32)),
        (Layout::HuggingFace, Numbers::F16) => to_folder(args, &found, Some(Precision::F16)),
        (Layout::HuggingFace, Numbers::Bf16) => to_folder(args, &found, Some(Precision::Bf16)),
        (Layout::Book, Numbers::F32) => to_folder(args, &found, None),
        (Layout::Gguf, Numbers::F32) => to_gguf(args, &found, GgufFormat::F32),
        (Layout::Gguf, Numbers::F16) => to_gguf(args, &found, GgufFormat::F16),
        (Layout::Gguf, Numbers::Q8_0) => to_gguf(args, &found, GgufFormat::Q8_0),
        (Layout::Gguf, _) => misused("--precision: GGUF is written in f32, f16 or q8_0"),
        (Layout::Book, _) => misused("--precision: the book's layout is f32 only"),
        (_, Numbers::Q8_0) => misused("--precision: q8_0 is for GGUF"),
    }
}

/// Writes a folder in Hugging Face's layout in a precision, or without one in the book's.
fn to_folder(args: &ConvertArgs, found: &FoundModel, precision: Option<Precision>) -> Result<()> {
    let vocabulary = &found.vocabulary;
    require_new_or_empty(&args.to)?;
    if args.to.file_name().is_some() {
        create_folder(folder_of(&args.to))?;
    }
    let staged = StagedFolder::beside(&args.to)?;
    let model = found.load()?;
    let layout = match precision {
        Some(precision) => {
            save_hugging_face(&model, staged.path(), precision, &vocabulary.special)?;
            format!("Hugging Face's layout, {precision}")
        }
        None => {
            save_book(&model, staged.path())?;
            "the book's layout, f32".to_owned()
        }
    };
    vocabulary.save(staged.path())?;
    staged.create()?;
    if let Err(reason) = vocabulary.tokenizer() {
        note(&format!("no tokenizer was written: {reason}"));
    }
    report(args, &model, &layout, vocabulary.tokenizer().is_ok())
}

fn to_gguf(args: &ConvertArgs, found: &FoundModel, format: GgufFormat) -> Result<()> {
    check_new(&args.to)?;
    let vocabulary = &found.vocabulary;
    let size = found.config().vocab_size;
    let tokens = match vocabulary.tokenizer() {
        Ok(tokenizer) => gguf_tokens(tokenizer, vocabulary, size)?,
        Err(_) => None,
    };
    if tokens.is_none() {
        note("no tokenizer was written: llama.cpp supports only byte-level BPE of GPT-2's form");
    }
    let model = found.load()?;
    let mut special = vocabulary.special.clone();
    if let (true, Ok(tokenizer)) = (special.eos.is_empty(), vocabulary.tokenizer()) {
        // Without an end llama.cpp takes token 11, GPT-2's comma.
        special.eos.extend(tokenizer.eos_token_id());
        special = special.within(size);
    }
    save_gguf(&model, &args.to, format, tokens.as_ref(), &special)?;
    report(args, &model, &format!("GGUF, {format}"), tokens.is_some())
}

fn report(args: &ConvertArgs, model: &GptModel, layout: &str, has_tokenizer: bool) -> Result<()> {
    let parameters = count(model.num_parameters() as f64);
    let with = if has_tokenizer {
        "with its"
    } else {
        "without a"
    };
    let to = args.to.display();
    Ok(print(format!(
        "{parameters} parameters to {to}: {layout}, {with} tokenizer\n"
    ))?)
}

/// A tokenizer's tokens for a model of so many, if it is of the form that llama.cpp knows.
fn gguf_tokens(
    tokenizer: &ModelTokenizer,
    vocabulary: &Vocabulary,
    vocab_size: usize,
) -> Result<Option<GgufTokens>> {
    if tokenizer.vocab_size() > vocab_size {
        let size = tokenizer.vocab_size();
        bail!(
            "the tokenizer has {size} tokens, but the model {vocab_size}, and GGUF has one number"
        );
    }
    let Some(pairs) = tokenizer.byte_pairs()? else {
        return Ok(None);
    };
    let token = |id: u32| {
        let (text, kind) = match pairs.tokens.get(&id) {
            Some((text, None)) => (text.clone(), GgufTokenKind::Normal),
            Some((text, Some(true))) => (text.clone(), GgufTokenKind::Special),
            Some((text, Some(false))) => (text.clone(), GgufTokenKind::Added),
            None => (format!("[PAD{id}]"), GgufTokenKind::Unused), // as llama.cpp's script has it
        };
        GgufToken { text, kind }
    };
    let settings = vocabulary.settings.generation()?;
    vocabulary.settings.note_unsupported(&settings.unsupported);
    let sampling = settings.sampling;
    SamplingArgs::default().checked(&sampling, vocab_size)?;
    let merges = pairs.merges.iter();
    Ok(Some(GgufTokens {
        tokens: (0..vocab_size as u32).map(token).collect(),
        merges: merges
            .map(|(left, right)| format!("{left} {right}"))
            .collect(),
        begin: pairs.begin,
        chat_templates: {
            let config: Value = tokenizer
                .config()
                .map_or(Ok(Value::Null), serde_json::from_str)?;
            vocabulary.settings.chat_templates(&config)?
        },
        sampling,
    }))
}
