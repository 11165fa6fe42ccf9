//! The data of a run: a story that comes with the program, a file, standard input, or a folder, in
//! a training and a validation part.
//!
//! A folder holds `train.bin` and `val.bin` (as nanoGPT makes them), or `train.txt` and `val.txt`,
//! or texts, which are read one after the other in the order of their names.
//! What is not there to be read is an error, and never other data in its place.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use dataloader::{Corpus, DataLoader, DataLoaderConfig, DataLoaderError, train_validation_split};
use gpt::Memory;
use tokenizer::ENDOFTEXT;

use super::options::TrainOptions;
use crate::ids::{Given, read_given, read_text};
use crate::memory::check;
use crate::output::note;
use crate::vocabulary::{Vocabulary, folder_of};

/// "The Answering Bell", written for this project.
const STORY: &str = include_str!("../../data/the-answering-bell.txt");

/// The shortest window that is chosen when a model's context is longer than the text.
const SHORTEST_WINDOW: usize = 64;

/// The data of a run in windows and batches: training shuffled and full, validation in order and
/// complete.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    /// The name that people see.
    pub(crate) name: String,
    pub(crate) train: DataLoader,
    /// None if all of it is trained on.
    pub(crate) validation: Option<DataLoader>,
}

/// A run's data as it was found.
pub(crate) struct Source {
    name: String,
    /// The folder that ids came from.
    folder: PathBuf,
    content: Content,
}

enum Content {
    Texts(Vec<Text>),
    Ids {
        train: Corpus,
        validation: Option<Corpus>,
    },
}

/// A text, and the part of its beginning that is trained on; the rest validates.
struct Text {
    place: Place,
    train_ratio: f64,
}

enum Place {
    Memory(String),
    File(PathBuf),
}

impl Source {
    /// Finds a run's data, or the story; `train_ratio` of it is trained on, unless a folder has
    /// both parts.
    pub(crate) fn read(path: Option<&Path>, train_ratio: f64) -> Result<Self> {
        let whole = |given| match given {
            Given::Text(text) => Content::of_text(text, train_ratio),
            Given::Ids(ids) => Content::of_ids(&ids, train_ratio),
        };
        let content = match path {
            None => Content::of_text(STORY.to_owned(), train_ratio),
            Some(path) if path.is_dir() => in_folder(path, train_ratio)?,
            Some(path) => {
                is_there(path)?;
                whole(read_given(path)?)
            }
        };
        let story = || "the story \"The Answering Bell\"".to_owned();
        Ok(Self {
            name: path.map_or_else(story, |path| path.display().to_string()),
            folder: path.map(folder_of).unwrap_or(Path::new("")).to_owned(),
            content,
        })
    }

    /// All of the text, with GPT-2's mark between texts, if the data is text.
    pub(crate) fn all_text(&mut self) -> Result<Option<Cow<'_, str>>> {
        let Content::Texts(texts) = &mut self.content else {
            return Ok(None);
        };
        for text in texts.iter_mut() {
            text.place = Place::Memory(text.read()?.into_owned());
        }
        let texts: Result<Vec<_>> = texts.iter().map(Text::read).collect();
        let mut texts = texts?;
        Ok(match texts.len() {
            1 => texts.pop(),
            _ => Some(texts.join(ENDOFTEXT).into()),
        })
    }

    /// The folder that ids came from, which may have their tokenizer.
    pub(crate) fn folder_of_ids(&self) -> Option<&Path> {
        matches!(self.content, Content::Ids { .. }).then_some(&self.folder)
    }

    /// The ids of both parts, each checked against the model's vocabulary.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        vocab_size: usize,
    ) -> Result<(Corpus, Option<Corpus>)> {
        let name = || self.name.clone();
        let (train, validation) = match &self.content {
            Content::Texts(texts) => encode(texts, vocabulary).with_context(name)?,
            Content::Ids { train, validation } => (train.clone(), validation.clone()),
        };
        for corpus in [Some(&train), validation.as_ref()].into_iter().flatten() {
            corpus.check_ids(vocab_size).with_context(name)?;
        }
        Ok((train, validation))
    }

    /// The windows of both parts' ids.
    ///
    /// A `context_length` that is longer than the text gets shorter windows, unless the user asked
    /// for their length; fewer windows than a batch has get a smaller batch.
    pub(crate) fn windows(
        self,
        (train, validation): (Corpus, Option<Corpus>),
        options: &mut TrainOptions,
        context_length: usize,
    ) -> Result<Data> {
        let shortest = validation.as_ref().map_or(usize::MAX, Corpus::len);
        let longest = shortest.min(train.len()).saturating_sub(1);
        let is_short = longest < context_length && longest >= 2 * SHORTEST_WINDOW;
        let max_length = *options.max_length.get_or_insert(match is_short {
            true => longest / SHORTEST_WINDOW * SHORTEST_WINDOW,
            false => context_length,
        });
        let mut config = DataLoaderConfig {
            batch_size: options.batch_size,
            max_length,
            stride: *options.stride.get_or_insert(max_length),
            shuffle: true,
            drop_last: true,
        };
        let failed = |part: &str, error: DataLoaderError| {
            let tip = match error {
                DataLoaderError::CorpusTooShort { .. } => {
                    "; a longer text or a smaller --context-length fits"
                }
                _ => "",
            };
            anyhow!("{}, {part} part: {error}{tip}", self.name)
        };
        let mut loader = DataLoader::new(&train, config);
        if let Err(DataLoaderError::BatchLargerThanDataset { windows, .. }) = loader {
            note(&format!(
                "{}: a batch has the {windows} windows that there are to train on, in place of {} (--batch-size)",
                self.name, options.batch_size
            ));
            (options.batch_size, config.batch_size) = (windows, windows);
            loader = DataLoader::new(&train, config);
        }
        let complete = DataLoaderConfig {
            shuffle: false,
            drop_last: false,
            ..config
        };
        let validation = validation.map(|corpus| {
            DataLoader::new(&corpus, complete).map_err(|error| failed("validation", error))
        });
        Ok(Data {
            train: loader.map_err(|error| failed("training", error))?,
            validation: validation.transpose()?,
            name: self.name,
        })
    }
}

