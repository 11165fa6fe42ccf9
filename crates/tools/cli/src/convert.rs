//! `gpt convert`: a model folder into Hugging Face's layout, which transformers loads, the book's,
//! or llama.cpp's file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use atomic_file::{StagedFolder, copy_file, create_new_folder};
use checkpoint::{
    GgufFormat, GgufToken, GgufTokenKind, GgufTokens, Precision, SpecialTokens, save_book,
    save_gguf, save_hugging_face,
};
use clap::{Args, ValueEnum};
use model_tokenizer::{ModelTokenizer, TOKENIZER_FILES};
use tensor_ops::Parameters;

use crate::failure::misused;
use crate::model::find;
use crate::numbers::count;
use crate::output::{check_new, note, print};
use crate::runs::CONFIG;

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The model: a folder in either layout, or a run
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The folder to write, new or empty; or GGUF's file, whose name ends in .gguf
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
    /// The names of transformers' GPT2LMHeadModel
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

/// A layout in one of its formats.
#[derive(Clone, Copy)]
enum Written {
    HuggingFace(Precision),
    Book,
    Gguf(GgufFormat),
}

/// Chat templates besides the one, in a folder of a model's folder.
const MORE_TEMPLATES: &str = "additional_chat_templates";

/// True for the name of a file that a conversion writes.
pub(crate) fn is_ours(name: &str) -> bool {
    let of_a_model = ["model.safetensors", CONFIG];
    let ours = of_a_model.iter().chain(&SpecialTokens::FILES);
    ours.chain(&TOKENIZER_FILES).any(|ours| *ours == name)
}

impl ConvertArgs {
    /// Reads layout and precision together.
    fn written(&self) -> Result<Written> {
        let is_gguf = self.to.extension().is_some_and(|end| end == "gguf");
        let layout = match (self.layout, is_gguf) {
            (Some(Layout::Gguf), _) | (None, true) => Layout::Gguf,
            (Some(_), true) => {
                let to = self.to.display();
                return misused(format!(
                    "{to} is a GGUF file by its name; --layout makes a folder"
                ));
            }
            (layout, false) => layout.unwrap_or(Layout::HuggingFace),
        };
        let misused = |what: &str| misused(format!("--precision: {what}"));
        Ok(match (layout, self.precision) {
            (Layout::HuggingFace, Numbers::F32) => Written::HuggingFace(Precision::F32),
            (Layout::HuggingFace, Numbers::F16) => Written::HuggingFace(Precision::F16),
            (Layout::HuggingFace, Numbers::Bf16) => Written::HuggingFace(Precision::Bf16),
            (Layout::Book, Numbers::F32) => Written::Book,
            (Layout::Gguf, Numbers::F32) => Written::Gguf(GgufFormat::F32),
            (Layout::Gguf, Numbers::F16) => Written::Gguf(GgufFormat::F16),
            (Layout::Gguf, Numbers::Q8_0) => Written::Gguf(GgufFormat::Q8_0),
            (Layout::Gguf, _) => return misused("GGUF is written in f32, f16 or q8_0"),
            (Layout::Book, _) => return misused("the book's layout is f32 only"),
            (_, Numbers::Q8_0) => return misused("q8_0 is for GGUF"),
        })
    }
}

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let (written, to) = (args.written()?, args.to.display());
    let found = find(Some(&args.from))?;
    let vocabulary = &found.vocabulary;
    let (model, layout, precision, has_tokenizer);
    if let Written::Gguf(format) = written {
        check_new(&args.to)?;
        let size = found.config().vocab_size;
        let tokens = vocabulary
            .tokenizer()
            .ok()
            .map(|all| gguf_tokens(all, size));
        let tokens = tokens.transpose()?.flatten();
        if tokens.is_none() {
            note("no tokenizer was written: llama.cpp has GPT-2's form of byte pairs");
        }
        model = found.load()?;
        save_gguf(
            &model,
            &args.to,
            format,
            tokens.as_ref(),
            &vocabulary.special,
        )?;
        (layout, precision, has_tokenizer) = ("GGUF", format.to_string(), tokens.is_some());
    } else {
        let staged = StagedFolder::beside(&args.to)?;
        model = found.load()?;
        (layout, precision) = match written {
            Written::HuggingFace(precision) => {
                save_hugging_face(&model, staged.path(), precision, &vocabulary.special)?;
                ("Hugging Face's layout", precision.to_string())
            }
            _ => {
                save_book(&model, staged.path())?;
                ("the book's layout", Precision::F32.to_string())
            }
        };
        vocabulary.save(staged.path())?;
        copy_templates(&found.folder, staged.path())?;
        staged.create()?;
        if let Err(reason) = vocabulary.tokenizer() {
            note(&format!("no tokenizer was written: {reason}"));
        }
        has_tokenizer = vocabulary.tokenizer().is_ok();
    }
    let parameters = count(model.num_parameters() as f64);
    let tokenizer = if has_tokenizer {
        "with its tokenizer"
    } else {
        "without a tokenizer"
    };
    let line = format!("{parameters} parameters to {to}: {layout}, {precision}, {tokenizer}\n");
    Ok(print(line)?)
}

/// Copies chat templates that only others understand.
fn copy_templates(from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (from.join(MORE_TEMPLATES), to.join(MORE_TEMPLATES));
    if !from.is_dir() {
        return Ok(());
    }
    create_new_folder(&to)?;
    for entry in fs::read_dir(&from).with_context(|| from.display().to_string())? {
        let entry = entry.with_context(|| from.display().to_string())?;
        copy_file(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// A tokenizer's tokens for a model of so many, if it is of the form that llama.cpp knows.
fn gguf_tokens(tokenizer: &ModelTokenizer, vocab_size: usize) -> Result<Option<GgufTokens>> {
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
    let merges = pairs.merges.iter();
    Ok(Some(GgufTokens {
        tokens: (0..vocab_size as u32).map(token).collect(),
        merges: merges
            .map(|(left, right)| format!("{left} {right}"))
            .collect(),
        begin: pairs.begin,
    }))
}
