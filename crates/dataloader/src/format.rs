//! The file formats for token IDs. This crate can read the following formats:
//!
//! - 16-bit integers without a header, as in nanoGPT
//! - llm.c's header, followed by 16-bit or 32-bit integers
//! - numpy's `.npy` format with a one-dimensional array of integers
//!
//! A file without a header is rejected if its first bytes show that it doesn't contain 16-bit token
//! IDs. This check is implemented in `number_format.rs`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use atomic_file::FileFormat;

use crate::error::DataLoaderError;
use crate::number_format::{kind_of, numbers};

/// The position, number and width of the IDs in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Number of bytes before the first ID.
    pub(crate) start: u64,
    pub(crate) count: usize,
    /// Number of bytes in which the file stores each token ID: 1, 2, 4 or 8. The bytes of an ID are
    /// in little-endian order.
    pub(crate) width: usize,
    pub(crate) signed: bool,
}

/// Number of bytes at the beginning of a file that are examined to recognize its format.
const HEAD: u64 = 1 << 18;

/// Formats of llm.c's token files. Each entry contains a magic number, with which the file begins,
/// and the number of bytes per ID. The first entry is for the token IDs of GPT-2, and the second
/// one is for the token IDs of Llama 3.
const LLM_C: [(u32, usize); 2] = [(20_240_520, 2), (20_240_801, 4)];

/// Number of bytes in the header of a token file in the format of Karpathy's llm.c. The header
/// consists of 256 32-bit integers, of which the third is the number of token IDs in the file.
const LLM_C_HEADER: u64 = 1024;

/// The first bytes of an `.npy` file.
const NUMPY: &[u8] = b"\x93NUMPY";

impl Format {
    /// Recognizes the format of a file from its first bytes. `bytes` is the length of the file in
    /// bytes, and `path` is used only in error messages.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::Io`] if the file can't be read. Returns
    /// [`DataLoaderError::TokenFile`] if the header of the file contradicts its length, or if the
    /// file contains something other than token IDs.
    pub(crate) fn of(path: &Path, file: &mut File, bytes: u64) -> Result<Self, DataLoaderError> {
        let mut head = Vec::new();
        let read = file.take(HEAD).read_to_end(&mut head);
        read.map_err(DataLoaderError::read(path))?;
        let wrong = |problem: String| DataLoaderError::TokenFile {
            path: path.to_owned(),
            problem,
        };
        if head.starts_with(NUMPY) {
            return Self::of_numpy(&head, bytes).map_err(wrong);
        }
        let words: Vec<u32> = numbers(&head, 4).map(|word| word as u32).take(3).collect();
        let of_llm_c = LLM_C.iter().find(|(magic, _)| words.first() == Some(magic));
        if let Some(&(_, width)) = of_llm_c
            && bytes >= LLM_C_HEADER
            && words[1] > 0
        {
            let count = u64::from(words[2]);
            let declared = count * width as u64 + LLM_C_HEADER;
            return match declared == bytes {
                true => Ok(Self {
                    start: LLM_C_HEADER,
                    count: count as usize,
                    width,
                    signed: false,
                }),
                false => Err(wrong(format!(
                    "the file's llm.c header declares {count} tokens, so the file should have {declared} bytes, but it has {bytes}"
                ))),
            };
        }
        let known = FileFormat::of(&head).map(|format| format.to_string());
        if let Some(kind) = known.or_else(|| kind_of(&head).map(str::to_owned)) {
            return Err(wrong(format!(
                "this file looks like {kind}, but token IDs must be stored in a .npy file or as raw 16-bit integers (.astype(np.uint16).tofile(path) in NumPy)"
            )));
        }
        if !bytes.is_multiple_of(2) {
            return Err(wrong(format!(
                "the file has {bytes} bytes, but the number of bytes must be even, because each token ID takes 2 bytes"
            )));
        }
        Ok(Self {
            start: 0,
            count: (bytes / 2) as usize,
            width: 2,
            signed: false,
        })
    }

    /// Reads the header of an `.npy` file. It consists of the bytes `\x93NUMPY`, the version, the
    /// length of a Python dictionary, and the dictionary as text. The elements of the array follow
    /// the header.
    fn of_numpy(head: &[u8], bytes: u64) -> Result<Self, String> {
        let cut = || "the file ends in the middle of its NumPy header".to_owned();
        // An `.npy` file stores the length of the dictionary in its header in two bytes if the file
        // has version 1 of the format, and in four bytes if it has a later version.
        let long = head.get(6).ok_or_else(cut)? > &1;
        let start = if long { 12 } else { 10 };
        let length = numbers(head.get(8..start).ok_or_else(cut)?, start - 8).next();
        let length = length.ok_or_else(cut)? as usize;
        let header = head
            .get(start..start.saturating_add(length))
            .ok_or_else(cut)?;
        let header = String::from_utf8_lossy(header);
        let value = |key: &str| {
            let (_, rest) = header.split_once(&format!("'{key}':"))?;
            Some(rest.trim_start())
        };
        let kind = value("descr").and_then(|rest| rest.strip_prefix('\'')?.split('\'').next());
        let kind =
            kind.ok_or("the NumPy header doesn't contain the data type of the array (descr)")?;
        let (width, signed) = match kind {
            "|u1" => (1, false),
            "|i1" => (1, true),
            "<u2" => (2, false),
            "<i2" => (2, true),
            "<u4" => (4, false),
            "<i4" => (4, true),
            "<u8" => (8, false),
            "<i8" => (8, true),
            _ => {
                return Err(format!(
                    "the array has the data type {kind:?}, but token IDs must be little-endian integers; convert it with .astype(np.uint16)"
                ));
            }
        };
        let shape = value("shape").and_then(|rest| rest.strip_prefix('(')?.split(')').next());
        let sizes = shape
            .ok_or("the NumPy header doesn't contain the shape of the array")?
            .split(',');
        let sizes = sizes.map(str::trim).filter(|size| !size.is_empty());
        let sizes: Option<Vec<u64>> = sizes.map(|size| size.parse().ok()).collect();
        match sizes.as_deref() {
            Some(&[count])
                if count
                    .checked_mul(width)
                    .and_then(|ids| ids.checked_add((start + length) as u64))
                    == Some(bytes) =>
            {
                Ok(Self {
                    start: (start + length) as u64,
                    count: count as usize,
                    width: width as usize,
                    signed,
                })
            }
            Some([count]) => Err(format!(
                "the NumPy header describes an array of {count} numbers of {width} bytes each, which doesn't match the file size of {bytes} bytes"
            )),
            _ => Err("the array must have one dimension; convert it with .reshape(-1)".to_owned()),
        }
    }

    /// Converts bytes of a file to token IDs. If one of the numbers is negative or greater than
    /// `u32::MAX`, returns this number as the error.
    pub(crate) fn ids(self, bytes: &[u8]) -> Result<Vec<u32>, i128> {
        if (self.width, self.signed) == (2, false) {
            let (pairs, _) = bytes.as_chunks::<2>();
            return Ok(pairs
                .iter()
                .map(|&pair| u16::from_le_bytes(pair).into())
                .collect());
        }
        let unused = 64 - 8 * self.width;
        let ids = numbers(bytes, self.width).map(|number| match self.signed {
            true => i128::from((number << unused).cast_signed() >> unused),
            false => i128::from(number),
        });
        ids.map(|id| u32::try_from(id).map_err(|_| id)).collect()
    }
}
