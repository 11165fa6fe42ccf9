//! Reads and writes the files of a tokenizer.
//!
//! Only regular files of limited size are read. Files are written atomically: if the computer
//! crashes while a file is being written, the file has either its old or its new contents
//! afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use atomic_file::{FileError, create_folder, read_small_file, write_atomically};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{ModelTokenizerError, invalid, other_kind};

pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const VOCABULARY: &str = "vocab.json";
pub(crate) const MERGES: &str = "merges.txt";
pub(crate) const CONFIG: &str = "tokenizer_config.json";
/// Name of the model's configuration file, which can contain the class of the tokenizer.
pub(crate) const MODEL_CONFIG: &str = "config.json";
pub(crate) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
pub(crate) const ADDED_TOKENS: &str = "added_tokens.json";

/// Names of all files in which a tokenizer can be stored.
pub(crate) const TOKENIZER_FILES: [&str; 6] = [
    TOKENIZER,
    VOCABULARY,
    MERGES,
    CONFIG,
    SPECIAL_TOKENS,
    ADDED_TOKENS,
];

/// Names of files from which a tokenizer of an unsupported kind can be recognized, such as the
/// vocab.txt of a WordPiece tokenizer. Each name is paired with the clause with which an error
/// message explains why the tokenizer isn't supported.
const OTHER_KINDS: [(&str, &str); 4] = [
    ("tokenizer.model", "it is a SentencePiece tokenizer"),
    ("spiece.model", "it is a SentencePiece tokenizer"),
    ("vocab.txt", "it is a WordPiece tokenizer"),
    (
        "meta.pkl",
        "it is nanoGPT's vocabulary, stored as a Python pickle",
    ),
];

/// Maximum size, in bytes, of a file that this crate reads. For comparison, a file with a
/// vocabulary of 200,000 tokens is about 20 MB in size.
pub(crate) const MAX_FILE_BYTES: u64 = 64 << 20;

/// The contents of each file, by the name of the file.
pub(crate) type Files = BTreeMap<&'static str, String>;

/// Reads all files of the tokenizer in a folder. The result is empty if the folder contains no such
/// file.
pub(crate) fn read_all(folder: &Path) -> Result<Files, ModelTokenizerError> {
    let mut files = Files::new();
    for name in TOKENIZER_FILES {
        if let Some(text) = read(&folder.join(name))? {
            files.insert(name, text);
        }
    }
    Ok(files)
}

/// Returns a [`ModelTokenizerError::OtherKind`] error if the folder contains a file from which a
/// tokenizer of an unsupported kind can be recognized, such as the tokenizer.model of
/// SentencePiece. Otherwise, returns `None`.
pub(crate) fn unread(folder: &Path) -> Option<ModelTokenizerError> {
    let mut kinds = OTHER_KINDS.iter();
    kinds.find_map(|(name, kind)| {
        let file = folder.join(name);
        file.exists().then(|| other_kind(&file, *kind))
    })
}

/// Returns the contents of a file, or `None` if the file doesn't exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>, ModelTokenizerError> {
    let bytes = match read_small_file(path, MAX_FILE_BYTES) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let position = error.utf8_error().valid_up_to();
        invalid(
            path,
            format!("the file must be UTF-8, but the byte at position {position} is invalid"),
        )
    })?;
    Ok(Some(text))
}

/// Parses the contents of a JSON file.
pub(crate) fn parse<T: DeserializeOwned>(
    path: &Path,
    text: &str,
) -> Result<T, ModelTokenizerError> {
    if text.starts_with('\u{feff}') {
        let problem = "the file begins with a byte-order mark; save it as UTF-8 without one";
        return Err(invalid(path, problem));
    }
    // The error message of the JSON parser can contain text from the file, so the message is
    // escaped.
    serde_json::from_str(text)
        .map_err(|error| invalid(path, error.to_string().escape_debug().to_string()))
}

/// Converts a JSON value that was read from a file to the type `T`. If the conversion fails, the
/// error message contains `name`, which is the name of the value in the file.
pub(crate) fn parse_value<T: DeserializeOwned>(
    path: &Path,
    name: &str,
    value: &Value,
) -> Result<T, ModelTokenizerError> {
    T::deserialize(value).map_err(|error| {
        let problem = error.to_string();
        invalid(path, format!("{name}: {}", problem.escape_debug()))
    })
}

/// Creates the folder if it doesn't exist, and writes the given files atomically. All other
/// tokenizer files in the folder are then deleted, because they belong to the tokenizer that was
/// stored there before.
pub(crate) fn write_all(folder: &Path, files: &Files) -> Result<(), ModelTokenizerError> {
    create_folder(folder)?;
    for (name, text) in files {
        write_atomically(folder.join(name), |out| out.write_all(text.as_bytes()))?;
    }
    for name in TOKENIZER_FILES
        .iter()
        .filter(|name| !files.contains_key(*name))
    {
        let path = folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FileError::at(&path, "delete")(error).into());
            }
            _ => {}
        }
    }
    Ok(())
}
