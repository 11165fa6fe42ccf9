//! An open safetensors file. Its header has been checked, and its tensors can be read one at a time
//! into the caller's memory.
//!
//! A safetensors file consists of the length of the header (8 bytes), the header in JSON, and the
//! numbers of the tensors. This module parses each entry of the header separately, so that error
//! messages can contain the name of the tensor. Then, the crate `safetensors` checks the whole
//! header. Memory for a tensor is allocated only after this check.
//!
//! The file isn't mapped into memory. If another process truncated a mapped file, the operating
//! system would end this program with a signal. Without mapping, reading a truncated file only
//! returns an error.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use atomic_file::{FileFormat, open_file, read_exact_at};
use ndarray::{ArrayView2, ArrayViewMut2, Axis};
use rayon::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::Deserialize;
use serde_json::Value;
use tensor_ops::engine::transpose_into;

use crate::encoding::decode;
use crate::error::{CheckpointError, in_tensor, invalid, io as io_error};

/// Maximum size of a header in bytes. For comparison, the header of GPT-2 XL is about 60,000 bytes
/// long.
pub(crate) const MAX_HEADER_BYTES: u64 = 2 << 20;

/// Key in the header under which a safetensors file stores its metadata. All other keys in the
/// header are names of tensors.
pub(crate) const METADATA: &str = "__metadata__";

thread_local! {
    /// Numbers of the part of a tensor that the current thread is reading. Each thread reuses its
    /// own buffer, because allocating a new one for every read would be slower.
    static NUMBERS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    /// Bytes that the current thread has read from a file and will convert to `f32` numbers.
    static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Number of `f32` numbers in a cache line. A matrix is transposed in blocks whose number of rows
/// is a multiple of this constant, so that two threads rarely write to the same cache line.
const LINE: usize = 16;

/// Number of elements that a thread reads, converts and checks at once. This many elements fit in
/// the CPU cache.
const CHUNK: usize = 1 << 16;

/// An entry in the header of a safetensors file, which describes one tensor.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Type, shape and position of the tensor. Its position is stored as two byte offsets, which
    /// are relative to the end of the header.
    pub(crate) info: TensorInfo,
}

/// A safetensors file whose header has been checked.
#[derive(Debug)]
pub(crate) struct TensorFile {
    pub(crate) path: PathBuf,
    file: File,
    /// Tensors of the file, sorted by name.
    pub(crate) entries: Vec<Entry>,
    /// Metadata of the file, which consists of pairs of strings.
    pub(crate) metadata: BTreeMap<String, String>,
    /// Byte offset in the file at which the header ends and the data of the tensors begins. The
    /// offsets of the tensors in the header are relative to this position.
    data_begin: u64,
}

