//! Reads the data of a training run and divides it into a training part and a validation part. The
//! data comes from a file, a folder or standard input. By default, it is a short story that is part
//! of the program.
//!
//! In a folder, the training part is a file called `train` or `training` (`.bin`, `.npy` or
//! `.txt`). If there is no such file, all `.txt` files are used in the order of their names. The
//! validation part is a file called `validation`, `valid`, `val` or `dev`. If there is no such
//! file, the end of the training data is used for validation instead of training. A note lists all
//! other files as skipped. A file that should be used but can't be read causes an error.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ::tokenizer::ENDOFTEXT;
use anyhow::{Context, Result, anyhow, bail};
use atomic_file::{is_file, is_system_file, names_in};
use dataloader::{Corpus, DataLoader, DataLoaderConfig, DataLoaderError, train_validation_split};
use gpt::Memory;

use super::options::TrainOptions;
use super::tokenizer;
use crate::model::ids::{Input, extension, read_input, read_text, shown};
use crate::model::vocabulary::Vocabulary;
use crate::terminal::memory::check;
use crate::terminal::output::note;
use crate::terminal::shell::{program, shell_quoted};

/// The default training text, "The Answering Bell", which was written for this project.
const STORY: &str = include_str!("../../data/the-answering-bell.txt");

/// Granularity of a shortened window, in tokens. If the training data is shorter than the model's
/// context, the window is shortened to a multiple of this length, such as 128 or 192.
const WINDOW_UNIT: usize = 64;

/// The data of a training run.
pub(crate) enum Content {
    Texts(Vec<Text>),
    Ids(Corpus, Option<Corpus>),
}

/// A text whose beginning is used for training and whose remainder is used for validation.
/// `train_ratio` is the fraction that is used for training.
pub(crate) struct Text {
    text: String,
    train_ratio: f64,
}

/// Token IDs of the data, divided into a training part and a validation part. If there is no
/// validation part, all of the data is used for training.
pub(crate) struct Tokens {
    /// Name of the data, as it is shown in messages.
    pub(crate) name: String,
    pub(crate) train: Corpus,
    validation: Option<Corpus>,
}

