//! A corpus from and to files: UTF-8 text, and token ids as little-endian u16 (nanoGPT's `.bin`).
//!
//! Text is taken byte for byte: unlike Python's text mode, "\r\n" stays what it is, and so does a byte-order mark.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use atomic_file::{FileError, write_atomically};
use tokenizer::Encode;

use crate::corpus::Corpus;
use crate::error::DataLoaderError;
use crate::tokens::Tokens;

impl Corpus {
    /// A tokenizer's ids of a UTF-8 text file.
    ///
    /// # Errors
    /// [`DataLoaderError::NotFound`], [`PermissionDenied`](DataLoaderError::PermissionDenied),
    /// [`IsFolder`](DataLoaderError::IsFolder) or [`Io`](DataLoaderError::Io) if it can't be read;
    /// [`DataLoaderError::NotUtf8`] with the first wrong byte;
    /// [`DataLoaderError::Tokenizer`] if the tokenizer has no ids for a part of the text.
    pub fn from_text_file(
        path: impl AsRef<Path>,
        tokenizer: &impl Encode,
    ) -> Result<Self, DataLoaderError> {
        let path = path.as_ref();
        let text = String::from_utf8(read(path)?).map_err(|error| DataLoaderError::NotUtf8 {
            path: path.to_owned(),
            position: error.utf8_error().valid_up_to(),
        })?;
        Self::from_text(&text, tokenizer)
    }

    /// The ids in a file of little-endian u16. (Which vocabulary they are of, the file doesn't say:
    /// see [`Corpus::check_ids`].)
    ///
    /// They stay in the file, which must not change, and are read when they are needed.
    ///
    /// # Errors
    /// As [`Self::from_text_file`] if it can't be read;
    /// [`DataLoaderError::OddFileLength`] if the last id is cut in half.
    pub fn from_u16_file(path: impl AsRef<Path>) -> Result<Self, DataLoaderError> {
        let path = path.as_ref().to_owned();
        let (file, bytes) = open(&path)?;
        if bytes % 2 != 0 {
            return Err(DataLoaderError::OddFileLength {
                path,
                bytes: bytes as usize,
            });
        }
        Ok(Self {
            tokens: Tokens::in_file(path, file, (bytes / 2) as usize),
        })
    }

    /// Writes the ids to a file of little-endian u16, which replaces an old one only when it is whole.
    ///
    /// # Errors
    /// [`DataLoaderError::IdOverU16`] before anything is written; as [`Self::from_text_file`] if it can't be written: an old file is then as it was.
    pub fn write_u16_file(&self, path: impl AsRef<Path>) -> Result<(), DataLoaderError> {
        let path = path.as_ref();
        let bytes = u16_bytes(&self.read(..)?)?;
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

/// Ids as little-endian u16, with nothing before or after them: nanoGPT's format.
fn u16_bytes(ids: &[u32]) -> Result<Vec<u8>, DataLoaderError> {
    let mut bytes = Vec::with_capacity(2 * ids.len());
    for (position, &id) in ids.iter().enumerate() {
        let short = u16::try_from(id);
        let short = short.map_err(|_| DataLoaderError::IdOverU16 { id, position })?;
        bytes.extend(short.to_le_bytes());
    }
    Ok(bytes)
}

fn read(path: &Path) -> Result<Vec<u8>, DataLoaderError> {
    let (mut file, _) = open(path)?;
    let mut bytes = Vec::new();
    match file.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(DataLoaderError::io(FileError::at(path, "read")(error))),
    }
}

/// A file to be read, and its length in bytes. It looks before it opens: opening a pipe would wait for its other end.
fn open(path: &Path) -> Result<(File, u64), DataLoaderError> {
    let io = |error| DataLoaderError::io(FileError::at(path, "read")(error));
    let found = fs::metadata(path).map_err(io)?;
    if found.is_dir() {
        return Err(io(io::ErrorKind::IsADirectory.into()));
    }
    if !found.is_file() {
        let path = path.to_owned();
        return Err(DataLoaderError::NotAFile { path });
    }
    Ok((File::open(path).map_err(io)?, found.len()))
}
