//! A tokenizer's files: which there are, read only if they are regular and not too long, and
//! replaced whole.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use atomic_file::{FileError, read_small_file, write_atomically};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{ModelTokenizerError, invalid, other_kind};

pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const VOCABULARY: &str = "vocab.json";
pub(crate) const MERGES: &str = "merges.txt";
pub(crate) const CONFIG: &str = "tokenizer_config.json";
/// The model's own, which may name the class of its tokenizer.
pub(crate) const MODEL_CONFIG: &str = "config.json";
pub(crate) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
pub(crate) const ADDED_TOKENS: &str = "added_tokens.json";

/// The files of a tokenizer, by their names in its folder.
pub(crate) const TOKENIZER_FILES: [&str; 6] = [
    TOKENIZER,
    VOCABULARY,
    MERGES,
    CONFIG,
    SPECIAL_TOKENS,
    ADDED_TOKENS,
];

/// Unsupported tokenizer files, and their kinds.
const OTHER_KINDS: [(&str, &str); 4] = [
    ("tokenizer.model", "SentencePiece"),
    ("spiece.model", "SentencePiece"),
    ("vocab.txt", "WordPiece"),
    ("meta.pkl", "nanoGPT's, in a pickle"),
];

/// Bytes of the longest file of a tokenizer that is read: vocabularies of 200,000 tokens take some
/// 20 MB.
pub(crate) const MAX_FILE_BYTES: u64 = 64 << 20;

/// The text of each file by its name.
pub(crate) type Files = BTreeMap<&'static str, String>;

/// The files of a folder that belong to a tokenizer; none if it has no tokenizer.
pub(crate) fn read_all(folder: &Path) -> Result<Files, ModelTokenizerError> {
    let mut files = Files::new();
    for name in TOKENIZER_FILES {
        if let Some(text) = read(&folder.join(name))? {
            files.insert(name, text);
        }
    }
    Ok(files)
}

/// The file of a tokenizer that is not read, and its kind.
pub(crate) fn unread(folder: &Path) -> Option<ModelTokenizerError> {
    let mut kinds = OTHER_KINDS.iter();
    kinds.find_map(|(name, kind)| {
        let file = folder.join(name);
        file.exists().then(|| other_kind(&file, *kind))
    })
}

/// The text of a file; `None` if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>, ModelTokenizerError> {
    let bytes = match read_small_file(path, MAX_FILE_BYTES) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let position = error.utf8_error().valid_up_to();
        invalid(path, format!("not UTF-8 text from byte {position} on"))
    })?;
    Ok(Some(text))
}

/// A file's JSON.
pub(crate) fn parse<T: DeserializeOwned>(
    path: &Path,
    text: &str,
) -> Result<T, ModelTokenizerError> {
    if text.starts_with('\u{feff}') {
        let problem = "starts with a byte-order mark; save it as UTF-8 without one";
        return Err(invalid(path, problem));
    }
    // The parser's message may quote the file.
    serde_json::from_str(text)
        .map_err(|error| invalid(path, error.to_string().escape_debug().to_string()))
}

/// One value of a file's JSON.
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

/// Writes each file so that a crash at any moment leaves the old one or the new one, then deletes
/// the files of a former tokenizer.
pub(crate) fn write_all(folder: &Path, files: &Files) -> Result<(), ModelTokenizerError> {
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