/// Reads the data of a training run. Returns the vocabulary of the model to be trained, and the
/// token IDs of the data. `own` is the vocabulary of the base model in the case of fine-tuning, and
/// `None` if the model is new. A new vocabulary is created if there is no base model, or if
/// `--tokenizer` is given and the base model has no tokenizer.
pub(crate) fn read(
    options: &TrainOptions,
    own: Option<Vocabulary>,
) -> Result<(Vocabulary, Tokens)> {
    let (path, train_ratio) = (options.data.as_deref(), options.train_ratio.0);
    let content = match path {
        None => Content::of(Input::Text(STORY.to_owned()), train_ratio),
        Some(folder) if folder.is_dir() => in_folder(folder, train_ratio)?,
        Some(file) => {
            let input = read_input(file)?;
            if let Input::Text(text) = &input {
                note_markup(file, text);
            }
            Content::of(input, train_ratio)
        }
    };
    let vocabulary = match own {
        Some(own) if options.tokenizer.is_none() || own.tokenizer().is_ok() => own,
        _ => {
            let is_ids = matches!(content, Content::Ids(..));
            tokenizer::vocabulary(options, is_ids, || content.text())?
        }
    };
    let story = || "the story \"The Answering Bell\"".to_owned();
    let name = path.map_or_else(story, |path| shown(path).display().to_string());
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

    /// Joins all texts into one string, separated by `<|endoftext|>`. Returns `None` if the data
    /// consists of token IDs.
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
    /// Checks that all token IDs are less than `vocab_size`.
    pub(crate) fn check_ids(&self, vocab_size: usize) -> Result<()> {
        let mut parts = std::iter::once(&self.train).chain(&self.validation);
        parts
            .try_for_each(|part| part.check_ids(vocab_size))
            .with_context(|| self.name.clone())
    }

    /// Returns the number of tokens in a window, which normally equals the context length. If the
    /// training part is too short for such a window, returns the largest multiple of
    /// [`WINDOW_UNIT`] for which it is long enough. If even two units are too long, returns the
    /// context length.
    pub(crate) fn window(&self, context_length: usize) -> usize {
        let longest = self.train.len().saturating_sub(1);
        match longest < context_length && longest >= 2 * WINDOW_UNIT {
            true => longest / WINDOW_UNIT * WINDOW_UNIT,
            false => context_length,
        }
    }

    /// Divides the training part and the validation part into batches of windows.
    ///
    /// The windows of the training part are shuffled, and all of its batches are full. If there are
    /// too few windows for a batch, the batch size is reduced. The windows of the validation part
    /// are in order, and the last batch may be smaller than the others. If the validation part is
    /// shorter than a window, its windows are shortened.
    pub(crate) fn windows(
        &self,
        mut config: DataLoaderConfig,
    ) -> Result<(DataLoader, Option<DataLoader>)> {
        let failed = |part: &str, error: DataLoaderError| {
            let tip = match error {
                DataLoaderError::CorpusTooShort { .. } => {
                    "; use a longer text or a smaller --context-length"
                }
                _ => "",
            };
            anyhow!("{}, {part} data: {error}{tip}", self.name)
        };
        let mut train = DataLoader::new(&self.train, config);
        if let Err(DataLoaderError::BatchLargerThanDataset { windows, .. }) = train {
            note(&format!(
                "{}: the training data contains only {windows} windows, so each batch has {windows} windows instead of {} (--batch-size)",
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
                "{}: the validation data ({} tokens) is too short, so it isn't used; use a smaller --train-ratio",
                self.name,
                corpus.len()
            ));
            return Ok((train, None));
        }
        if longest < config.max_length {
            note(&format!(
                "{}: the validation data ({} tokens) is short, so its windows have only {longest} tokens",
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

/// Encodes all texts and concatenates their token IDs, with one end-of-text token between
/// consecutive texts. If a text belongs partly to the training part and partly to the validation
/// part, no tokens are added at the point of division.
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
                // Exactly one end-of-text token must separate two texts. It isn't added if the
                // first text ends with this token or the second text begins with it. If both do,
                // one of the two tokens is removed.
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

/// Accepted names, without the extension, of the file that contains the training part of the data.
/// Hugging Face's library `datasets` recognizes the same names.
const TRAINING: [&str; 2] = ["train", "training"];

/// Accepted names, without the extension, of the file that contains the validation part of the
/// data.
const VALIDATION: [&str; 4] = ["validation", "valid", "val", "dev"];

/// Extensions of files with token IDs.
const IDS: [&str; 2] = ["bin", "npy"];
/// Extensions of files with text.
const TEXTS: [&str; 1] = ["txt"];

/// The files in a data folder, grouped by their purpose.
struct DataFolder {
    folder: PathBuf,
    /// Names of the files that are used for training: either a single file of token IDs, or one or
    /// more text files.
    training: Vec<OsString>,
    validation: Option<OsString>,
    skipped: Vec<OsString>,
}

impl DataFolder {
    /// Finds the files of the training part and the validation part in a folder.
    ///
    /// # Errors
    /// Returns an error if there is no training part, or if only one of the parts consists of token
    /// IDs.
    fn find(folder: &Path) -> Result<Self> {
        let mut names = names_in(folder)?;
        names.retain(|name| !is_system_file(name));
        names.sort_by(|a, b| natural_order(a.as_encoded_bytes(), b.as_encoded_bytes()));
        let (mut folders, files): (Vec<_>, Vec<_>) = names
            .into_iter()
            .partition(|name| folder.join(name).is_dir());
        folders.iter_mut().for_each(|name| name.push("/"));
        // Finds the file whose name consists of one of the `parts` and one of the `extensions`,
        // such as `train.txt`. If there are several, returns the one whose extension comes first in
        // `extensions` and, if several have this extension, the one whose name comes first in
        // `parts`.
        let find = |parts: &[&str], extensions: &[&str]| {
            let mut wanted = extensions
                .iter()
                .flat_map(|extension| parts.iter().map(move |part| format!("{part}.{extension}")));
            wanted.find_map(|name| files.iter().find(|file| file.eq_ignore_ascii_case(&name)))
        };
        let training = find(&TRAINING, &IDS).or_else(|| find(&TRAINING, &TEXTS));
        let has_ids = training.is_some_and(is_ids);
        let [same, other]: [&[&str]; 2] = if has_ids {
            [&IDS, &TEXTS]
        } else {
            [&TEXTS, &IDS]
        };
        let validation = find(&VALIDATION, same).or_else(|| find(&VALIDATION, other));
        let is_training = |file: &OsString| match training {
            Some(name) => file == name,
            None => is_text(file) && Some(file) != validation,
        };
        let validation = validation.cloned();
        let (training, rest): (Vec<_>, Vec<_>) = files.iter().cloned().partition(is_training);
        let mut skipped = rest;
        skipped.retain(|name| Some(name) != validation.as_ref());
        skipped.extend(folders);
        let name = folder.display();
        let others = [&skipped[..], validation.as_slice()].concat();
        if training.is_empty() && others.is_empty() {
            bail!(
                "{name}: the folder is empty, but it must contain train.bin, train.npy or a .txt file"
            );
        }
        if training.is_empty() {
            bail!(
                "{name}: this folder contains no train.bin, train.npy or .txt file, but only {}; to train on other files, join them{}",
                listed(&others),
                match cfg!(windows) {
                    true => " into one .txt file".to_owned(),
                    false => format!(": cat {}/* > all.txt", shell_quoted(folder)),
                }
            );
        }
        if let Some(validation) = &validation
            && is_ids(validation) != has_ids
        {
            bail!(
                "{name}: {} and {} must both contain text or both contain token IDs; to convert a text to token IDs, use {} tokenize -f TEXT -o IDS.bin",
                training[0].display(),
                validation.display(),
                program()
            );
        }
        Ok(Self {
            folder: folder.to_owned(),
            training,
            validation,
            skipped,
        })
    }

    /// Prints a note that lists the files that are used for training or validation, and the files
    /// that are skipped.
    fn note(&self) {
        let mut line = format!(
            "{}: training on {}",
            self.folder.display(),
            listed(&self.training)
        );
        if let Some(validation) = &self.validation {
            line += &format!("; validating on {}", validation.display());
        }
        if !self.skipped.is_empty() {
            line += &format!("; skipped: {}", listed(&self.skipped));
        }
        note(&line);
    }

    /// Opens the files with token IDs.
    fn ids(&self, train_ratio: f64) -> Result<Content> {
        let open = |name| Corpus::from_token_file(self.folder.join(name));
        let train = open(&self.training[0])?;
        Ok(match &self.validation {
            Some(validation) => Content::Ids(train, Some(open(validation)?)),
            None => Content::of(Input::Ids(train), train_ratio),
        })
    }

    /// Reads the files with text.
    fn texts(&self, train_ratio: f64) -> Result<Content> {
        let texts = self.training.iter().map(|name| self.text(name));
        let texts = texts.collect::<Result<Vec<String>>>()?;
        let validation = self.validation.as_ref().map(|name| self.text(name));
        let validation = validation.transpose()?;
        let bytes: usize = texts.iter().chain(&validation).map(String::len).sum();
        check(&Memory::new().with("tokens of the texts", &[2, bytes])?)
            .with_context(|| self.folder.display().to_string())?;
        // If there is no validation file, the texts are treated as one long text, which is divided
        // in two. The fraction of its bytes that is used for training is `train_ratio`.
        let train_ratio = match validation {
            Some(_) => 1.0,
            None => train_ratio,
        };
        let (mut before, cut) = (0.0, train_ratio * bytes as f64);
        let texts = texts.into_iter().map(|text| {
            let length = text.len() as f64;
            let train_ratio = ((cut - before) / length.max(1.0)).clamp(0.0, 1.0);
            before += length;
            Text { text, train_ratio }
        });
        let validation = validation.map(|text| Text {
            text,
            train_ratio: 0.0,
        });
        Ok(Content::Texts(texts.chain(validation).collect()))
    }

    /// Reads a text, and prints a note if it contains markup.
    fn text(&self, name: &OsString) -> Result<String> {
        let path = self.folder.join(name);
        // Returns an error if the path is that of a pipe. Without this check, opening the pipe to
        // read the text would block this process until another process writes to the pipe.
        is_file(&path)?;
        let text = read_text(&path, u64::MAX)?;
        note_markup(&path, &text);
        Ok(text)
    }
}

/// Returns true if a file contains token IDs, according to its extension.
fn is_ids(name: &OsString) -> bool {
    IDS.contains(&extension(Path::new(name)).as_str())
}

/// Returns true if a file contains text, according to its extension. Hidden files are excluded,
/// because editors and other programs create them for their own purposes.
fn is_text(name: &OsString) -> bool {
    let is_hidden = name.as_encoded_bytes().starts_with(b".");
    !is_hidden && extension(Path::new(name)) == TEXTS[0]
}

/// Compares two names in natural order, which compares numbers in the names by their values. For
/// example, `book2` comes before `book10`.
fn natural_order(mut a: &[u8], mut b: &[u8]) -> Ordering {
    let all = (a, b);
    let number = |name: &[u8]| name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    loop {
        let order = match (number(a), number(b)) {
            (0, _) | (_, 0) => {
                let order = a.first().cmp(&b.first());
                if a.is_empty() && b.is_empty() {
                    // The comparison has reached the end of both names without finding a
                    // difference, so the names are equal except for leading zeros in their numbers,
                    // as in `1` and `01`. To make the order unambiguous, such names are compared
                    // byte by byte.
                    return all.0.cmp(all.1);
                }
                (a, b) = (a.get(1..).unwrap_or(a), b.get(1..).unwrap_or(b));
                order
            }
            (digits, others) => {
                let (left, right);
                (left, a) = a.split_at(digits);
                (right, b) = b.split_at(others);
                let [left, right] = [left, right].map(|digits| {
                    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
                    &digits[zeros..]
                });
                (left.len(), left).cmp(&(right.len(), right))
            }
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Formats the first few names as a comma-separated list, followed by the number of remaining
/// names.
fn listed(names: &[OsString]) -> String {
    const MAX: usize = 5;
    let shown = names
        .iter()
        .take(MAX)
        .map(|name| name.display().to_string());
    let more = match names.len().saturating_sub(MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.collect::<Vec<_>>().join(", ") + &more
}

/// Prints a note if a text contains markup, such as HTML, because the model would also learn the
/// markup.
fn note_markup(path: &Path, text: &str) {
    const BEGINNINGS: [(&str, &str); 5] = [
        ("{\\rtf", "RTF"),
        ("<!doctype html", "HTML"),
        ("<html", "HTML"),
        ("<?xml", "XML"),
        ("{\"", "JSON"),
    ];
    let by_name = match extension(path).as_str() {
        "json" | "jsonl" | "ndjson" => Some("JSON"),
        "csv" | "tsv" => Some("a table"),
        "html" | "htm" => Some("HTML"),
        "xml" => Some("XML"),
        "rtf" => Some("RTF"),
        _ => None,
    };
    let begins_with = |begin: &str| {
        let head = text.trim_start().get(..begin.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(begin))
    };
    let by_beginning = BEGINNINGS.iter().find(|(begin, _)| begins_with(begin));
    if let Some(kind) = by_name.or(by_beginning.map(|(_, kind)| *kind)) {
        note(&format!(
            "{}: this is {kind}, so the model will also learn the markup; to avoid this, train on plain text",
            path.display()
        ));
    }
}

/// Reads the data in a folder.
fn in_folder(folder: &Path, train_ratio: f64) -> Result<Content> {
    let found = DataFolder::find(folder)?;
    let content = match is_ids(&found.training[0]) {
        true => found.ids(train_ratio)?,
        false => found.texts(train_ratio)?,
    };
    found.note();
    Ok(content)
}
