//! Chooses the tokenizer of a new model according to `--tokenizer`.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context, Result, bail};
use atomic_file::folder_of;
use gpt::GptConfig;
use model_tokenizer::ModelTokenizer;

use super::choice::TokenizerChoice;
use super::options::TrainOptions;
use crate::model::vocabulary::{Vocabulary, folder_at, is_gpt2_size};
use crate::train::runs::model_folder;

/// Creates the vocabulary of a new model, with the tokenizer that `--tokenizer` requests. If the
/// user hasn't set this option and the data is a file of token IDs, the tokenizer is read from the
/// folder of this file. Otherwise, the default is GPT-2's tokenizer if `--vocab-size` matches it,
/// and the preset's tokenizer if not. `text` returns the training and validation data as a single
/// text, or `None` if the data consists of token IDs.
///
/// # Errors Returns an error if a tokenizer must be trained but the data consists of token IDs or
/// is too short, if a folder contains no supported tokenizer, or if `--vocab-size` is less than the
/// number of the tokenizer's tokens.
pub(crate) fn vocabulary<'t>(
    options: &TrainOptions,
    is_ids: bool,
    text: impl Fn() -> Option<Cow<'t, str>>,
) -> Result<Vocabulary> {
    use TokenizerChoice::{Bpe, Chars, Folder, Gpt2};
    let size = options.vocab_size.map(|size| size.0);
    if let (None, true, Some(file)) = (&options.tokenizer, is_ids, &options.data) {
        let size = size.unwrap_or(GptConfig::GPT2_124M.vocab_size);
        return Vocabulary::of_folder(folder_at(file), size);
    }
    let text = || {
        text().context(
            "the tokenizers chars and bpe:N are built from text, but the training data consists of token IDs",
        )
    };
    let choice = match &options.tokenizer {
        Some(choice) => choice.clone(),
        None if size.is_some_and(is_gpt2_size) => Gpt2,
        None => options.preset().tokenizer.into(),
    };
    let tokenizer = match choice {
        Gpt2 => ModelTokenizer::gpt2(),
        Chars => ModelTokenizer::train_chars(&text()?)?,
        // The user hasn't chosen a tokenizer, so the vocabulary size comes from the preset and is
        // only a maximum. If the user's text is too short to train a tokenizer with so many tokens,
        // the tokenizer gets fewer.
        Bpe(most) if options.tokenizer.is_none() => {
            ModelTokenizer::train_bpe_at_most(&text()?, most)?
        }
        Bpe(size) => ModelTokenizer::train_bpe(&text()?, size)?,
        Folder(path) => read(&path)?,
    };
    let least = tokenizer.vocab_size();
    if let Some(size) = size.filter(|&size| size < least) {
        bail!(
            "--vocab-size must be at least {least}, the number of tokens in the tokenizer's vocabulary, got {size}"
        );
    }
    Ok(Vocabulary::new(tokenizer))
}

/// Reads the tokenizer from the folder of a model, from the folder of a training run, or from a
/// folder that contains only a tokenizer.
fn read(path: &Path) -> Result<ModelTokenizer> {
    let name = path.display();
    if !path.exists() {
        bail!(
            "--tokenizer {name}: this folder doesn't exist; use gpt2, chars, bpe:N, or a folder with a tokenizer"
        );
    }
    // The tokenizer of a training run is stored in the run's latest checkpoint.
    let folder = match path.is_dir() {
        true => &model_folder(path)?,
        false => folder_of(path),
    };
    ModelTokenizer::from_folder(folder)?.with_context(|| {
        format!(
            "--tokenizer {name}: the folder must contain either tokenizer.json, or both vocab.json and merges.txt"
        )
    })
}
