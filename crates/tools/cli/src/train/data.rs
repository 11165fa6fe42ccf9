//! The texts of a run: a story that comes with the program, a file, or a folder, in a training and
//! a validation part.
//!
//! A folder holds `train.bin` and `val.bin` (as nanoGPT makes them), or `train.txt` and `val.txt`,
//! or texts that are joined in the order of their names.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use dataloader::{Corpus, DataLoader, DataLoaderConfig, DataLoaderError, train_validation_split};
use tokenizer::ENDOFTEXT;

use super::options::TrainOptions;
use crate::ids::{Given, read_given, read_text};
use crate::vocabulary::{Vocabulary, folder_of};

/// "The Answering Bell", written for this project.
const STORY: &str = include_str!("../../data/the-answering-bell.txt");

/// The shortest window that is chosen when a model's context is longer than the text.
const SHORTEST_WINDOW: usize = 64;

/// What a run reads.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    /// Where it came from, for people.
    pub(crate) name: String,
    pub(crate) train: Corpus,
    /// None if all of it is trained on.
    pub(crate) validation: Option<Corpus>,
}

/// A run's data as it was found.
#[derive(Clone)]
pub(crate) struct Source {
    name: String,
    parts: Parts,
}

#[derive(Clone)]
enum Parts {
    Text {
        text: String,
        /// Where the validation part begins, if there is one.
        validation_at: Option<usize>,
    },
    Ids {
        train: Corpus,
        validation: Option<Corpus>,
        /// Where they came from.
        folder: PathBuf,
    },
}

impl Source {
    /// Reads a run's data, or the story.
    pub(crate) fn read(path: Option<&Path>, train_ratio: f64) -> Result<Self> {
        match path {
            None => {
                let name = "the story \"The Answering Bell\"".to_owned();
                from_text(name, STORY.to_owned(), train_ratio)
            }
            Some(path) if path.is_dir() => from_folder(path, train_ratio),
            Some(path) => from_file(path, train_ratio),
        }
    }

    /// All of the text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.parts {
            Parts::Text { text, .. } => Some(text),
            Parts::Ids { .. } => None,
        }
    }

    /// The folder that ids came from, which may have their tokenizer.
    pub(crate) fn folder_of_ids(&self) -> Option<&Path> {
        match &self.parts {
            Parts::Text { .. } => None,
            Parts::Ids { folder, .. } => Some(folder),
        }
    }

    /// The ids of both parts, each checked against the model's vocabulary.
    pub(crate) fn encode(self, vocabulary: &Vocabulary, vocab_size: usize) -> Result<Data> {
        let name = self.name;
        let (train, validation) = match self.parts {
            Parts::Text {
                text,
                validation_at,
            } => {
                let corpus = |text: &str| -> Result<Corpus> {
                    let ids = vocabulary.encode(text).with_context(|| name.clone())?;
                    Ok(Corpus::from_ids(ids))
                };
                let train = corpus(&text[..validation_at.unwrap_or(text.len())])?;
                let validation = validation_at.map(|at| corpus(&text[at..])).transpose()?;
                (train, validation)
            }
            Parts::Ids {
                train, validation, ..
            } => (train, validation),
        };
        for corpus in [Some(&train), validation.as_ref()].into_iter().flatten() {
            corpus.check_ids(vocab_size).with_context(|| name.clone())?;
        }
        Ok(Data {
            name,
            train,
            validation,
        })
    }
}

fn from_text(name: String, text: String, train_ratio: f64) -> Result<Source> {
    let (train, _) = train_validation_split(&text, train_ratio)?;
    let parts = Parts::Text {
        validation_at: (train_ratio < 1.0).then(|| outside_of_mark(&text, train.len())),
        text,
    };
    Ok(Source { name, parts })
}

/// A cut inside the mark between two texts goes before it, for half a mark is no token.
fn outside_of_mark(text: &str, cut: usize) -> usize {
    let mut starts = (1..ENDOFTEXT.len()).filter_map(|within| cut.checked_sub(within));
    let is_mark = |&start: &usize| {
        let rest = text.get(start..);
        rest.is_some_and(|rest| rest.starts_with(ENDOFTEXT))
    };
    starts.find(is_mark).unwrap_or(cut)
}

