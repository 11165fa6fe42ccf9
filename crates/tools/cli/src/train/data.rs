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

/// What a run reads, in windows and batches: training shuffled and full, validation in order and
/// complete.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    /// Where it came from, for people.
    pub(crate) name: String,
    pub(crate) train: DataLoader,
    /// None if all of it is trained on.
    pub(crate) validation: Option<DataLoader>,
}

/// A run's data as it was found.
pub(crate) struct Source {
    name: String,
    /// Where ids came from.
    folder: PathBuf,
    parts: Parts,
}

enum Parts {
    Text {
        text: String,
        /// Where the validation part begins, if there is one.
        validation_at: Option<usize>,
    },
    Ids {
        train: Corpus,
        validation: Option<Corpus>,
    },
}

impl Source {
    /// Reads a run's data, or the story.
    pub(crate) fn read(path: Option<&Path>, train_ratio: f64) -> Result<Self> {
        let Some(path) = path else {
            let name = "the story \"The Answering Bell\"".to_owned();
            let (folder, story) = (PathBuf::new(), Given::Text(STORY.to_owned()));
            let parts = parts(story, None, train_ratio)?;
            return Ok(Self {
                name,
                folder,
                parts,
            });
        };
        let (train, validation) = match path.is_dir() {
            true => in_folder(path)?,
            false => (read_given(path)?, None),
        };
        Ok(Self {
            name: path.display().to_string(),
            folder: folder_of(path).to_owned(),
            parts: parts(train, validation, train_ratio)?,
        })
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
        matches!(self.parts, Parts::Ids { .. }).then_some(&self.folder)
    }

    /// The ids of both parts, each checked against the model's vocabulary.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        vocab_size: usize,
    ) -> Result<(Corpus, Option<Corpus>)> {
        let name = || self.name.clone();
        let (train, validation) = match &self.parts {
            Parts::Text {
                text,
                validation_at,
            } => {
                let corpus = |text: &str| -> Result<Corpus> {
                    Ok(Corpus::from_ids(
                        vocabulary.encode(text).with_context(name)?,
                    ))
                };
                let (train, rest) = text.split_at(validation_at.unwrap_or(text.len()));
                let validation = validation_at.map(|_| corpus(rest)).transpose()?;
                (corpus(train)?, validation)
            }
            Parts::Ids { train, validation } => (train.clone(), validation.clone()),
        };
        for corpus in [Some(&train), validation.as_ref()].into_iter().flatten() {
            corpus.check_ids(vocab_size).with_context(name)?;
        }
        Ok((train, validation))
    }

    /// The windows of both parts' ids.
    ///
    /// A `context_length` that is longer than the text gets shorter windows, unless the user asked
    /// for their length.
    pub(crate) fn windows(
        self,
        (train, validation): (Corpus, Option<Corpus>),
        options: &TrainOptions,
        context_length: usize,
    ) -> Result<Data> {
        let shortest = validation.as_ref().map_or(usize::MAX, Corpus::len);
        let longest = shortest.min(train.len()).saturating_sub(1);
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
                anyhow!("{}, {part} part: {error}{tip}", self.name)
            })
        };
        let validation = validation.map(|corpus| loader("validation", &corpus, false));
        Ok(Data {
            train: loader("training", &train, true)?,
            validation: validation.transpose()?,
            name: self.name,
        })
    }
}

/// A training and a validation part; without one, it is cut off the end of the other.
fn parts(train: Given, validation: Option<Given>, train_ratio: f64) -> Result<Parts> {
    let is_cut = train_ratio < 1.0;
    Ok(match (train, validation) {
        (Given::Text(text), None) => {
            let (train, _) = train_validation_split(&text, train_ratio)?;
            Parts::Text {
                validation_at: is_cut.then(|| outside_of_mark(&text, train.len())),
                text,
            }
        }
        (Given::Text(train), Some(Given::Text(validation))) => Parts::Text {
            validation_at: Some(train.len()),
            text: train + &validation,
        },
        (Given::Ids(ids), None) => {
            let (train, validation) = ids.split_at((train_ratio * ids.len() as f64) as usize);
            Parts::Ids {
                train,
                validation: is_cut.then_some(validation),
            }
        }
        (Given::Ids(train), Some(Given::Ids(validation))) => Parts::Ids {
            train,
            validation: Some(validation),
        },
        _ => bail!("expected texts or token ids, got one of each"),
    })
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

/// The training part in a folder, and the validation part if that has a file of its own.
fn in_folder(folder: &Path) -> Result<(Given, Option<Given>)> {
    for extension in ["bin", "npy", "txt"] {
        let file = |name: &str| {
            let path = folder.join(name).with_extension(extension);
            path.is_file().then_some(path)
        };
        if let Some(train) = file("train") {
            let validation = ["val", "validation", "valid"].into_iter().find_map(file);
            let validation = validation.map(|path| read_given(&path)).transpose()?;
            return Ok((read_given(&train)?, validation));
        }
    }
    let texts = texts_in(folder)?;
    if texts.is_empty() {
        let name = folder.display();
        bail!("{name}: expected train.bin and val.bin, or .txt files, found none");
    }
    let texts: Result<Vec<String>> = texts.iter().map(|path| read_text(path, u64::MAX)).collect();
    Ok((Given::Text(texts?.join(ENDOFTEXT)), None))
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
