//! `gpt convert`: a model folder into Hugging Face's layout, which transformers loads, or the book's.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use atomic_file::{FileError, StagedFolder};
use checkpoint::{Precision, save_book, save_hugging_face};
use clap::{Args, ValueEnum};
use model_tokenizer::TOKENIZER_FILES;
use tensor_ops::Parameters;
use train::{BESIDE, CHECKPOINTS, LATEST};

use crate::failure::Usage;
use crate::model::find;
use crate::numbers::count;
use crate::output::{note, print};
use crate::runs::{CONFIG, OPTIONS};

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

/// The files that a conversion writes, and those of a tokenizer, which would contradict a new one.
fn is_ours(name: &str) -> bool {
    ["model.safetensors", CONFIG, "generation_config.json"].contains(&name)
        || TOKENIZER_FILES.contains(&name)
}

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let to = args.to.display();
    if args.layout == Layout::Book && args.precision != Precision::F32 {
        return Err(Usage("--precision: the book's layout is f32 only".to_owned()).into());
    }
    if args.to.exists() && !args.to.is_dir() {
        bail!("{to}: expected a folder to write, but it is a file");
    }
    refuse_run(&args.to)?;
    if let (false, Some(name)) = (args.force, ours_in(&args.to)?) {
        bail!("{to}: {name} of another model is in this folder; --force replaces it");
    }
    let found = find(Some(&args.from))?;
    let vocabulary = &found.vocabulary;
    let model = found.load()?;
    put(&args.to, |folder| {
        match args.layout {
            Layout::HuggingFace => {
                save_hugging_face(&model, folder, args.precision, &vocabulary.end_of_text)?;
            }
            Layout::Book => save_book(&model, folder)?,
        }
        vocabulary.save(folder)
    })?;
    if let Err(reason) = vocabulary.tokenizer() {
        note(&format!("no tokenizer was written: {reason}"));
    }
    let parameters = count(model.num_parameters() as f64);
    Ok(print(format!("{parameters} parameters to {to}\n"))?)
}

/// # Errors
/// If a folder is a run, or among what a run keeps: its checkpoints, which a model in it would hide or spoil.
fn refuse_run(folder: &Path) -> Result<()> {
    let to = folder.display();
    let mut real = std::path::absolute(folder).with_context(|| to.to_string())?;
    // What links lead to counts, of what is there.
    if let Some(there) = real
        .ancestors()
        .find_map(|part| fs::canonicalize(part).ok())
    {
        let new = real
            .ancestors()
            .take_while(|part| fs::canonicalize(part).is_err());
        let new: Vec<_> = new.filter_map(Path::file_name).collect();
        real = new.iter().rev().fold(there, |path, name| path.join(name));
    }
    let is_run = |at: &Path| [LATEST, OPTIONS].iter().any(|name| at.join(name).exists());
    if is_run(&real) || real.join(CHECKPOINTS).exists() {
        bail!(
            "{to}: this folder is a run, whose checkpoints a model in it would hide; expected another folder, such as {to}/model"
        );
    }
    let mut above = real.ancestors().skip(1);
    if let Some(run) = above.find(|at| is_run(at))
        && [CHECKPOINTS, BESIDE]
            .iter()
            .any(|kept| real.starts_with(run.join(kept)))
    {
        bail!(
            "{to}: this is among what the run {} keeps; expected another folder",
            run.display()
        );
    }
    Ok(())
}

/// A file of a model or a tokenizer in a folder, if there is one.
fn ours_in(folder: &Path) -> Result<Option<String>> {
    if !folder.is_dir() {
        return Ok(None);
    }
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        if let Ok(name) = entry?.file_name().into_string()
            && is_ours(&name)
        {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Makes the folder `to` what `write` fills, or puts that into it: what is not ours stays.
///
/// At every moment there is the old model in it, or the new one: a folder is filled beside it and the two change places.
fn put(to: &Path, write: impl Fn(&Path) -> Result<()>) -> Result<()> {
    let before = || format!("{} is as it was", to.display());
    let beside = || {
        let staged = StagedFolder::beside(to)?;
        // What a conversion that was killed left takes room, but is no reason to fail.
        let _ = staged.remove_left_behind(is_ours);
        write(staged.path())?;
        let is_empty = |mut names: fs::ReadDir| names.next().is_none();
        if fs::read_dir(to).is_ok_and(|names| !is_empty(names)) {
            return Ok(staged.replace(is_ours)?);
        }
        Ok(staged.create()?)
    };
    let error = match beside() {
        Ok(()) => return Ok(()),
        Err::<_, anyhow::Error>(error) => error,
    };
    match error.downcast_ref::<FileError>() {
        Some(told) if told.is_after_replacing() => {
            Err(error).with_context(|| format!("{} has the new model", to.display()))
        }
        // A file system's own folder, the current one, or one in a folder where we may not write.
        Some(told) if told.is_of_place() && to.is_dir() && ours_in(to)?.is_none() => {
            within(to, write).with_context(before)
        }
        _ => Err(error).with_context(before),
    }
}

/// Puts a model into a folder that can't be replaced and has none, its configuration last.
fn within(to: &Path, write: impl Fn(&Path) -> Result<()>) -> Result<()> {
    let lock = File::open(to)?;
    if let Err(TryLockError::WouldBlock) = lock.try_lock() {
        bail!("another conversion writes there");
    }
    let staged = StagedFolder::within(to)?;
    let _ = staged.remove_left_behind(is_ours);
    write(staged.path())?;
    if let Some(name) = ours_in(to)? {
        bail!("{name} has come meanwhile");
    }
    Ok(staged.move_out(CONFIG)?)
}
