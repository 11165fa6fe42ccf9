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

/// Number of IDs that are converted to bytes and written at a time.
const IDS_PER_WRITE: usize = 1 << 20;

impl Corpus {
    /// Opens a file of token IDs. The IDs remain in the file and are read when they are needed.
    ///
    /// The file must have one of the following formats:
    ///
    /// - little-endian 16-bit integers without a header, as in nanoGPT's `.bin` files
    /// - llm.c's format, which begins with a header
    /// - numpy's `.npy` format, with a one-dimensional array of integers
    ///
    /// None of these formats stores the size of the vocabulary. Use [`Corpus::check_ids`] to check
    /// that all IDs are less than the size of your model's vocabulary.
    ///
    /// If another process changes the contents of the open file, reading the IDs returns an error.
    /// On Unix, another file may be renamed to this path, because the corpus keeps the original
    /// file open.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::Io`] if the file can't be read. Returns
    /// [`DataLoaderError::TokenFile`] if a header contradicts the length of the file, if a file
    /// without a header has an odd number of bytes, or if the bytes look like another format, such
    /// as wider integers, text or an archive.
    pub fn from_token_file(path: impl AsRef<Path>) -> Result<Self, DataLoaderError> {
        let path = path.as_ref().to_owned();
        let (mut file, bytes) = open_file(&path)?;
        let format = Format::of(&path, &mut file, bytes)?;
        Ok(Self {
            tokens: Tokens::in_file(path, file, format)?,
        })
    }

    /// Writes the IDs to a new file of little-endian 16-bit integers, the format of nanoGPT's
    /// `.bin` files. If the path leads to a device or a pipe, the IDs are written to it directly.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::IdOverU16`] if an ID doesn't fit in 16 bits. In this case,
    /// nothing is written. Returns [`DataLoaderError::Io`] if the file already exists or can't be
    /// written, and the errors of [`read`](Self::read) if the IDs can't be read.
    pub fn write_u16_file(&self, path: impl AsRef<Path>) -> Result<(), DataLoaderError> {
        let ids = self.read(..)?;
        check_u16(&ids, 0)?;
        write_token_file(path, TokenFormat::U16, |writer| writer.push(&ids))
    }

    /// Writes the IDs to a new `.npy` file of type `uint32`, which `numpy.load` can read. If the
    /// path leads to a device or a pipe, the IDs are written to it directly.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::Io`] if the file already exists or can't be written, and the
    /// errors of [`read`](Self::read) if the IDs can't be read.
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

/// A writer that [`write_token_file`] passes to its closure. The closure calls [`push`](Self::push)
/// to write the IDs in parts.
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

/// Checks that all IDs fit in 16 bits. `first` is the position of `ids[0]` in the corpus, which is
/// needed to compute the position in the error.
fn check_u16(ids: &[u32], first: usize) -> Result<(), DataLoaderError> {
    match ids.iter().position(|&id| u16::try_from(id).is_err()) {
        Some(i) => Err(DataLoaderError::IdOverU16 {
            id: ids[i],
            position: first + i,
        }),
        None => Ok(()),
    }
}

/// Writes token IDs to a new file in parts, so that the corpus can be larger than the available
/// memory.
///
/// The closure `write` receives a [`TokenWriter`] and pushes the IDs to it. The file doesn't appear
/// under its name until the closure has returned without an error. If the path leads to a device or
/// a pipe, the IDs are written to it directly.
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
/// number of IDs differs from the number in [`TokenFormat::Npy`], and [`FileError`] if the file
/// already exists or can't be written. These two errors are converted to `E`.
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
    // The header ends with a line feed. It is padded with spaces, so that the array after it begins
    // at an offset that is a multiple of 64 bytes.
    let length = (magic.len() + 2 + header.len() + 1).next_multiple_of(ALIGNMENT);
    let blanks = length - (magic.len() + 2 + header.len() + 1);
    header += &" ".repeat(blanks);
    header.push('\n');
    let mut bytes = magic.to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes
}
