//! A corpus from and to files of token ids (`format.rs` knows how they are held); a text is read by
//! the caller, and [`text_of`](crate::text_of) its bytes.

use std::io::Write;
use std::path::Path;

use atomic_file::{FileError, create_output, open_file};

use crate::corpus::Corpus;
use crate::error::DataLoaderError;
use crate::format::Format;
use crate::tokens::Tokens;

/// The ids that are written at once.
const IDS_PER_WRITE: usize = 1 << 20;

impl Corpus {
    /// Reads the ids of a file: nanoGPT's bare little-endian u16, llm.c's format with its header,
    /// or numpy's `.npy` with one dimension of integers. (A file doesn't name its vocabulary: see
    /// [`Corpus::check_ids`].)
    ///
    /// They stay in the file and are read when they are needed: once it is written to, each read
    /// is an error. (A file that takes its name doesn't matter.)
    ///
    /// # Errors
    /// [`DataLoaderError::Io`] if it can't be read; [`DataLoaderError::TokenFile`] if a header
    /// contradicts the file's length, the last id is cut in half, or the bytes show another format:
    /// wider numbers, a text, an archive.
    pub fn from_token_file(path: impl AsRef<Path>) -> Result<Self, DataLoaderError> {
        let path = path.as_ref().to_owned();
        let (mut file, bytes) = open_file(&path)?;
        let format = Format::of(&path, &mut file, bytes)?;
        Ok(Self {
            tokens: Tokens::in_file(path, file, format)?,
        })
    }

    /// Writes the ids to a new file of little-endian u16; a device or a pipe is written through.
    ///
    /// # Errors
    /// [`DataLoaderError::IdOverU16`] before anything is written; [`DataLoaderError::Io`] if it
    /// can't be written, or there is a file already.
    pub fn write_u16_file(&self, path: impl AsRef<Path>) -> Result<(), DataLoaderError> {
        let ids = self.read(..)?;
        check_u16(&ids, 0)?;
        write_token_file(path, TokenFormat::U16, |writer| writer.push(&ids))
    }

    /// Writes the ids to a new `.npy` file of `uint32`, which `numpy.load` reads; a device or a
    /// pipe is written through.
    ///
    /// # Errors
    /// [`DataLoaderError::Io`] if it can't be written, or there is a file already.
    pub fn write_npy_file(&self, path: impl AsRef<Path>) -> Result<(), DataLoaderError> {
        let ids = self.read(..)?;
        write_token_file(path, TokenFormat::Npy { len: ids.len() }, |writer| {
            writer.push(&ids)
        })
    }
}

/// A format of files of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFormat {
    /// nanoGPT's bare little-endian u16, for vocabularies of at most 65,536 tokens.
    U16,
    /// numpy's `.npy` with `uint32`, whose header contains the number of ids.
    Npy {
        /// The number of ids.
        len: usize,
    },
}

/// Receives the ids of a file, piece by piece, from the closure of [`write_token_file`].
pub struct TokenWriter<'o> {
    out: &'o mut dyn Write,
    path: &'o Path,
    format: TokenFormat,
    written: usize,
}

impl TokenWriter<'_> {
    /// Writes the next ids.
    ///
    /// # Errors
    /// [`DataLoaderError::IdOverU16`] if an id doesn't fit the format; [`DataLoaderError::Io`] if
    /// the file can't be written.
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

/// Checks that ids fit 16 bits; `first` is the position of the first one in the corpus.
fn check_u16(ids: &[u32], first: usize) -> Result<(), DataLoaderError> {
    match ids.iter().position(|&id| u16::try_from(id).is_err()) {
        Some(i) => Err(DataLoaderError::IdOverU16 {
            id: ids[i],
            position: first + i,
        }),
        None => Ok(()),
    }
}

/// Writes ids to a new file piece by piece, so that a corpus may be larger than the memory.
///
/// The file appears once `write` has returned without an error; a device or a pipe is written
/// through.
///
/// ```
/// use dataloader::{Corpus, DataLoaderError, TokenFormat, write_token_file};
/// # let folder = std::env::temp_dir().join(format!("token-writer-{}", std::process::id()));
/// # std::fs::create_dir(&folder)?;
/// let path = folder.join("train.bin");
/// write_token_file(&path, TokenFormat::U16, |writer| {
///     for document in [[1, 2, 3], [4, 5, 6]] {
///         writer.push(&document)?; // each as its tokenizer gives it
///     }
///     Ok::<(), DataLoaderError>(())
/// })?;
/// assert_eq!(Corpus::from_token_file(&path)?.read(..)?[..], [1, 2, 3, 4, 5, 6]);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If `write` returns an error; [`DataLoaderError::Length`] if it has written more or fewer ids
/// than [`TokenFormat::Npy`] states; [`DataLoaderError::Io`] if the file exists already or can't be
/// written.
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

/// The beginning of numpy's `.npy` of so many `uint32` in one dimension.
fn npy_header(len: usize) -> Vec<u8> {
    const ALIGNMENT: usize = 64;
    let magic = b"\x93NUMPY\x01\x00";
    let mut header = format!("{{'descr': '<u4', 'fortran_order': False, 'shape': ({len},), }}");
    // The numbers begin at a multiple of 64 bytes; a line feed ends the header.
    let length = (magic.len() + 2 + header.len() + 1).next_multiple_of(ALIGNMENT);
    let blanks = length - (magic.len() + 2 + header.len() + 1);
    header += &" ".repeat(blanks);
    header.push('\n');
    let mut bytes = magic.to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes
}
