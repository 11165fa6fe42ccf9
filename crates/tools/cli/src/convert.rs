//! `gpt convert`: a model folder into Hugging Face's layout, which transformers loads, the book's,
//! or llama.cpp's file.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use atomic_file::{FileError, StagedFolder, take_back};
use checkpoint::{
    CheckpointError, GgufFormat, GgufTokens, Precision, SpecialTokens, save_book, save_gguf,
    save_hugging_face,
};
use clap::{Args, ValueEnum};
use model_tokenizer::{ModelTokenizer, TOKENIZER_FILES};
use tensor_ops::Parameters;
use train::{BESIDE, CHECKPOINTS, LATEST};

use crate::failure::misused;
use crate::model::find;
use crate::numbers::count;
use crate::output::{note, print};
use crate::runs::{CONFIG, OPTIONS, TRAINING, names};

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The model: a folder in either layout, or a run
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The folder to write, or GGUF's file
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// The layout to write
    #[arg(long, value_enum, default_value = "hugging-face", visible_alias = "to")]
    layout: Layout,
    /// How numbers are written; bf16 is Hugging Face's, q8_0 is GGUF's
    #[arg(
        short = 'p',
        long,
        value_name = "P",
        value_enum,
        default_value = "f32",
        visible_alias = "dtype"
    )]
    precision: Numbers,
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
    /// One file for llama.cpp
    Gguf,
}

/// How numbers are written.
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

/// The files that a conversion writes, and those of a tokenizer and of where a model is from, which
/// would contradict a new one.
pub(crate) fn is_ours(name: &str) -> bool {
    let of_a_model = ["model.safetensors", CONFIG, TRAINING];
    let ours = of_a_model.iter();
    let mut ours = ours.chain(&SpecialTokens::FILES).chain(&TOKENIZER_FILES);
    ours.any(|known| *known == name)
}

/// What is written.
enum Written {
    HuggingFace(Precision),
    Book,
    Gguf(GgufFormat),
}

impl ConvertArgs {
    /// What the two options together say.
    fn written(&self) -> Result<Written> {
        let misused = |what: &str| misused(format!("--precision: {what}"));
        Ok(match (self.layout, self.precision) {
            (Layout::HuggingFace, Numbers::F32) => Written::HuggingFace(Precision::F32),
            (Layout::HuggingFace, Numbers::F16) => Written::HuggingFace(Precision::F16),
            (Layout::HuggingFace, Numbers::Bf16) => Written::HuggingFace(Precision::Bf16),
            (Layout::Book, Numbers::F32) => Written::Book,
            (Layout::Gguf, Numbers::F32) => Written::Gguf(GgufFormat::F32),
            (Layout::Gguf, Numbers::F16) => Written::Gguf(GgufFormat::F16),
            (Layout::Gguf, Numbers::Q8_0) => Written::Gguf(GgufFormat::Q8_0),
            (Layout::Gguf, _) => return misused("GGUF is written in f32, f16 or q8_0"),
            (Layout::Book, _) => return misused("the book's layout is f32 only"),
            (_, Numbers::Q8_0) => return misused("q8_0 is for --to gguf"),
        })
    }
}

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let (written, to) = (args.written()?, args.to.display());
    match (args.layout == Layout::Gguf, args.to.is_dir()) {
        (true, true) => bail!("{to}: expected a file to write, such as {to}/model.gguf"),
        (false, false) if args.to.exists() => {
            bail!("{to}: expected a folder to write, but it is a file")
        }
        _ => refuse_run(&args.to)?,
    }
    if !args.force {
        if args.to.is_file() {
            bail!("{to}: there is a file of this name; --force replaces it");
        }
        if let Some(name) = ours_in(&args.to)? {
            bail!("{to}: {name} of another model is in this folder; --force replaces it");
        }
    }
    let found = find(Some(&args.from))?;
    let (model, vocabulary) = (found.load()?, &found.vocabulary);
    let ends = &vocabulary.special;
    let in_folder = |save: &dyn Fn(&Path) -> Result<(), CheckpointError>| -> Result<()> {
        put(&args.to, args.force, |folder| {
            save(folder)?;
            vocabulary.save(folder)
        })?;
        if let Err(reason) = vocabulary.tokenizer() {
            note(&format!("no tokenizer was written: {reason}"));
        }
        Ok(())
    };
    match written {
        Written::HuggingFace(precision) => {
            in_folder(&|folder| save_hugging_face(&model, folder, precision, ends))
        }
        Written::Book => in_folder(&|folder| save_book(&model, folder)),
        Written::Gguf(format) => {
            let tokenizer = vocabulary.whole()?;
            let tokens = tokenizer.map(|all| gguf_tokens(all, model.config().vocab_size));
            let tokens = tokens.transpose()?.flatten();
            if tokens.is_none() {
                note("no tokenizer was written: llama.cpp has GPT-2's form of byte pairs");
            }
            Ok(save_gguf(&model, &args.to, format, tokens.as_ref(), ends)?)
        }
    }?;
    let parameters = count(model.num_parameters() as f64);
    Ok(print(format!("{parameters} parameters to {to}\n"))?)
}