impl TensorFile {
    pub(crate) fn open(path: &Path) -> Result<Self, CheckpointError> {
        let (file, size) = open_file(path)?;
        let mut first = [0; 8];
        let first = &mut first[..size.min(8) as usize];
        read_exact_at(&file, first, 0).map_err(io_error(path, "read"))?;
        let header_bytes = header_length(path, first, size)?;
        let mut header = vec![0; header_bytes as usize];
        read_exact_at(&file, &mut header, 8).map_err(io_error(path, "read"))?;
        let data_begin = 8 + header_bytes;
        let (entries, metadata) = entries(path, &header, size - data_begin)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            entries,
            metadata,
            data_begin,
        })
    }

    /// Reads elements of a tensor in row-major order, starting with the element at index `first`,
    /// until `out` is full. All numbers are converted to `f32`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read or if one of the elements isn't finite.
    pub(crate) fn read(
        &self,
        entry: &Entry,
        first: usize,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let chunks = out.par_chunks_mut(CHUNK).enumerate();
        first_error(chunks.map(|(i, chunk)| self.read_part(entry, first + i * CHUNK, chunk)))
    }

    /// Reads columns of a matrix from the file, beginning with column `first`, and stores each
    /// column as a row of `out`. In other words, `out[o][i]` is the element `[i][first + o]` of the
    /// matrix. This method is intended for matrices that are stored transposed in the file.
    ///
    /// # Errors
    ///
    /// Returns an error under the same conditions as [`read`](Self::read).
    pub(crate) fn read_columns(
        &self,
        entry: &Entry,
        first: usize,
        mut out: ArrayViewMut2<'_, f32>,
    ) -> Result<(), CheckpointError> {
        /// Number of matrix elements that a task reads and transposes at once. This many elements
        /// fit in the CPU cache. In smaller blocks, each row of the transposed block would be so
        /// short that the threads would have to access the same memory pages many times.
        const BLOCK: usize = 1 << 18;
        let (width, columns) = (out.nrows(), entry.info.shape[1]);
        let rows = (BLOCK / width).max(1).next_multiple_of(LINE);
        let blocks: Vec<_> = out.axis_chunks_iter_mut(Axis(1), rows).collect();
        first_error(blocks.into_par_iter().enumerate().map(|(i, out)| {
            NUMBERS.with_borrow_mut(|numbers| {
                let len = out.ncols() * width;
                numbers.resize(len.max(numbers.len()), 0.0);
                let block = &mut numbers[..len];
                // Each row of the block is usually read separately, because the rows in the file
                // also contain columns that weren't requested. If all columns of the matrix are
                // requested, consecutive rows are adjacent in the file, so the whole block is read
                // at once.
                let piece = if width == columns { len } else { width };
                for (row, piece) in block.chunks_exact_mut(piece).enumerate() {
                    self.read_part(entry, (i * rows + row) * columns + first, piece)?;
                }
                let block = ArrayView2::from_shape((out.ncols(), width), &*block);
                transpose_into(&block.expect("whole rows"), out);
                Ok(())
            })
        }))
    }

    /// Returns true if two tensors of the same shape contain the same numbers. The tensors are read
    /// and compared in chunks, so little memory is needed.
    pub(crate) fn read_equal(
        (self_, entry): (&Self, &Entry),
        (other, other_entry): (&Self, &Entry),
    ) -> Result<bool, CheckpointError> {
        let (mut left, mut right) = (vec![0.0; CHUNK], vec![0.0; CHUNK]);
        let all = entry.info.shape.iter().product();
        for first in (0..all).step_by(CHUNK) {
            let len = CHUNK.min(all - first);
            self_.read_part(entry, first, &mut left[..len])?;
            other.read_part(other_entry, first, &mut right[..len])?;
            if left[..len] != right[..len] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns an error that contains the path of this file, the name of the tensor, and the
    /// description `problem`.
    pub(crate) fn problem(&self, entry: &Entry, problem: impl Into<String>) -> CheckpointError {
        in_tensor(&self.path, &entry.name, problem)
    }

    /// Checks that a tensor has the given shape and that its elements are of type F64, F32, F16 or
    /// BF16.
    pub(crate) fn check(&self, entry: &Entry, shape: &[usize]) -> Result<(), CheckpointError> {
        let TensorInfo {
            dtype,
            shape: found,
            ..
        } = &entry.info;
        let is_weight = matches!(dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16);
        let problem = match is_weight {
            _ if found != shape => other_shape(found, shape),
            true => return Ok(()),
            false => format!("the dtype is {dtype}, but weights must be F64, F32, F16 or BF16"),
        };
        Err(self.problem(entry, problem))
    }

    /// Fills `out` with elements of a tensor in the file, starting with the element at index
    /// `first`. Returns an error if the file can't be read or if one of these elements isn't
    /// finite.
    fn read_part(
        &self,
        entry: &Entry,
        first: usize,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let dtype = entry.info.dtype;
        let size = dtype.bitsize() / 8;
        let offset = self.data_begin + (entry.info.data_offsets.0 + first * size) as u64;
        let read = |bytes: &mut [u8]| {
            read_exact_at(&self.file, bytes, offset).map_err(io_error(&self.path, "read"))
        };
        if dtype == Dtype::F32 && cfg!(target_endian = "little") {
            read(bytemuck::cast_slice_mut(out))?; // The file and the array have the same bytes.
        } else {
            BYTES.with_borrow_mut(|bytes| {
                bytes.resize(out.len() * size, 0);
                read(bytes)?;
                decode(dtype, bytes, out);
                Ok::<_, CheckpointError>(())
            })?;
        }
        if all_finite(out) {
            return Ok(());
        }
        let place = out.iter().position(|x| !x.is_finite());
        let place = place.expect("one is not finite");
        Err(self.problem(entry, not_finite(first + place, out[place])))
    }
}

/// Reads all parts of a tensor in parallel and returns an error if some of them can't be read. It
/// is the error of the first of these parts in the order of `parts`, so it doesn't depend on which
/// thread finishes first.
fn first_error(
    parts: impl IndexedParallelIterator<Item = Result<(), CheckpointError>>,
) -> Result<(), CheckpointError> {
    let all: Vec<Result<(), CheckpointError>> = parts.collect();
    all.into_iter().collect()
}

/// Magic numbers of other file formats, each with the name of the format for error messages. They
/// are checked only if a file doesn't begin with a valid header length.
const FOREIGN: [(&[u8], &str); 3] = [
    (b"GGUF", "a GGUF file (llama.cpp)"),
    (b"\x80", "a Python pickle, written by an old torch.save"),
    (b"{", "a JSON file"),
];

/// Returns the length of a safetensors file's header. `first` contains the first 8 bytes of the
/// file, or all of them if the file is shorter.
fn header_length(file: &Path, first: &[u8], file_size: u64) -> Result<u64, CheckpointError> {
    if let Ok(length) = first.try_into().map(u64::from_le_bytes)
        && length <= MAX_HEADER_BYTES.min(file_size - 8)
    {
        return Ok(length);
    }
    // The file doesn't begin with a valid header length, so it isn't a safetensors file or is
    // damaged. If its first bytes are those of another file format, such as a JSON file, the error
    // message contains the name of that format.
    let mut foreign = FOREIGN.iter();
    let foreign = foreign.find_map(|(magic, name)| first.starts_with(magic).then_some(*name));
    let known = FileFormat::of(first).map(|format| format.name);
    let problem = match known.or(foreign) {
        Some(name) => format!("this is {name}, not a safetensors file"),
        None => format!(
            "this isn't a safetensors file, or it is damaged: the file has {file_size} bytes, and its first 8 bytes must contain the length of the header (at most {MAX_HEADER_BYTES}), but the file begins with \"{}\"",
            first.escape_ascii()
        ),
    };
    Err(invalid(file, problem))
}

/// Returns true if all elements of the slice are finite. The loop doesn't stop at the first
/// infinity or NaN, so that the compiler can vectorize it.
pub(crate) fn all_finite(numbers: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let is_not = |x: &f32| x.to_bits() & EXPONENT == EXPONENT;
    !numbers.iter().fold(false, |any, x| any | is_not(x))
}

/// Returns the error message for a tensor whose shape doesn't match the configuration.
pub(crate) fn other_shape(found: &[usize], expected: &[usize]) -> String {
    format!("the tensor's shape is {found:?}, but the model's configuration requires {expected:?}")
}

/// Returns the error message for a number that isn't finite.
pub(crate) fn not_finite(index: usize, value: f32) -> String {
    format!("element {index} is {value}, but weights must be finite")
}

/// Parses and checks the header of a safetensors file. `data` is the number of bytes that follow
/// the header. Returns the entries of all tensors, sorted by name, and the metadata.
fn entries(
    file: &Path,
    header: &[u8],
    data: u64,
) -> Result<(Vec<Entry>, BTreeMap<String, String>), CheckpointError> {
    let wrong = |problem: String| invalid(file, format!("the header is damaged: {problem}"));
    let mut json: BTreeMap<String, Value> =
        serde_json::from_slice(header).map_err(|e| wrong(e.to_string()))?;
    // Metadata values that aren't strings are ignored.
    let of_file = json.remove(METADATA).unwrap_or_default();
    let of_file = of_file.as_object().into_iter().flatten();
    let texts = of_file.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    let texts = texts.collect();
    let entry = |(name, value)| match TensorInfo::deserialize(&value) {
        Ok(info) => Ok(Entry { name, info }),
        Err(error) => {
            let problem = format!("the header entry for this tensor is damaged: {error}");
            Err(in_tensor(file, &name, problem))
        }
    };
    let entries = json.into_iter().map(entry);
    let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
    let tensors = entries.iter();
    let tensors = tensors.map(|entry| (entry.name.clone(), entry.info.clone()));
    let mut tensors: Vec<(String, TensorInfo)> = tensors.collect();
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    let metadata = Metadata::new(None, tensors).map_err(|e| wrong(e.to_string()))?;
    let end = metadata.data_len();
    if end as u64 != data {
        return Err(wrong(format!(
            "according to the header, the tensors take {end} bytes, but {data} bytes follow the header"
        )));
    }
    Ok((entries, texts))
}
