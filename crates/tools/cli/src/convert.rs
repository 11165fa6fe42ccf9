//! `gpt convert`: a model folder into Hugging Face's layout, which transformers loads, or the book's.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use atomic_file::sync_folder;
use checkpoint::{CheckpointError, Precision, is_file, save_book, save_hugging_face};
use clap::{Args, ValueEnum};
use model_tokenizer::ModelTokenizer;
use tensor_ops::Parameters;
use train::{CHECKPOINTS, LATEST};

use crate::failure::Usage;
use crate::model::find;
use crate::numbers::count;
use crate::output::{note, print};
use crate::runs::CONFIG;
use crate::vocabulary::Vocabulary;

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

/// Where a model is written before it replaces another, in that one's folder.
const UNFINISHED: &str = ".convert.unfinished";

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let to = args.to.display();
    if args.layout == Layout::Book && args.precision != Precision::F32 {
        return Err(Usage("--precision: the book's layout is f32 only".to_owned()).into());
    }
    if args.to.exists() && !args.to.is_dir() {
        bail!("{to}: expected a folder to write, but it is a file");
    }
    if args.to.join(LATEST).exists() || args.to.join(CHECKPOINTS).exists() {
        bail!(
            "{to}: this folder is a run, whose checkpoints a model in it would hide; expected another folder, such as {to}/model"
        );
    }
    if !args.force && args.to.join(CONFIG).exists() {
        bail!("{to}: there is a model in this folder; --force replaces it");
    }
    let found = find(Some(&args.from))?;
    let vocabulary = &found.vocabulary;
    if vocabulary.tokenizer().is_err() && ModelTokenizer::from_folder(&args.to)?.is_some() {
        bail!("{to}: there is another model's tokenizer in this folder");
    }
    let model = found.load()?;
    replace_model(&args.to, vocabulary, |folder| match args.layout {
        Layout::HuggingFace => {
            save_hugging_face(&model, folder, args.precision, &vocabulary.end_of_text)
        }
        Layout::Book => save_book(&model, folder),
    })?;
    if let Err(reason) = vocabulary.tokenizer() {
        note(&format!("no tokenizer was written: {reason}"));
    }
    let parameters = count(model.num_parameters() as f64);
    Ok(print(format!("{parameters} parameters to {to}\n"))?)
}

/// Lets `write` fill a folder within `to`, adds the vocabulary, and moves its files to `to` when all are whole: an error, a full disk or a kill before leaves what was there.
///
/// While they move there is no configuration, so nobody reads one model's weights with another's.
fn replace_model(
    to: &Path,
    vocabulary: &Vocabulary,
    write: impl FnOnce(&Path) -> Result<(), CheckpointError>,
) -> Result<()> {
    let unfinished = to.join(UNFINISHED);
    let name = || unfinished.display().to_string();
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).with_context(name)?; // of a conversion that was killed
    }
    fs::create_dir_all(&unfinished).with_context(name)?;
    let write_all = || {
        write(&unfinished)?;
        vocabulary.save(&unfinished)?;
        let files = fs::read_dir(&unfinished).with_context(name)?;
        let files = files.map(|file| Ok(file.with_context(name)?.file_name()));
        let files = files.collect::<Result<Vec<_>>>()?;
        for file in &files {
            is_file(to.join(file))?; // or nothing, which a file can replace
        }
        Ok(files)
    };
    let mut files = write_all().inspect_err(|_: &anyhow::Error| {
        let _ = fs::remove_dir_all(&unfinished);
        let _ = fs::remove_dir(to); // if it is empty, it was made above
    })?;
    if is_file(to.join(CONFIG))? {
        fs::remove_file(to.join(CONFIG)).with_context(|| to.display().to_string())?;
    }
    files.sort_by_key(|file| file == CONFIG);
    for file in files {
        if file == CONFIG {
            vocabulary.save(to)?; // deletes what was another tokenizer's
        }
        fs::rename(unfinished.join(&file), to.join(&file))
            .with_context(|| format!("{}: the new model is in {}", to.display(), name()))?;
    }
    fs::remove_dir(&unfinished).with_context(name)?;
    Ok(sync_folder(to)?)
}
