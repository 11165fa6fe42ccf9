//! The data of a run: a story that comes with the program, a file, standard input, or a folder, in
//! a training and a validation part.
//!
//! A folder contains `train.bin` and `val.bin` (as nanoGPT makes them), or `train.txt` and
//! `val.txt`, or texts, which are read in the order of their names. A listed file that can't be
//! read is an error; other data never replaces it.

use std::borrow::Cow;
use std::path::Path;

use ::tokenizer::ENDOFTEXT;
use anyhow::{Context, Result, anyhow, bail};
use dataloader::{Corpus, DataLoader, DataLoaderConfig, DataLoaderError, train_validation_split};
use gpt::Memory;

use super::options::TrainOptions;
use super::tokenizer;
use crate::model::ids::{Input, extension, read_input, read_text};
use crate::model::vocabulary::Vocabulary;
use crate::terminal::memory::check;
use crate::terminal::output::note;
use crate::terminal::shell::shell_quoted;
use crate::train::runs::names;

/// "The Answering Bell", written for this project.
const STORY: &str = include_str!("../../data/the-answering-bell.txt");

/// The shortest window that is chosen when a model's context is longer than the text.
const SHORTEST_WINDOW: usize = 64;

/// A run's data.
pub(crate) enum Content {
    Texts(Vec<Text>),
    Ids(Corpus, Option<Corpus>),
}

/// A text, and the part of its beginning that is trained on; the rest is for validation.
pub(crate) struct Text {
    text: String,
    train_ratio: f64,
}

/// The ids of both parts; without validation all of the data is trained on.
pub(crate) struct Tokens {
    /// The data's name, as people see it.
    pub(crate) name: String,
    pub(crate) train: Corpus,
    validation: Option<Corpus>,
}

/// Reads a run's data, or the story, with the base model's vocabulary or a new one.
pub(crate) fn read(
    options: &TrainOptions,
    own: Option<Vocabulary>,
) -> Result<(Vocabulary, Tokens)> {
    let (path, train_ratio) = (options.data.as_deref(), options.train_ratio.0);
    let content = match path {
        None => Content::of(Input::Text(STORY.to_owned()), train_ratio),
        Some(folder) if folder.is_dir() => in_folder(folder, train_ratio)?,
        Some(file) => Content::of(read_input(file)?, train_ratio),
    };
    let vocabulary = match own {
        Some(own) if options.tokenizer.is_none() || own.tokenizer().is_ok() => own,
        _ => {
            let is_ids = matches!(content, Content::Ids(..));
            tokenizer::vocabulary(options, is_ids, || content.text())?
        }
    };
    let story = || "the story \"The Answering Bell\"".to_owned();
    let name = path.map_or_else(story, |path| path.display().to_string());
    let (train, validation) = match content {
        Content::Texts(texts) => encode(&texts, &vocabulary).with_context(|| name.clone())?,
        Content::Ids(train, validation) => (train, validation),
    };
    let tokens = Tokens {
        name,
        train,
        validation,
    };
    Ok((vocabulary, tokens))
}

impl Content {
    fn of(input: Input, train_ratio: f64) -> Self {
        match input {
            Input::Text(text) => Self::Texts(vec![Text { text, train_ratio }]),
            Input::Ids(ids) => {
                let (train, rest) = ids.split_at((train_ratio * ids.len() as f64) as usize);
                Self::Ids(train, (train_ratio < 1.0).then_some(rest))
            }
        }
    }

    /// All of the text, with GPT-2's mark between texts, if the data is text.
    pub(crate) fn text(&self) -> Option<Cow<'_, str>> {
        let Self::Texts(texts) = self else {
            return None;
        };
        if let [one] = &texts[..] {
            return Some(one.text.as_str().into());
        }
        let texts: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
        Some(texts.join(ENDOFTEXT).into())
    }
}

impl Tokens {
    /// Checks that a model of so many tokens has all of the ids.
    pub(crate) fn check_ids(&self, vocab_size: usize) -> Result<()> {
        let mut parts = std::iter::once(&self.train).chain(&self.validation);
        parts
            .try_for_each(|part| part.check_ids(vocab_size))
            .with_context(|| self.name.clone())
    }

    /// The length of windows for a context of so many tokens: as long, unless the training part is
    /// shorter.
    pub(crate) fn window(&self, context_length: usize) -> usize {
        let longest = self.train.len().saturating_sub(1);
        match longest < context_length && longest >= 2 * SHORTEST_WINDOW {
            true => longest / SHORTEST_WINDOW * SHORTEST_WINDOW,
            false => context_length,
        }
    }

