//! Implements `gpt convert`, which writes a model as a folder in Hugging Face's layout for the
//! transformers library, as a folder with the parameter names of the book's PyTorch model, or as a
//! GGUF file for llama.cpp.

use std::path::PathBuf;

use anyhow::{Result, bail};
use atomic_file::{StagedFolder, create_folder, folder_of, require_new_or_empty};
use checkpoint::{
    Dtype, FILE_DTYPES, GGUF_DTYPES, GgufToken, GgufTokenKind, GgufTokens, save_book, save_gguf,
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
use crate::terminal::output::{check_new, note, note_missing_support, print};

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The model to convert: a model folder or the folder of a training run
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The output: a new or empty folder, or a new file whose name ends in .gguf
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// The layout of the output [default: gguf if TO ends in .gguf, otherwise hugging-face]
    #[arg(long, value_enum)]
    layout: Option<Layout>,
    /// The number format of the weights: float32, float16, bfloat16 (not for GGUF) or int8 (only
    /// for GGUF, as Q8_0)
    #[arg(long, value_name = "TYPE", default_value_t)]
    dtype: Dtype,
}

/// The layout of a converted model, which determines how the weights are named and in which files
/// they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// A folder for GPT2LMHeadModel of the transformers library
    #[value(alias = "hf", alias = "huggingface")]
    HuggingFace,
    /// A folder with the parameter names of the book's state_dict
    Book,
    /// A file for llama.cpp
    Gguf,
}

impl ConvertArgs {
    /// Returns the layout that `--layout` requests. If this option isn't given, the output path
    /// determines the layout: GGUF if the path ends in `.gguf`, and otherwise a folder in Hugging
    /// Face's layout.
    ///
    /// # Errors
    /// Returns a usage error if the output path ends in `.gguf` but `--layout` requests a folder,
    /// or if the path has the extension of another kind of weight file, such as `.safetensors`.
    fn layout(&self) -> Result<Layout> {
        let extension = extension(&self.to);
        let is_gguf = extension == "gguf";
        let to = self.to.display();
        match (self.layout, is_gguf) {
            (Some(Layout::Gguf), _) | (None, true) => Ok(Layout::Gguf),
            (Some(_), true) => misused(format!(
                "{to}: the name ends in .gguf, but --layout requests a folder; use another name, or omit --layout"
            )),
            (layout, false) if ["safetensors", "bin", "pt", "pth"].contains(&extension.as_str()) => {
                misused(format!(
                    "{to}: gpt can't write a single .{extension} file; specify the name of a folder or of a .gguf file"
                ))
                .map(|()| layout.unwrap_or(Layout::HuggingFace))
            }
            (layout, false) => Ok(layout.unwrap_or(Layout::HuggingFace)),
        }
    }
}

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let found = find(Some(&args.from))?;
    let (layout, dtype) = (args.layout()?, args.dtype);
    let (name, supported): (_, &[Dtype]) = match layout {
        Layout::HuggingFace => ("Hugging Face's layout", FILE_DTYPES),
        Layout::Book => ("the book's layout", &[Dtype::Float32]),
        Layout::Gguf => ("GGUF", GGUF_DTYPES),
    };
    if let Err(error) = dtype.one_of(supported) {
        return misused(format!(
            "--dtype: {error}; no other number formats are supported for {name}"
        ));
    }
    match layout {
        Layout::Gguf => to_gguf(args, &found, dtype),
        Layout::HuggingFace => to_folder(args, &found, Some(dtype)),
        Layout::Book => to_folder(args, &found, None),
    }
}

/// Writes the model to a folder. If `dtype` is given, the function uses Hugging Face's layout and
/// stores the weights in this number format. Otherwise, it uses the book's layout and stores the
/// weights as `f32`.
///
/// The files are first written to a temporary folder next to the output path, and this folder is
/// renamed when it is complete. An interrupted conversion therefore never leaves an incomplete
/// model at the output path.
fn to_folder(args: &ConvertArgs, found: &FoundModel, dtype: Option<Dtype>) -> Result<()> {
    let vocabulary = &found.vocabulary;
    require_new_or_empty(&args.to)?;
    if args.to.file_name().is_some() {
        create_folder(folder_of(&args.to))?;
        note_missing_support(&args.to)?;
    }
    let staged = StagedFolder::beside(&args.to)?;
    let model = found.load()?;
    let layout = match dtype {
        Some(dtype) => {
            save_hugging_face(&model, staged.path(), dtype, &vocabulary.special)?;
            format!("Hugging Face's layout, {dtype}")
        }
        None => {
            save_book(&model, staged.path())?;
            "the book's layout, float32".to_owned()
        }
    };
    vocabulary.save(staged.path())?;
    staged.create()?;
    if let Err(reason) = vocabulary.tokenizer() {
        note(&format!("no tokenizer was written: {reason}"));
    }
    report(args, &model, &layout, vocabulary.tokenizer().is_ok())
}

