//! The header of a safetensors file: eight bytes of length, then JSON `{"name": {"dtype", "shape", "data_offsets"}, ...}`.
//!
//! Everything is checked before anything is allocated for a tensor: lengths against the file, shapes against offsets, offsets against each other.
//! Unlike the crate `safetensors`, it refuses a name that is there twice, and headers larger than any model of this kind needs.

use std::path::Path;

use crate::error::{CheckpointError, FormatProblem, TensorProblem, in_file, in_tensor};
use crate::header_json::read_entries;
use crate::precision::Precision;
use crate::shown::Quoted;

/// The most bytes of a header; GPT-2 XL's has 60 thousand.
pub(crate) const MOST_HEADER_BYTES: u64 = 2 << 20;

/// The key that is no tensor.
pub(crate) const METADATA: &str = "__metadata__";

/// One tensor of a file: where it is and what it is.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<u64>,
    /// Bytes from the end of the header.
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

impl Entry {
    /// The precision, if it is one that weights have.
    pub(crate) fn precision(&self) -> Option<Precision> {
        [Precision::F32, Precision::F16, Precision::Bf16]
            .into_iter()
            .find(|precision| precision.dtype() == self.dtype)
    }

    /// How many elements; the header's check has shown that they can be counted.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product::<u64>() as usize
    }
}

/// Checks the length of the header, given the file's first bytes (at most 8) and its size.
pub(crate) fn header_length(
    file: &Path,
    first: &[u8],
    file_size: u64,
) -> Result<u64, CheckpointError> {
    let problem = in_file(file);
    let foreign = || foreign_kind(first).map(FormatProblem::Foreign);
    let Ok(length) = <[u8; 8]>::try_from(first) else {
        return Err(problem(
            foreign().unwrap_or(FormatProblem::TooShort(file_size)),
        ));
    };
    let header = u64::from_le_bytes(length);
    let after = file_size.saturating_sub(8);
    // Other formats' first bytes make lengths that no header has.
    if header > after {
        return Err(problem(foreign().unwrap_or(
            FormatProblem::HeaderBeyondFile {
                header,
                file: after,
            },
        )));
    }
    if header > MOST_HEADER_BYTES {
        return Err(problem(foreign().unwrap_or(FormatProblem::HeaderTooLong {
            header,
            limit: MOST_HEADER_BYTES,
        })));
    }
    Ok(header)
}

/// What a file that is no safetensors file is, by its first bytes.
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

/// Reads and checks a header, given how many bytes of tensors follow it; the entries come sorted by name.
pub(crate) fn parse(file: &Path, header: &[u8], data: u64) -> Result<Vec<Entry>, CheckpointError> {
    let problem = in_file(file);
    let text = std::str::from_utf8(header)
        .map_err(|e| problem(FormatProblem::NotUtf8(e.valid_up_to())))?;
    let mut entries = read_entries(file, text)?;
    entries.sort_unstable_by_key(|entry| (entry.begin, entry.end));
    check_spans(file, &entries, data)?;
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    match entries.windows(2).find(|w| w[0].name == w[1].name) {
        Some(twins) => Err(problem(FormatProblem::Duplicate(Quoted::text(
            &twins[0].name,
        )))),
        None => Ok(entries),
    }
}

/// The tensors, in order of their offsets, must fill the data: no byte twice, none unused.
fn check_spans(file: &Path, entries: &[Entry], data: u64) -> Result<(), CheckpointError> {
    let mut previous_end = 0;
    for &Entry {
        ref name,
        begin,
        end,
        ..
    } in entries
    {
        let problem = if begin < previous_end {
            TensorProblem::Overlap {
                begin,
                previous_end,
            }
        } else if begin > previous_end {
            TensorProblem::Hole {
                begin,
                previous_end,
            }
        } else if end > data {
            TensorProblem::BeyondFile { end, data }
        } else {
            previous_end = end;
            continue;
        };
        return Err(in_tensor(file, name)(problem));
    }
    if previous_end < data {
        return Err(in_file(file)(FormatProblem::TrailingBytes {
            tensors: previous_end,
            data,
        }));
    }
    Ok(())
}
