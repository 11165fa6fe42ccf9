//! A corpus from and to files: UTF-8 text, and token ids as little-endian u16 (nanoGPT's `.bin`).
//!
//! Text is taken byte for byte: unlike Python's text mode, "\r\n" stays what it is, and so does a byte-order mark.

use std::fs;
use std::io::Write;
use std::path::Path;

use atomic_file::{FileError, write_atomically};
use tokenizer::{AllowedSpecial, Gpt2Tokenizer};

use crate::corpus::Corpus;
use crate::error::DataLoaderError;

impl Corpus {
    /// GPT-2's ids of a UTF-8 text file.
    ///
    /// # Errors
    /// [`DataLoaderError::NotFound`], [`PermissionDenied`](DataLoaderError::PermissionDenied),
    /// [`IsFolder`](DataLoaderError::IsFolder) or [`Io`](DataLoaderError::Io) if it can't be read;
    /// [`DataLoaderError::NotUtf8`] with the first wrong byte;
    /// [`DataLoaderError::Tokenizer`] if the text has a special token that is not allowed.
    pub fn from_text_file(
        path: impl AsRef<Path>,
        tokenizer: &Gpt2Tokenizer,
        allowed: AllowedSpecial,
    ) -> Result<Self, DataLoaderError> {
        let path = path.as_ref();
        let text = String::from_utf8(read(path)?).map_err(|error| DataLoaderError::NotUtf8 {
            path: path.to_owned(),
            position: error.utf8_error().valid_up_to(),
        })?;
        Self::from_text(&text, tokenizer, allowed)
    }

    /// The ids in a file of little-endian u16. (Which vocabulary they are of, the file doesn't say:
    /// see [`Corpus::check_ids`].)
    ///
    /// # Errors
    /// As [`Self::from_text_file`] if it can't be read;
    /// [`DataLoaderError::OddFileLength`] if the last id is cut in half.
    pub fn from_u16_file(path: impl AsRef<Path>) -> Result<Self, DataLoaderError> {
        let path = path.as_ref();
        Self::from_u16_bytes(&read(path)?).map_err(|error| match error {
            DataLoaderError::OddLength { bytes } => DataLoaderError::OddFileLength {
                path: path.to_owned(),
                bytes,
            },
            other => other,
        })
    }

    /// Writes the ids to a file of little-endian u16, which replaces an old one only when it is whole.
    ///
    /// # Errors
    /// [`DataLoaderError::IdOverU16`] before anything is written; as [`Self::from_text_file`] if it can't be written: an old file is then as it was.
    pub fn write_u16_file(&self, path: impl AsRef<Path>) -> Result<(), DataLoaderError> {
        let path = path.as_ref();
        let bytes = self.to_u16_bytes()?;
        if path.is_dir() {
            return Err(DataLoaderError::IsFolder {
                path: path.to_owned(),
            });
        }
        // A device or a pipe has nothing to protect, and must not be renamed over.
        let stream = path.metadata().is_ok_and(|found| !found.is_file());
        let written = if stream {
            fs::write(path, &bytes).map_err(FileError::at(path, "write"))
        } else {
            write_atomically(path, |out| out.write_all(&bytes))
        };
        written.map_err(DataLoaderError::io)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, DataLoaderError> {
    fs::read(path)
        .map_err(FileError::at(path, "read"))
        .map_err(DataLoaderError::io)
}