fn to_gguf(args: &ConvertArgs, found: &FoundModel, dtype: Dtype) -> Result<()> {
    check_new(&args.to)?;
    let vocabulary = &found.vocabulary;
    let size = found.config().vocab_size;
    let tokens = match vocabulary.tokenizer() {
        Ok(tokenizer) => gguf_tokens(tokenizer, vocabulary, size)?,
        Err(_) => None,
    };
    if tokens.is_none() {
        let reason = match vocabulary.tokenizer() {
            Ok(_) => "llama.cpp supports only byte-level BPE as in GPT-2".to_owned(),
            Err(reason) => reason.to_string(),
        };
        note(&format!("no tokenizer was written: {reason}"));
    }
    let model = found.load()?;
    let mut special = vocabulary.special.clone();
    if let (true, Ok(tokenizer)) = (special.eos.is_empty(), vocabulary.tokenizer()) {
        // If a GGUF file doesn't specify an end-of-text token, llama.cpp assumes that it is token
        // 11, which is the comma in GPT-2's vocabulary. Therefore, the tokenizer's end-of-text
        // token is added if the model doesn't specify one.
        special.eos.extend(tokenizer.eos_token_id());
        special = special.within(size);
    }
    save_gguf(&model, &args.to, dtype, tokens.as_ref(), &special)?;
    report(args, &model, &format!("GGUF, {dtype}"), tokens.is_some())
}

fn report(args: &ConvertArgs, model: &GptModel, layout: &str, has_tokenizer: bool) -> Result<()> {
    let parameters = count(model.num_parameters() as f64);
    let with = if has_tokenizer {
        "with the tokenizer"
    } else {
        "without a tokenizer"
    };
    let to = args.to.display();
    Ok(print(format!(
        "wrote {parameters} parameters to {to} in {layout}, {with}\n"
    ))?)
}

/// Converts a model's tokenizer and generation settings to the data structure that is written to a
/// GGUF file. If the tokenizer has no token for an ID below `vocab_size`, the file lists the ID as
/// an unused token. Returns `None` if the tokenizer isn't a byte-level BPE tokenizer like GPT-2's,
/// because llama.cpp doesn't support any other kind of tokenizer that this project implements.
///
/// # Errors
/// Returns an error if the tokenizer has more tokens than the model, or if the model's folder
/// contains invalid generation settings or chat templates.
fn gguf_tokens(
    tokenizer: &ModelTokenizer,
    vocabulary: &Vocabulary,
    vocab_size: usize,
) -> Result<Option<GgufTokens>> {
    if tokenizer.vocab_size() > vocab_size {
        let size = tokenizer.vocab_size();
        bail!(
            "the tokenizer has {size} tokens, but the model's vocabulary has only {vocab_size}; a GGUF file requires a tokenizer that matches the model"
        );
    }
    let Some(pairs) = tokenizer.byte_pairs()? else {
        return Ok(None);
    };
    let context_tokens: Vec<String> = tokenizer
        .context_tokens()
        .map(|token| format!("{token:?}"))
        .collect();
    if !context_tokens.is_empty() {
        note(&format!(
            "llama.cpp ignores the settings lstrip, rstrip and single_word of the tokens {}, so it produces different token IDs where these tokens are next to whitespace or words",
            context_tokens.join(" ")
        ));
    }
    let token = |id: u32| {
        let (text, kind) = match pairs.tokens.get(&id) {
            Some((text, None)) => (text.clone(), GgufTokenKind::Normal),
            Some((text, Some(true))) => (text.clone(), GgufTokenKind::Special),
            Some((text, Some(false))) => (text.clone(), GgufTokenKind::Added),
            // If the tokenizer has no token for an ID, the GGUF file needs a placeholder.
            // llama.cpp's own conversion script gives the same names to unused tokens.
            None => (format!("[PAD{id}]"), GgufTokenKind::Unused),
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
