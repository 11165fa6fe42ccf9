//! `gpt convert`: a model folder into Hugging Face's layout, which transformers loads, or the book's.

use std::path::PathBuf;

use anyhow::{Result, bail};
use checkpoint::{Precision, save_book, save_hugging_face};
use clap::{Args, ValueEnum};
use model_tokenizer::ModelTokenizer;
use tensor_ops::Parameters;

use crate::failure::Usage;
use crate::memory::count;
use crate::model::find;
use crate::output::{note, print};

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The model: a folder in either layout, or a run
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The folder to write
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// The layout to write
    #[arg(long, value_enum, default_value = "hugging-face", visible_alias = "to")]
    layout: Layout,
    /// How numbers are written: f32, f16 or bf16
    #[arg(long, value_name = "P", default_value = "f32", visible_alias = "dtype")]
    precision: Precision,
    /// Replace a model that is there already
    #[arg(long)]
    force: bool,
}

/// How a model folder names its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// What transformers' GPT2LMHeadModel reads and writes
    #[value(alias = "hf", alias = "huggingface")]
    HuggingFace,
    /// The book's state_dict names
    Book,
}

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let to = args.to.display();
    if args.layout == Layout::Book && args.precision != Precision::F32 {
        return Err(Usage("--precision: the book's layout is f32 only".to_owned()).into());
    }
    if args.to.exists() && !args.to.is_dir() {
        bail!("{to}: expected a folder to write, but it is a file");
    }
    if !args.force && args.to.join("config.json").exists() {
        bail!("{to}: there is a model in this folder; --force replaces it");
    }
    let found = find(Some(&args.from))?;
    let vocabulary = &found.vocabulary;
    if vocabulary.tokenizer().is_err() && ModelTokenizer::from_folder(&args.to)?.is_some() {
        bail!("{to}: there is another model's tokenizer in this folder");
    }
    let model = found.load()?;
    match args.layout {
        Layout::HuggingFace => save_hugging_face(&model, &args.to, args.precision)?,
        Layout::Book => save_book(&model, &args.to)?,
    }
    vocabulary.save(&args.to)?;
    if let Err(reason) = vocabulary.tokenizer() {
        note(&format!("no tokenizer was written: {reason}"));
    }
    let parameters = count(model.num_parameters() as f64);
    Ok(print(format!("{parameters} parameters to {to}\n"))?)
}
