//! One safetensors file, open: its checked header, and its tensors read one at a time into the
//! caller's memory.
//!
//! The file is eight bytes of header length, a JSON header, and the tensors' bytes; the crate
//! `safetensors` says whether a header is right, and this file says of which tensor it isn't.
//! Nothing is allocated for a tensor before.
//! It maps nothing: a file that shrinks while it is read is an error, not a signal.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use atomic_file::open_file;
use ndarray::{ArrayViewMut2, Axis};
use rayon::prelude::*;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{CheckpointError, in_tensor, invalid, io as io_error};
use crate::precision::{Precision, decode, is_weight};
use crate::shown::{self, JsonProblem};

/// The most bytes of a header; GPT-2 XL's has 60 thousand.
pub(crate) const MOST_HEADER_BYTES: u64 = 2 << 20;

/// The key that is no tensor.
pub(crate) const METADATA: &str = "__metadata__";

thread_local! {
    /// Numbers and bytes that a thread reads at once and keeps, as fresh memory costs more.
    static SCRATCH: RefCell<(Vec<f32>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Numbers in a cache line.
const LINE: usize = 16;

/// Elements a thread reads, converts and checks at once, few enough for the cache.
const CHUNK: usize = 1 << 16;

/// One tensor of a file: where it is and what it is.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Its offsets are bytes from the end of the header.
    pub(crate) info: TensorInfo,
}

impl Entry {
    /// The precision, if it is one that we write.
    pub(crate) fn precision(&self) -> Option<Precision> {
        [Precision::F32, Precision::F16, Precision::Bf16]
            .into_iter()
            .find(|precision| precision.dtype() == self.info.dtype)
    }

    /// The number of elements; the header's check has shown that they can be counted.
    pub(crate) fn len(&self) -> usize {
        self.info.shape.iter().product()
    }
}

/// A safetensors file whose header has been checked.
#[derive(Debug)]
pub(crate) struct TensorFile {
    pub(crate) path: PathBuf,
    file: File,
    /// Sorted by name.
    pub(crate) entries: Vec<Entry>,
    /// The tensors' first byte.
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
        Ok(Self {
            path: path.to_owned(),
            file,
            entries: entries(path, &header, size - data_begin)?,
            data_begin,
        })
    }

    /// Reads a tensor's numbers from the element `first` on, in row-major order, as f32.
    ///
    /// # Errors
    /// If the operating system refuses, or a number is not finite.
    pub(crate) fn read(
        &self,
        entry: &Entry,
        first: usize,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let chunks = out.par_chunks_mut(CHUNK).enumerate();
        let read = chunks.map_init(Vec::new, |bytes, (i, chunk)| {
            let first = first + i * CHUNK;
            self.read_part(entry, first, chunk, bytes)?;
            self.check_finite(entry, first, chunk)
        });
        let read: Vec<Result<(), CheckpointError>> = read.collect();
        // The first in the file, whichever thread was first.
        read.into_iter().collect()
    }

    /// Reads columns of a matrix, from `first` on, as rows: `out[o][i]` is the matrix's
    /// `[i][first + o]`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn read_columns(
        &self,
        entry: &Entry,
        first: usize,
        mut out: ArrayViewMut2<'_, f32>,
    ) -> Result<(), CheckpointError> {
        /// Numbers that a task reads at once, few enough for the cache; their rows are long enough
        /// in the transpose that each of its pages is met seldom.
        const BLOCK: usize = 1 << 18;
        let (width, columns) = (out.nrows(), entry.info.shape[1]);
        let rows = (BLOCK / width).next_multiple_of(LINE);
        let blocks: Vec<_> = out.axis_chunks_iter_mut(Axis(1), rows).collect();
        let read = blocks.into_par_iter().enumerate().map(|(i, mut out)| {
            SCRATCH.with_borrow_mut(|(numbers, bytes)| {
                let len = out.ncols() * width;
                numbers.resize(len.max(numbers.len()), 0.0);
                let block = &mut numbers[..len];
                // Whole rows lie one behind the other.
                let piece = if width == columns { len } else { width };
                for (row, piece) in block.chunks_exact_mut(piece).enumerate() {
                    let first = (i * rows + row) * columns + first;
                    self.read_part(entry, first, piece, bytes)?;
                    self.check_finite(entry, first, piece)?;
                }
                transpose(block, &mut out);
                Ok(())
            })
        });
        let read: Vec<Result<(), CheckpointError>> = read.collect();
        read.into_iter().collect()
    }

    /// Checks numbers that were read from the element `first` on.
    fn check_finite(
        &self,
        entry: &Entry,
        first: usize,
        numbers: &[f32],
    ) -> Result<(), CheckpointError> {
        if all_finite(numbers) {
            return Ok(());
        }
        let place = numbers.iter().position(|x| !x.is_finite());
        let place = place.expect("one is not finite");
        Err(self.problem(entry, not_finite(first + place, numbers[place])))
    }

    /// True if two tensors of one shape have the same numbers, read a little at a time.
    pub(crate) fn read_equal(
        (self_, entry): (&Self, &Entry),
        (other, other_entry): (&Self, &Entry),
    ) -> Result<bool, CheckpointError> {
        let (mut bytes, mut left, mut right) = (Vec::new(), vec![0.0; CHUNK], vec![0.0; CHUNK]);
        for first in (0..entry.len()).step_by(CHUNK) {
            let len = CHUNK.min(entry.len() - first);
            let (left, right) = (&mut left[..len], &mut right[..len]);
            self_.read_part(entry, first, left, &mut bytes)?;
            other.read_part(other_entry, first, right, &mut bytes)?;
            if left != right {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// An error about one of this file's tensors.
    pub(crate) fn problem(&self, entry: &Entry, problem: impl Into<String>) -> CheckpointError {
        in_tensor(&self.path, &entry.name, problem)
    }

    /// Checks that a tensor has this shape, and numbers that weights may have.
    pub(crate) fn check(&self, entry: &Entry, shape: &[usize]) -> Result<(), CheckpointError> {
        if entry.info.shape != shape {
            let [found, expected] = [&entry.info.shape[..], shape].map(shown::shape);
            let problem =
                format!("the shape is {found}, but the configuration asks for {expected}");
            return Err(self.problem(entry, problem));
        }
        self.check_type(entry)
    }

    /// Checks that a tensor has numbers that weights may have.
    pub(crate) fn check_type(&self, entry: &Entry) -> Result<(), CheckpointError> {
        if is_weight(entry.info.dtype) {
            return Ok(());
        }
        let dtype = entry.info.dtype;
        let problem = format!("the dtype is {dtype}, but weights must be F64, F32, F16 or BF16");
        Err(self.problem(entry, problem))
    }

    /// Reads elements from `first` on; `bytes` is scratch.
    fn read_part(
        &self,
        entry: &Entry,
        first: usize,
        out: &mut [f32],
        bytes: &mut Vec<u8>,
    ) -> Result<(), CheckpointError> {
        let dtype = entry.info.dtype;
        let size = dtype.bitsize() / 8;
        let offset = self.data_begin + (entry.info.data_offsets.0 + first * size) as u64;
        if dtype == Precision::F32.dtype() && cfg!(target_endian = "little") {
            // The file's bytes are the array's.
            return read_exact_at(&self.file, bytemuck::cast_slice_mut(out), offset)
                .map_err(io_error(&self.path, "read"));
        }
        bytes.resize(out.len() * size, 0);
        read_exact_at(&self.file, bytes, offset).map_err(io_error(&self.path, "read"))?;
        decode(dtype, bytes, out);
        Ok(())
    }
}

/// Checks the length of the header, given the file's first bytes (at most 8) and its size.
fn header_length(file: &Path, first: &[u8], file_size: u64) -> Result<u64, CheckpointError> {
    // Other formats' first bytes make lengths that no header has.
    let refused = |problem| {
        let foreign = foreign_kind(first);
        let foreign = foreign.map(|kind| format!("this is {kind}, not a safetensors file"));
        Err(invalid(file, foreign.unwrap_or(problem)))
    };
    let Ok(length) = <[u8; 8]>::try_from(first) else {
        return refused(format!(
            "a safetensors file begins with 8 bytes of header length, but the file has {file_size} bytes"
        ));
    };
    let header = u64::from_le_bytes(length);
    let after = file_size.saturating_sub(8);
    if header > after {
        return refused(format!(
            "the header is said to have {header} bytes, but {after} bytes follow its length"
        ));
    }
    match header {
        0..=MOST_HEADER_BYTES => Ok(header),
        _ => refused(header_too_long(header)),
    }
}

/// `out[o][i] = block[i][o]`.
fn transpose(block: &[f32], out: &mut ArrayViewMut2<'_, f32>) {
    let width = out.nrows();
    let rows = out.rows_mut().into_iter();
    let rows = rows.map(|row| row.into_slice().expect("a part of a row-major row"));
    let mut rows: Vec<&mut [f32]> = rows.collect();
    for (group, outs) in rows.chunks_mut(LINE).enumerate() {
        for (band, ins) in block.chunks(LINE * width).enumerate() {
            let (first_o, first_i) = (group * LINE, band * LINE);
            if outs.len() < LINE || ins.len() < LINE * width {
                for (i, row) in ins.chunks_exact(width).enumerate() {
                    for (out, x) in outs.iter_mut().zip(&row[first_o..]) {
                        out[first_i + i] = *x;
                    }
                }
                continue;
            }
            let mut tile = [[0.0; LINE]; LINE];
            for (line, row) in tile.iter_mut().zip(ins.chunks_exact(width)) {
                line.copy_from_slice(&row[first_o..first_o + LINE]);
            }
            for (o, out) in outs.iter_mut().enumerate() {
                let out = out[first_i..].first_chunk_mut::<LINE>();
                let out = out.expect("a whole line");
                for i in 0..LINE {
                    out[i] = tile[i][o];
                }
            }
        }
    }
}

/// True if all numbers are finite; it doesn't stop at the first that isn't, so that many are
/// looked at at once.
pub(crate) fn all_finite(numbers: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let is_not = |x: &f32| x.to_bits() & EXPONENT == EXPONENT;
    !numbers.iter().fold(false, |any, x| any | is_not(x))
}

/// The problem of a header larger than any model's.
pub(crate) fn header_too_long(header: u64) -> String {
    format!("the header has {header} bytes, more than the {MOST_HEADER_BYTES} that are read")
}

/// The problem of a number that weights can't have.
pub(crate) fn not_finite(index: usize, value: f32) -> String {
    format!("element {index} is {value}, but weights must be finite")
}

/// Names a file that is no safetensors file, by its first bytes.
fn foreign_kind(first: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 15] = [
        (b"GGUF", "a GGUF file (llama.cpp)"),
        (b"ggml", "a GGML file (old llama.cpp)"),
        (b"lmgg", "a GGML file (old llama.cpp)"),
        (b"tjgg", "a GGML file (old llama.cpp)"),
        (
            b"PK\x03\x04",
            "a zip archive, as torch.save writes (.pt, .bin)",
        ),
        (
            b"\x80\x02",
            "a Python pickle, as an old torch.save writes (.pt, .bin)",
        ),
        (b"\x80\x03", "a Python pickle"),
        (b"\x80\x04", "a Python pickle"),
        (b"\x80\x05", "a Python pickle"),
        (b"\x93NUMPY", "a NumPy array"),
        (b"\x89HDF", "an HDF5 file, as Keras writes"),
        (b"\x1f\x8b", "a gzip archive"),
        (
            b"version ",
            "a Git LFS pointer, in place of the file it points to",
        ),
        (b"<", "an HTML or XML page"),
        (b"{", "a JSON file"),
    ];
    KINDS
        .iter()
        .find(|(magic, _)| first.starts_with(magic))
        .map(|(_, kind)| *kind)
}

/// Reads and checks a header, given how many bytes of tensors follow it; the entries come sorted by
/// name.
///
/// A problem of one tensor is told with its name, which the library's own errors seldom have.
fn entries(file: &Path, header: &[u8], data: u64) -> Result<Vec<Entry>, CheckpointError> {
    let in_header = |error: &dyn fmt::Display| {
        let problem = JsonProblem::new(error);
        invalid(file, format!("the header is wrong: {problem}"))
    };
    let of_tensor = |name: &str, error: &dyn fmt::Display| {
        let problem = JsonProblem::new(error);
        in_tensor(
            file,
            name,
            format!("the header's entry is wrong: {problem}"),
        )
    };
    let mut json: BTreeMap<String, Value> =
        serde_json::from_slice(header).map_err(|e| in_header(&e))?;
    if let Some(texts) = json.remove(METADATA) {
        HashMap::<String, String>::deserialize(texts).map_err(|e| of_tensor(METADATA, &e))?;
    }
    let mut tensors = Vec::with_capacity(json.len());
    for (name, value) in json {
        let info = TensorInfo::deserialize(value).map_err(|e| of_tensor(&name, &e))?;
        tensors.push((name, info));
    }
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    let wrong = |(name, info): &(String, TensorInfo)| {
        let (begin, end) = info.data_offsets;
        let mut alone = info.clone();
        alone.data_offsets = (0, end.saturating_sub(begin));
        let error = Metadata::new(None, vec![(name.clone(), alone)]).err()?;
        Some(of_tensor(name, &error))
    };
    if let Some(error) = tensors.iter().find_map(wrong) {
        return Err(error);
    }
    // What is left are holes and overlaps, in whose errors the library does name the tensor.
    let metadata = Metadata::new(None, tensors.clone()).map_err(|e| in_header(&e))?;
    let end = metadata.data_len();
    if end as u64 != data {
        let problem = format!(
            "the tensors end at byte {end} of the data, but {data} bytes follow the header"
        );
        return Err(invalid(file, problem));
    }
    tensors.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let entry = |(name, info)| Entry { name, info };
    Ok(tensors.into_iter().map(entry).collect())
}

/// Fills `out` from the file's bytes at `offset`; several threads may read one file.
#[cfg(unix)]
fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

/// Fills `out` from the file's bytes at `offset`; several threads may read one file.
#[cfg(windows)]
fn read_exact_at(file: &File, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !out.is_empty() {
        match file.seek_read(out, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                out = &mut out[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// Fills `out` from the file's bytes at `offset`; where a file has one position for all, one thread
/// reads at a time.
#[cfg(not(any(unix, windows)))]
fn read_exact_at(mut file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock();
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(out)
}
