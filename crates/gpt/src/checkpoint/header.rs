//! The header of a safetensors file: eight bytes of length, then JSON `{"name": {"dtype", "shape", "data_offsets"}, ...}`.
//!
//! Everything is checked before anything is allocated for a tensor: lengths against the file, shapes against offsets, offsets against each other.
//! Unlike the crate `safetensors`, it refuses a name that is there twice, and headers larger than any model of this kind needs.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::error::{
    CheckpointError, FormatProblem, Quoted, Shape, TensorProblem, in_file, in_tensor,
};
use super::json::{Pairs, Whole};
use super::precision::Precision;

/// The most bytes of a header; GPT-2 XL's has 60 thousand.
pub(super) const MOST_HEADER_BYTES: u64 = 2 << 20;

/// The most dimensions of a tensor; weights have two.
const MOST_DIMENSIONS: usize = 32;

/// The key that is no tensor.
pub(super) const METADATA: &str = "__metadata__";

/// One tensor of a file: where it is and what it is.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dtype: &'static str,
    pub(super) shape: Vec<u64>,
    /// Bytes from the end of the header.
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// The types of safetensors and their bits.
const DTYPES: [(&str, u64); 20] = [
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("C64", 64),
    ("F64", 64),
    ("I64", 64),
    ("U64", 64),
];

impl Entry {
    /// The precision, if it is one that weights have.
    pub(super) fn precision(&self) -> Option<Precision> {
        [Precision::F32, Precision::F16, Precision::Bf16]
            .into_iter()
            .find(|precision| precision.dtype() == self.dtype)
    }

    /// How many elements; the header's check has shown that they can be counted.
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product::<u64>() as usize
    }
}

/// Checks the length of the header, given the file's first bytes (at most 8) and its size.
pub(super) fn header_length(
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
pub(super) fn parse(file: &Path, header: &[u8], data: u64) -> Result<Vec<Entry>, CheckpointError> {
    let problem = in_file(file);
    let text = std::str::from_utf8(header)
        .map_err(|e| problem(FormatProblem::NotUtf8(e.valid_up_to())))?;
    let mut entries = parse_json(file, text)?;
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

fn parse_json(file: &Path, text: &str) -> Result<Vec<Entry>, CheckpointError> {
    let mut refusal = None;
    let mut json = serde_json::Deserializer::from_str(text);
    let visitor = HeaderVisitor {
        file,
        refusal: &mut refusal,
    };
    let result = json
        .deserialize_map(visitor)
        .and_then(|entries| json.end().map(|()| entries));
    result.map_err(|e| refusal.unwrap_or_else(|| in_file(file)(FormatProblem::NotJson(e.into()))))
}

/// Takes the header apart entry by entry, so that the first bad one ends the work and is named.
struct HeaderVisitor<'a> {
    file: &'a Path,
    /// What was wrong, in our words: serde's errors don't know the tensor.
    refusal: &'a mut Option<CheckpointError>,
}

impl<'de> Visitor<'de> for HeaderVisitor<'_> {
    type Value = Vec<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        let mut metadata = false;
        while let Some(name) = map.next_key::<String>()? {
            let result = if name == METADATA {
                if std::mem::replace(&mut metadata, true) {
                    let twice = FormatProblem::Duplicate(Quoted::text(METADATA));
                    Err(in_file(self.file)(twice))
                } else {
                    map.next_value::<Metadata>()
                        .map(|Metadata| ())
                        .map_err(|e| in_tensor(self.file, METADATA)(entry_problem(e)))
                }
            } else {
                map.next_value_seed(EntrySeed)
                    .map_err(entry_problem)
                    .and_then(|json| json.check(name.clone()))
                    .map(|entry| entries.push(entry))
                    .map_err(in_tensor(self.file, &name))
            };
            if let Err(refusal) = result {
                *self.refusal = Some(refusal);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(entries)
    }
}

fn entry_problem(error: impl fmt::Display) -> TensorProblem {
    TensorProblem::Entry(super::error::JsonProblem::new(&error))
}

/// Texts by name, which only people read.
struct Metadata;

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Pairs::<Cow<'de, str>>::deserialize(deserializer).map(|_| Self)
    }
}

/// An entry as it stands in the header.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object of dtype, shape and data_offsets"
)]
struct EntryJson<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Sizes,
    data_offsets: (Whole, Whole),
}

/// The sizes of a shape; a header may have room for a million of them.
struct Sizes(Vec<u64>);

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizesVisitor;
        impl<'de> Visitor<'de> for SizesVisitor {
            type Value = Sizes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of at most {MOST_DIMENSIONS} sizes")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Sizes, A::Error> {
                let mut sizes = Vec::new();
                while let Some(Whole(size)) = array.next_element()? {
                    if sizes.len() == MOST_DIMENSIONS {
                        return Err(A::Error::invalid_length(sizes.len() + 1, &self));
                    }
                    sizes.push(size);
                }
                Ok(Sizes(sizes))
            }
        }
        deserializer.deserialize_seq(SizesVisitor)
    }
}

struct EntrySeed;

impl<'de> DeserializeSeed<'de> for EntrySeed {
    type Value = EntryJson<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        EntryJson::deserialize(deserializer)
    }
}

impl EntryJson<'_> {
    fn check(self, name: String) -> Result<Entry, TensorProblem> {
        let Sizes(shape) = self.shape;
        let (begin, end) = (self.data_offsets.0.0, self.data_offsets.1.0);
        let Some(&(dtype, bits)) = DTYPES.iter().find(|(dtype, _)| *dtype == self.dtype) else {
            return Err(TensorProblem::UnknownDtype(Quoted::text(&self.dtype)));
        };
        let expected = shape
            .iter()
            .try_fold(1u64, |len, &size| len.checked_mul(size))
            .and_then(|len| len.checked_mul(bits))
            .map(|bits| bits.div_ceil(8))
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or_else(|| TensorProblem::ShapeOverflow(Shape::new(&shape)))?;
        if begin.checked_add(expected) != Some(end) {
            return Err(TensorProblem::Span {
                shape: Shape::new(&shape),
                dtype,
                expected,
                begin,
                end,
            });
        }
        Ok(Entry {
            name,
            dtype,
            shape,
            begin,
            end,
        })
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