    /// The windows of both parts in batches: training shuffled and full, validation in order and
    /// complete. Fewer windows than a batch has make a smaller batch, and a validation part that is
    /// shorter than a window has shorter windows.
    pub(crate) fn windows(
        &self,
        mut config: DataLoaderConfig,
    ) -> Result<(DataLoader, Option<DataLoader>)> {
        let failed = |part: &str, error: DataLoaderError| {
            let tip = match error {
                DataLoaderError::CorpusTooShort { .. } => {
                    "; a longer text or a smaller --context-length fits"
                }
                _ => "",
            };
            anyhow!("{}, {part} part: {error}{tip}", self.name)
        };
        let mut train = DataLoader::new(&self.train, config);
        if let Err(DataLoaderError::BatchLargerThanDataset { windows, .. }) = train {
            note(&format!(
                "{}: only {windows} windows to train on; a batch has {windows} instead of {} (--batch-size)",
                self.name, config.batch_size
            ));
            config.batch_size = windows;
            train = DataLoader::new(&self.train, config);
        }
        let train = train.map_err(|error| failed("training", error))?;
        (config.shuffle, config.drop_last) = (false, false);
        let Some(corpus) = &self.validation else {
            return Ok((train, None));
        };
        let longest = corpus.len().saturating_sub(1);
        if longest == 0 {
            note(&format!(
                "{}: the validation part has {} tokens, too few to validate on; use a smaller --train-ratio",
                self.name,
                corpus.len()
            ));
            return Ok((train, None));
        }
        if longest < config.max_length {
            note(&format!(
                "{}: the validation part has {} tokens, so its windows have {longest}",
                self.name,
                corpus.len()
            ));
            (config.max_length, config.stride) = (longest, longest);
        }
        let validation = DataLoader::new(corpus, config);
        Ok((
            train,
            Some(validation.map_err(|error| failed("validation", error))?),
        ))
    }
}

/// The ids of texts, each encoded by itself, with the id between them that ends a text; where a
/// text is cut, nothing ends it or begins.
fn encode(texts: &[Text], vocabulary: &Vocabulary) -> Result<(Corpus, Option<Corpus>)> {
    let (end, tokenizer) = (vocabulary.special.eos.first(), vocabulary.tokenizer()?);
    let mut parts = [Vec::new(), Vec::new()];
    for text in texts {
        let (train, rest) = train_validation_split(&text.text, text.train_ratio)?;
        let cut = [
            (train, true, rest.is_empty()),
            (rest, train.is_empty(), true),
        ];
        for (part, (text, begins, ends)) in parts.iter_mut().zip(cut) {
            if text.is_empty() {
                continue;
            }
            let mut ids = vocabulary.encode_part(text)?;
            if begins {
                ids.splice(0..0, tokenizer.ids_before().iter().copied());
            }
            if let (true, false, Some(end)) = (begins, part.is_empty(), end) {
                // One end token between two texts, from either of them.
                match (part.last() == Some(end), ids.first() == Some(end)) {
                    (true, true) => drop(ids.remove(0)),
                    (false, false) => part.push(*end),
                    _ => {}
                }
            }
            part.extend(ids);
            if ends {
                part.extend(tokenizer.ids_after());
            }
        }
    }
    let [train, validation] = parts.map(Corpus::from_ids);
    let validates = texts.iter().any(|text| text.train_ratio < 1.0);
    Ok((train, validates.then_some(validation)))
}

/// The first few of some names, and the number of the others.
fn listed(names: &[&String]) -> String {
    const MAX: usize = 5;
    let shown: Vec<&str> = names.iter().take(MAX).map(|name| name.as_str()).collect();
    let more = match names.len().saturating_sub(MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &more
}

/// The data of a folder.
fn in_folder(folder: &Path, train_ratio: f64) -> Result<Content> {
    let names = names(folder)?;
    let find = |part: &str, extension: &str| {
        let name = format!("{part}.{extension}");
        let found = names.iter().find(|other| other.eq_ignore_ascii_case(&name));
        found.map(|name| folder.join(name))
    };
    for extension in ["bin", "npy", "txt"] {
        let Some(train) = find("train", extension) else {
            continue;
        };
        let validation = ["val", "validation", "valid"];
        let validation = validation.iter().find_map(|part| find(part, extension));
        return Ok(match (read_input(&train)?, validation) {
            (input, None) => Content::of(input, train_ratio),
            (Input::Ids(train), Some(path)) => {
                Content::Ids(train, Some(Corpus::from_token_file(path)?))
            }
            (Input::Text(train), Some(path)) => {
                let parts = [(train, 1.0), (read_text(&path, u64::MAX)?, 0.0)];
                let parts = parts.map(|(text, train_ratio)| Text { text, train_ratio });
                Content::Texts(parts.into())
            }
        });
    }
    let is_text = |name: &&String| extension(Path::new(name)) == "txt";
    let (texts, skipped): (Vec<&String>, Vec<&String>) = names.iter().partition(is_text);
    if texts.is_empty() {
        bail!(
            "{}: no train.bin and val.bin, and no .txt file; to train on other files, join them: cat {}/* > all.txt",
            folder.display(),
            shell_quoted(folder)
        );
    }
    if !skipped.is_empty() {
        note(&format!(
            "{}: {} text files; skipped: {}",
            folder.display(),
            texts.len(),
            listed(&skipped)
        ));
    }
    let texts = texts
        .into_iter()
        .map(|name| read_text(&folder.join(name), u64::MAX));
    let texts = texts.collect::<Result<Vec<String>>>()?;
    // The cut is where `train_ratio` of all bytes is.
    let bytes: usize = texts.iter().map(String::len).sum();
    check(&Memory::new().with("the texts' tokens", &[2, bytes])?)
        .with_context(|| folder.display().to_string())?;
    let (mut before, cut) = (0.0, train_ratio * bytes as f64);
    let texts = texts.into_iter().map(|text| {
        let length = text.len() as f64;
        let train_ratio = ((cut - before) / length.max(1.0)).clamp(0.0, 1.0);
        before += length;
        Text { text, train_ratio }
    });
    Ok(Content::Texts(texts.collect()))
}
