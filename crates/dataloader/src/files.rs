//! Functions that read and write files of token IDs. The file formats are in `format.rs`.
//!
//! This crate doesn't read text files. After you have read one, you can convert its bytes to a
//! string with [`text_of`](crate::text_of).

use std::io::Write;
use std::path::Path;

use atomic_file::{FileError, create_output, open_file};

use crate::corpus::Corpus;
use crate::error::DataLoaderError;
use crate::format::Format;
use crate::tokens::Tokens;

/// Number of IDs that are converted to bytes and written to a file at a time. It limits the memory
/// that the converted bytes take up.
const IDS_PER_WRITE: usize = 1 << 20;

impl Corpus {
    /// Opens a file of token IDs. The IDs remain in the file, and each part of it is read only when
    /// it is needed.
    ///
    /// The file must have one of the following formats:
    ///
    /// - little-endian 16-bit integers without a header, as in nanoGPT's `.bin` files
    /// - llm.c's format, which begins with a header
    /// - numpy's `.npy` format, with a one-dimensional array of integers
    ///
    /// A token file in any of these formats doesn't contain the size of the vocabulary. Use
    /// [`Corpus::check_ids`] to check that all IDs in the file are less than the size of your
    /// model's vocabulary.
    ///
    /// If another process changes the contents of the file while the corpus is in use, reading the
    /// IDs returns an error. On Unix, the file can safely be replaced by renaming another file to
    /// its path, because the corpus keeps the original file open.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::Io`] if the file can't be read. Returns
    /// [`DataLoaderError::TokenFile`] if the header of the file contradicts its length, if a file
    /// without a header has an odd number of bytes, or if the contents seem to have another format,
    /// such as wider integers, text or an archive.
    pub fn from_token_file(path: impl AsRef<Path>) -> Result<Self, DataLoaderError> {
        let path = path.as_ref().to_owned();
        let (mut file, bytes) = open_file(&path)?;
        let format = Format::of(&path, &mut file, bytes)?;
        Ok(Self {
            tokens: Tokens::in_file(path, file, format)?,
        })
    }

    /// Writes the IDs to a new file as little-endian 16-bit integers, which is the format of
    /// nanoGPT's `.bin` files. If the path refers to a device or a pipe, the IDs are written
    /// directly to it.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::IdOverU16`] if an ID doesn't fit in 16 bits. In this case, no
    /// file is written. Returns [`DataLoaderError::Io`] if the file already exists or can't be
    /// written. Returns the errors of [`read`](Self::read) if the IDs of this corpus can't be read.
    pub fn write_u16_file(&self, path: impl AsRef<Path>) -> Result<(), DataLoaderError> {
        let ids = self.read(..)?;
        check_u16(&ids, 0)?;
        write_token_file(path, TokenFormat::U16, |writer| writer.push(&ids))
    }

    /// Writes the IDs to a new `.npy` file of type `uint32`, which can be loaded with `numpy.load`.
    /// If the path refers to a device or a pipe, the IDs are written directly to it.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::Io`] if the file already exists or can't be written. Returns the
    /// errors of [`read`](Self::read) if the IDs of this corpus can't be read.
    pub fn write_npy_file(&self, path: impl AsRef<Path>) -> Result<(), DataLoaderError> {
        let ids = self.read(..)?;
        write_token_file(path, TokenFormat::Npy { len: ids.len() }, |writer| {
            writer.push(&ids)
        })
    }
}

/// A file format for token IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFormat {
    /// Little-endian 16-bit integers without a header, as in nanoGPT. This format is suitable for
    /// vocabularies of up to 65,536 tokens.
    U16,
    /// numpy's `.npy` format with the type `uint32`. The number of IDs is part of the header, so it
    /// must be known before the first ID is written.
    Npy {
        /// Number of IDs that will be written.
        len: usize,
    },
}

/// A writer for a file of token IDs. The function [`write_token_file`] creates the writer and
/// passes it to a closure, which can call [`push`](Self::push) any number of times to write IDs.
pub struct TokenWriter<'o> {
    out: &'o mut dyn Write,
    path: &'o Path,
    format: TokenFormat,
    written: usize,
}