fn from_file(path: &Path, train_ratio: f64) -> Result<Source> {
    let name = path.display().to_string();
    match read_given(path)? {
        Given::Text(text) => from_text(name, text, train_ratio),
        Given::Ids(ids) => {
            let (train, validation) = ids.split_at((train_ratio * ids.len() as f64) as usize);
            let parts = Parts::Ids {
                train,
                validation: (train_ratio < 1.0).then_some(validation),
                folder: folder_of(path).to_owned(),
            };
            Ok(Source { name, parts })
        }
    }
}

fn from_folder(folder: &Path, train_ratio: f64) -> Result<Source> {
    let name = folder.display().to_string();
    for extension in ["bin", "npy", "txt"] {
        let train = folder.join("train").with_extension(extension);
        if !train.is_file() {
            continue;
        }
        let names = ["val", "validation", "valid"];
        let mut candidates = names
            .map(|name| folder.join(name).with_extension(extension))
            .into_iter();
        let Some(validation) = candidates.find(|path| path.is_file()) else {
            return from_file(&train, train_ratio);
        };
        let parts = match (read_given(&train)?, read_given(&validation)?) {
            (Given::Text(train), Given::Text(validation)) => Parts::Text {
                validation_at: Some(train.len()),
                text: train + &validation,
            },
            (Given::Ids(train), Given::Ids(validation)) => Parts::Ids {
                train,
                validation: Some(validation),
                folder: folder.to_owned(),
            },
            _ => unreachable!("both files have one extension"),
        };
        return Ok(Source { name, parts });
    }
    let texts = texts_in(folder)?;
    if texts.is_empty() {
        bail!("{name}: expected train.bin and val.bin, or .txt files, found none");
    }
    let texts: Result<Vec<String>> = texts.iter().map(|path| read_text(path, u64::MAX)).collect();
    from_text(name, texts?.join(ENDOFTEXT), train_ratio)
}

/// The `.txt` files of a folder by name.
fn texts_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        if path.extension() == Some(OsStr::new("txt")) && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The loaders of both parts.
#[derive(Clone, Debug)]
pub(crate) struct Loaders {
    pub(crate) train: DataLoader,
    pub(crate) validation: Option<DataLoader>,
}

/// Windows of both parts, in batches: training shuffled and full, validation in order and complete.
///
/// A `context_length` that is longer than the text gets shorter windows, unless the user asked for
/// their length.
pub(crate) fn loaders(
    data: &Data,
    options: &TrainOptions,
    context_length: usize,
) -> Result<Loaders> {
    let validation = data.validation.as_ref();
    let shortest = validation.map_or(usize::MAX, |corpus| corpus.len());
    let longest = shortest.min(data.train.len()).saturating_sub(1);
    let max_length = options.data.max_length.unwrap_or({
        match longest < context_length && longest >= 2 * SHORTEST_WINDOW {
            true => longest / SHORTEST_WINDOW * SHORTEST_WINDOW,
            false => context_length,
        }
    });
    let loader = |part: &str, corpus: &Corpus, training: bool| -> Result<DataLoader> {
        let config = DataLoaderConfig {
            batch_size: options.training.batch_size,
            max_length,
            stride: options.data.stride.unwrap_or(max_length),
            shuffle: training,
            drop_last: training,
        };
        DataLoader::new(corpus, config).map_err(|error| {
            let tip = match error {
                DataLoaderError::CorpusTooShort { .. } => {
                    "; a longer text or a smaller --context-length fits"
                }
                DataLoaderError::BatchLargerThanDataset { .. } => {
                    "; a smaller --batch-size or --stride fits"
                }
                _ => "",
            };
            anyhow!("{}, {part} part: {error}{tip}", data.name)
        })
    };
    let validation = validation.map(|corpus| loader("validation", corpus, false));
    Ok(Loaders {
        train: loader("training", &data.train, true)?,
        validation: validation.transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cut_leaves_half_a_mark_between_two_texts_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let texts = ["é".repeat(40), "b".repeat(40)];
        std::fs::write(folder.path().join("a.txt"), &texts[0]).unwrap();
        std::fs::write(folder.path().join("b.txt"), &texts[1]).unwrap();
        // 93 characters, with the mark between the texts.
        for characters in 0..93 {
            let ratio = (f64::from(characters) + 0.5) / 93.0;
            let source = Source::read(Some(folder.path()), ratio).unwrap();
            let Parts::Text {
                text,
                validation_at: Some(at),
            } = source.parts
            else {
                panic!("a text in two parts");
            };
            let (train, validation) = text.split_at(at);
            let marks = train.matches(ENDOFTEXT).count() + validation.matches(ENDOFTEXT).count();
            assert_eq!(marks, 1, "{train} and {validation}");
        }
    }
}
