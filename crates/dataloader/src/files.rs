//! A corpus from and to files of token ids (`format.rs` knows how they are held); a text is read by
//! the caller, and [`text_of`](crate::text_of) its bytes.

use std::path::Path;

use atomic_file::{open_file, write_output};

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
        let is_over = |id: &u32| u16::try_from(*id).is_err();
        if let Some(position) = ids.iter().position(is_over) {
            let id = ids[position];
            return Err(DataLoaderError::IdOverU16 { id, position });
        }
        // nanoGPT's format has no header and no footer.
        write(path.as_ref(), &[], &ids, |id| (id as u16).to_le_bytes())
    }

    /// Writes the ids to a new `.npy` file of `uint32`, which `numpy.load` reads; a device or a
    /// pipe is written through.
    ///
    /// # Errors
    /// [`DataLoaderError::Io`] if it can't be written, or there is a file already.
    pub fn write_npy_file(&self, path: impl AsRef<Path>) -> Result<(), DataLoaderError> {
        let ids = self.read(..)?;
        let header = npy_header(ids.len());
        write(path.as_ref(), &header, &ids, u32::to_le_bytes)
    }
}

/// Writes a header and ids, a block at a time.
fn write<const BYTES: usize>(
    path: &Path,
    header: &[u8],
    ids: &[u32],
    bytes: fn(u32) -> [u8; BYTES],
) -> Result<(), DataLoaderError> {
    Ok(write_output(path, |out| {
        out.write_all(header)?;
        let mut blocks = ids.chunks(IDS_PER_WRITE);
        blocks.try_for_each(|block| {
            let block: Vec<u8> = block.iter().flat_map(|&id| bytes(id)).collect();
            out.write_all(&block)
        })
    })?)
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
