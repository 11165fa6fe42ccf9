//! The number formats of weights, model files and matrix products, and the names by which users can
//! specify the formats.

use std::fmt;
use std::str::FromStr;

/// A number format in which weights are stored or the operands of a product are multiplied.
///
/// The names are the same as in PyTorch. Parsing is case-insensitive and also accepts short names
/// and common aliases, such as `bf16` for `bfloat16` and `q8_0` for `int8`. With the feature
/// `serde`, a `Dtype` is serialized as its [`name`](Self::name) and deserialized from any accepted
/// name.
///
/// ```
/// use kernels::Dtype;
/// assert_eq!("bfloat16".parse(), Ok(Dtype::BFloat16));
/// assert_eq!("bf16".parse(), Ok(Dtype::BFloat16));
/// assert_eq!(Dtype::BFloat16.to_string(), "bfloat16");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// IEEE 754 single precision, in which models are trained. A value takes 4 bytes.
    #[default]
    Float32,
    /// IEEE 754 half precision, which has 11 bits of precision and a maximum of 65504. A value
    /// takes 2 bytes.
    Float16,
    /// A `float32` without its lower 16 bits, which has the same range but only 8 bits of
    /// precision. A value takes 2 bytes.
    BFloat16,
    /// Integers from -127 to 127 that are multiplied by a scale. There is one scale per row of an
    /// [`Int8Matrix`](crate::Int8Matrix), and one per 32 values in GGUF files (Q8_0).
    Int8,
    /// Integers from -8 to 7 that are multiplied by a scale. There is one scale per 32 weights of a
    /// row.
    Int4,
}

/// All formats, each with its full name, its short name and any other accepted names. All names are
/// in lower case.
const NAMES: [(Dtype, &str, &str, &[&str]); 5] = [
    (Dtype::Float32, "float32", "f32", &["fp32", "float"]),
    (Dtype::Float16, "float16", "f16", &["fp16", "half"]),
    (Dtype::BFloat16, "bfloat16", "bf16", &[]),
    (Dtype::Int8, "int8", "int8", &["i8", "q8_0"]),
    (Dtype::Int4, "int4", "int4", &["i4", "q4_0"]),
];

impl Dtype {
    /// All formats, from the most precise to the least precise.
    pub const ALL: &[Self] = &[
        Self::Float32,
        Self::Float16,
        Self::BFloat16,
        Self::Int8,
        Self::Int4,
    ];

    /// Returns PyTorch's name of the format, such as `bfloat16`.
    pub fn name(self) -> &'static str {
        self.names().1
    }

    /// Returns the short name of the format, such as `bf16`.
    pub fn short_name(self) -> &'static str {
        self.names().2
    }

    fn names(self) -> &'static (Self, &'static str, &'static str, &'static [&'static str]) {
        let mut all = NAMES.iter();
        all.find(|names| names.0 == self)
            .expect("each format has names")
    }

    /// Returns this format if `supported` contains it.
    ///
    /// # Errors
    ///
    /// If `supported` doesn't contain this format, returns an [`UnsupportedDtype`] that contains
    /// the name of the format and the list `supported`.
    pub fn one_of(self, supported: &'static [Self]) -> Result<Self, UnsupportedDtype> {
        match supported.contains(&self) {
            true => Ok(self),
            false => Err(UnsupportedDtype {
                name: self.name().to_owned(),
                supported,
            }),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dtype {
    type Err = UnsupportedDtype;

    fn from_str(name: &str) -> Result<Self, UnsupportedDtype> {
        let lower = name.to_ascii_lowercase();
        let is_it = |(_, full, short, others): &&(Self, &str, &str, &[&str])| {
            [*full, *short].contains(&lower.as_str()) || others.contains(&lower.as_str())
        };
        let found = NAMES.iter().find(is_it).map(|names| names.0);
        found.ok_or_else(|| UnsupportedDtype {
            name: name.to_owned(),
            supported: Self::ALL,
        })
    }
}

/// The error for a number format whose name is unknown or that an operation doesn't support.
///
/// The error message lists the supported formats, for example
/// `expected float32 or bfloat16, got "int8"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedDtype {
    /// Name of the rejected format. If parsing failed, this is the string that was parsed.
    pub name: String,
    /// Formats that would have been accepted.
    pub supported: &'static [Dtype],
}

impl fmt::Display for UnsupportedDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, supported) = (&self.name, self.supported.iter());
        let supported: Vec<&str> = supported.map(|dtype| dtype.name()).collect();
        write!(f, "expected {}, got {name:?}", supported.join(" or "))
    }
}

impl std::error::Error for UnsupportedDtype {}

#[cfg(feature = "serde")]
impl serde::Serialize for Dtype {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Dtype {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_and_others_are_refused_with_the_supported_ones() {
        for &(dtype, name, short, others) in &NAMES {
            for name in [&[name, short], others].concat() {
                assert_eq!(name.parse(), Ok(dtype));
                assert_eq!(name.to_uppercase().parse(), Ok(dtype));
            }
        }
        assert_eq!(Dtype::ALL.len(), NAMES.len());
        let error = "f64".parse::<Dtype>().unwrap_err().to_string();
        assert_eq!(
            error,
            "expected float32 or float16 or bfloat16 or int8 or int4, got \"f64\""
        );
        let two = &[Dtype::Float32, Dtype::BFloat16];
        let error = Dtype::Int8.one_of(two).unwrap_err().to_string();
        assert_eq!(error, "expected float32 or bfloat16, got \"int8\"");
    }
}