impl Content {
    fn of_text(text: String, train_ratio: f64) -> Self {
        let place = Place::Memory(text);
        Self::Texts(vec![Text { place, train_ratio }])
    }

    fn of_ids(ids: &Corpus, train_ratio: f64) -> Self {
        let (train, rest) = ids.split_at((train_ratio * ids.len() as f64) as usize);
        Self::Ids {
            train,
            validation: (train_ratio < 1.0).then_some(rest),
        }
    }
}

impl Text {
    fn read(&self) -> Result<Cow<'_, str>> {
        Ok(match &self.place {
            Place::Memory(text) => text.as_str().into(),
            Place::File(path) => read_text(path, u64::MAX)?.into(),
        })
    }
}

/// The ids of texts, each encoded by itself, with the id between them that ends a text; where a
/// text is cut, nothing ends it or begins.
fn encode(texts: &[Text], vocabulary: &Vocabulary) -> Result<(Corpus, Option<Corpus>)> {
    let (end, tokenizer) = (vocabulary.special.eos.first(), vocabulary.tokenizer()?);
    let mut parts = [Vec::new(), Vec::new()];
    for text in texts {
        let all = text.read()?;
        let (train, rest) = train_validation_split(&all, text.train_ratio)?;
        let cut = [
            (train, true, rest.is_empty()),
            (rest, train.is_empty(), true),
        ];
        for (part, (text, begins, ends)) in parts.iter_mut().zip(cut) {
            if text.is_empty() {
                continue;
            }
            if begins {
                let joint = end.filter(|_| !part.is_empty() && part.last() != end);
                part.extend(joint.into_iter().chain(tokenizer.ids_before()));
            }
            part.extend(vocabulary.encode_part(text)?);
            if ends {
                part.extend(tokenizer.ids_after());
            }
        }
    }
    let [train, validation] = parts.map(Corpus::from_ids);
    let validates = texts.iter().any(|text| text.train_ratio < 1.0);
    Ok((train, validates.then_some(validation)))
}

/// The data of a folder.
fn in_folder(folder: &Path, train_ratio: f64) -> Result<Content> {
    for extension in ["bin", "npy", "txt"] {
        let find = |name: &&str| {
            let path = folder.join(name).with_extension(extension);
            is_there(&path)
                .map(|there| there.then_some(path))
                .transpose()
        };
        let Some(train) = find(&"train").transpose()? else {
            continue;
        };
        let names = ["val", "validation", "valid"];
        let validation = names.iter().find_map(find).transpose()?;
        let validation = validation.map(|path| read_given(&path)).transpose()?;
        return Ok(match (read_given(&train)?, validation) {
            (Given::Text(text), None) => Content::of_text(text, train_ratio),
            (Given::Ids(ids), None) => Content::of_ids(&ids, train_ratio),
            (Given::Text(train), Some(Given::Text(validation))) => {
                let text = |text, train_ratio| Text {
                    place: Place::Memory(text),
                    train_ratio,
                };
                Content::Texts(vec![text(train, 1.0), text(validation, 0.0)])
            }
            (Given::Ids(train), Some(Given::Ids(validation))) => Content::Ids {
                train,
                validation: Some(validation),
            },
            _ => bail!(
                "{}: expected texts or token ids, got one of each",
                folder.display()
            ),
        });
    }
    texts_in(folder, train_ratio)
}

/// The `.txt` files of a folder by name; the cut between training and validation is where
/// `train_ratio` of all bytes is.
fn texts_in(folder: &Path, train_ratio: f64) -> Result<Content> {
    let name = || folder.display().to_string();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(name)? {
        let path = entry.with_context(name)?.path();
        if path.extension() == Some(OsStr::new("txt")) && is_there(&path)? {
            let found = fs::metadata(&path).with_context(|| path.display().to_string())?;
            files.extend(found.is_file().then_some((path, found.len())));
        }
    }
    if files.is_empty() {
        bail!(
            "{}: expected train.bin and val.bin, or .txt files, found none",
            name()
        );
    }
    files.sort();
    let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    check(&Memory::new().with("the texts' tokens", &[2, bytes as usize])?).with_context(name)?;
    let (mut before, cut) = (0.0, train_ratio * bytes as f64);
    let texts = files.into_iter().map(|(path, bytes)| {
        let train_ratio = ((cut - before) / (bytes as f64).max(1.0)).clamp(0.0, 1.0);
        before += bytes as f64;
        let place = Place::File(path);
        Text { place, train_ratio }
    });
    Ok(Content::Texts(texts.collect()))
}

/// True if there is something at a path.
///
/// # Errors
/// If it is a link to nothing, or the system doesn't tell.
pub(crate) fn is_there(path: &Path) -> Result<bool> {
    let name = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        found => found.with_context(|| name.to_string())?,
    };
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let to = fs::read_link(path).unwrap_or_default();
            bail!("{name}: a link to {}, which is not there", to.display())
        }
        found => found.with_context(|| name.to_string()).map(|_| true),
    }
}