/// A tokenizer's tokens for a model of so many, if it is of the form that llama.cpp knows.
fn gguf_tokens(tokenizer: &ModelTokenizer, vocab_size: usize) -> Result<Option<GgufTokens>> {
    let Some(pairs) = tokenizer.byte_pairs()? else {
        return Ok(None);
    };
    let mut tokens = GgufTokens {
        begin: pairs.begin,
        ..GgufTokens::default()
    };
    for id in 0..vocab_size.max(tokenizer.vocab_size()) as u32 {
        let (text, kind) = match pairs.tokens.get(&id) {
            Some((text, None)) => (text.clone(), 1),
            Some((text, Some(true))) => (text.clone(), 3),
            Some((text, Some(false))) => (text.clone(), 4),
            None => (format!("[PAD{id}]"), 5), // as llama.cpp's own script calls them
        };
        tokens.texts.push(text);
        tokens.kinds.push(kind);
    }
    let merges = pairs.merges.iter();
    tokens.merges = merges
        .map(|(left, right)| format!("{left} {right}"))
        .collect();
    Ok(Some(tokens))
}

/// # Errors
/// If a folder is a run, or among what a run keeps: its checkpoints, which a model in it would hide
/// or spoil.
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
    Ok(names(folder)?.into_iter().find(|name| is_ours(name)))
}

/// Makes the folder `to` what `write` fills, or puts that into it: what is not ours stays, and a
/// model that has come meanwhile unless forced.
///
/// At every moment there is the old model in it, or the new one: a folder is filled beside it and
/// the two change places.
fn put(to: &Path, force: bool, write: impl Fn(&Path) -> Result<()>) -> Result<()> {
    let before = || format!("{} is as it was", to.display());
    let beside = || {
        let staged = StagedFolder::beside(to)?;
        // What a conversion that was killed left takes room, but is no reason to fail.
        let _ = staged.remove_left_behind(is_ours);
        write(staged.path())?;
        // Of several that aren't forced one may go on.
        let _lock = match force {
            true => None,
            false => lock(to)?,
        };
        match force || holds_others(to)? {
            true => staged.replace(is_ours)?,
            false => staged.create()?, // refused if something is in it by now
        }
        Ok(take_back(to, is_ours)?)
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
        _ => {
            if !force {
                holds_others(to)?;
            }
            Err(error).with_context(before)
        }
    }
}

/// Puts a model into a folder that can't be replaced and has none, its configuration last.
fn within(to: &Path, write: impl Fn(&Path) -> Result<()>) -> Result<()> {
    let _lock = lock(to)?;
    let staged = StagedFolder::within(to)?;
    let _ = staged.remove_left_behind(is_ours);
    write(staged.path())?;
    holds_others(to)?;
    Ok(staged.move_out(CONFIG)?)
}

/// Keeps other conversions away from a folder, where there is one that can be locked.
fn lock(to: &Path) -> Result<Option<File>> {
    let Ok(folder) = File::open(to) else {
        return Ok(None);
    };
    match folder.try_lock() {
        Err(TryLockError::WouldBlock) => bail!("another conversion writes there"),
        _ => Ok(Some(folder)),
    }
}

/// Whether there is anything in a folder.
///
/// # Errors
/// If a model has come since it was seen that there is none; all is known by one look, as one may
/// come after it.
fn holds_others(folder: &Path) -> Result<bool> {
    let names = names(folder)?;
    if names.iter().any(|name| is_ours(name)) {
        let to = folder.display();
        bail!("there is a model in {to} by now; --force replaces it");
    }
    Ok(!names.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_comes_while_another_is_made_is_told_and_stays() {
        for foreign in [None, Some("notes.txt")] {
            let folder = tempfile::tempdir().unwrap();
            let to = folder.path().join("new");
            if let Some(name) = foreign {
                fs::create_dir(&to).unwrap();
                fs::write(to.join(name), "").unwrap();
            }
            let two = |staged: &Path| {
                fs::create_dir_all(&to)?;
                fs::write(to.join(CONFIG), "first")?;
                Ok(fs::write(staged.join(CONFIG), "second")?)
            };
            let error = format!("{:#}", put(&to, false, two).unwrap_err());
            let expected = format!("there is a model in {} by now; --force", to.display());
            assert!(error.starts_with(&expected), "{error}");
            assert_eq!(fs::read(to.join(CONFIG)).unwrap(), b"first");
        }
    }
}
