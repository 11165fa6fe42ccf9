//! The JSON of a header, entry by entry: `"name": {"dtype", "shape", "data_offsets"}`, each checked by itself.
//!
//! serde_json's own errors don't know the tensor, so a refusal is made here and carried past it.
//! Whether the entries agree with each other and with the file is asked in `header.rs`.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::error::{CheckpointError, FormatProblem, TensorProblem, in_file, in_tensor};
use crate::header::{Entry, METADATA};
use crate::json::{Pairs, Whole};
use crate::shown::{JsonProblem, Quoted, Shape};

/// The most dimensions of a tensor; weights have two.
const MOST_DIMENSIONS: usize = 32;

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

/// Reads the entries in the file's order, each checked by itself; the first bad one ends the work and is named.
pub(crate) fn read_entries(file: &Path, text: &str) -> Result<Vec<Entry>, CheckpointError> {
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
    TensorProblem::Entry(JsonProblem::new(&error))
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