impl TokenWriter<'_> {
    /// Writes the next IDs to the file.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::IdOverU16`] if an ID doesn't fit in the format, and
    /// [`DataLoaderError::Io`] if the file can't be written.
    pub fn push(&mut self, ids: &[u32]) -> Result<(), DataLoaderError> {
        for block in ids.chunks(IDS_PER_WRITE) {
            let bytes: Vec<u8> = match self.format {
                TokenFormat::U16 => {
                    check_u16(block, self.written)?;
                    let ids = block.iter().map(|&id| id as u16);
                    ids.flat_map(u16::to_le_bytes).collect()
                }
                TokenFormat::Npy { .. } => block.iter().flat_map(|id| id.to_le_bytes()).collect(),
            };
            let written = self.out.write_all(&bytes);
            written.map_err(FileError::at(self.path, "write"))?;
            self.written += block.len();
        }
        Ok(())
    }
}

/// Checks that all token IDs fit in 16 bits before they are written in the format
/// [`TokenFormat::U16`]. `first` is the number of IDs that precede `ids` in the corpus. It is
/// needed because the error contains the position of the invalid ID in the whole corpus.
fn check_u16(ids: &[u32], first: usize) -> Result<(), DataLoaderError> {
    match ids.iter().position(|&id| u16::try_from(id).is_err()) {
        Some(i) => Err(DataLoaderError::IdOverU16 {
            id: ids[i],
            position: first + i,
        }),
        None => Ok(()),
    }
}

/// Writes token IDs to a new file. The IDs can be written in several steps, so the file can be
/// larger than the available memory.
///
/// The closure `write` receives a [`TokenWriter`] and uses it to write the IDs. The new file
/// appears at `path` only after the closure has returned without an error. If `path` refers to a
/// device or a pipe, the IDs are written directly to it.
///
/// ```
/// use dataloader::{Corpus, DataLoaderError, TokenFormat, write_token_file};
/// # let folder = std::env::temp_dir().join(format!("token-writer-{}", std::process::id()));
/// # std::fs::create_dir(&folder)?;
/// let path = folder.join("train.bin");
/// write_token_file(&path, TokenFormat::U16, |writer| {
///     for document in [[1, 2, 3], [4, 5, 6]] {
///         writer.push(&document)?; // the IDs that a tokenizer returned for one document
///     }
///     Ok::<(), DataLoaderError>(())
/// })?;
/// assert_eq!(Corpus::from_token_file(&path)?.read(..)?[..], [1, 2, 3, 4, 5, 6]);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If `write` returns an error, returns this error. Returns [`DataLoaderError::Length`] if the
/// format is [`TokenFormat::Npy`] and the number of IDs that were written differs from its `len`.
/// Returns [`FileError`] if the file already exists or can't be written. The errors of these two
/// types are converted to `E`.
pub fn write_token_file<E: From<DataLoaderError> + From<FileError>>(
    path: impl AsRef<Path>,
    format: TokenFormat,
    write: impl FnOnce(&mut TokenWriter<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let path = path.as_ref();
    create_output(path, |out| {
        let mut writer = TokenWriter {
            out,
            path,
            format,
            written: 0,
        };
        if let TokenFormat::Npy { len } = format {
            let header = writer.out.write_all(&npy_header(len));
            header.map_err(FileError::at(path, "write"))?;
        }
        write(&mut writer)?;
        match format {
            TokenFormat::Npy { len } if len != writer.written => Err(DataLoaderError::Length {
                path: path.to_owned(),
                stated: len,
                written: writer.written,
            }
            .into()),
            _ => Ok(()),
        }
    })
}

/// Returns the header of an `.npy` file with a one-dimensional array of `len` numbers of type
/// `uint32`.
fn npy_header(len: usize) -> Vec<u8> {
    const ALIGNMENT: usize = 64;
    let magic = b"\x93NUMPY\x01\x00";
    let mut header = format!("{{'descr': '<u4', 'fortran_order': False, 'shape': ({len},), }}");
    // The header of an `.npy` file ends with a line feed. Spaces are inserted before the line feed
    // so that the elements of the array, which follow the header, begin at a multiple of 64 bytes
    // in the file.
    let length = (magic.len() + 2 + header.len() + 1).next_multiple_of(ALIGNMENT);
    let blanks = length - (magic.len() + 2 + header.len() + 1);
    header += &" ".repeat(blanks);
    header.push('\n');
    let mut bytes = magic.to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes
}
