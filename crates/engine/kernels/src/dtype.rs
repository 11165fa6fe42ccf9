//! The formats of numbers, in memory, in files and on the command line.

use std::fmt;
use std::str::FromStr;

/// A format of numbers. Its name is PyTorch's.
///
/// ```
/// use kernels::Dtype;
/// assert_eq!("bfloat16".parse(), Ok(Dtype::BFloat16));
/// assert_eq!("bf16".parse(), Ok(Dtype::BFloat16));
/// assert_eq!(Dtype::BFloat16.to_string(), "bfloat16");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// IEEE's single precision, the format that models are trained in: 4 bytes.
    #[default]
    Float32,
    /// IEEE's half precision, with 11 bits of precision and at most 65504: 2 bytes.
    Float16,
    /// The upper half of a float32's bits, with 8 bits of precision: 2 bytes.
    BFloat16,
    /// Integers from -127 to 127 with a scale per row, or per 32 numbers in GGUF (Q8_0).
    Int8,
    /// Integers from -8 to 7 with a scale per 32 numbers.
    Int4,
}

/// The name of each format, its short name, and other names that people use.
const NAMES: [(Dtype, &str, &str, &[&str]); 5] = [
    (Dtype::Float32, "float32", "f32", &["fp32", "float"]),
    (Dtype::Float16, "float16", "f16", &["fp16", "half"]),
    (Dtype::BFloat16, "bfloat16", "bf16", &[]),
    (Dtype::Int8, "int8", "int8", &["i8", "q8_0"]),
    (Dtype::Int4, "int4", "int4", &["i4", "q4_0"]),
];

impl Dtype {
    /// Every format, the most exact one first.
    pub const ALL: &[Self] = &[
        Self::Float32,
        Self::Float16,
        Self::BFloat16,
        Self::Int8,
        Self::Int4,
    ];

    /// Returns the name, such as `bfloat16`.
    pub fn name(self) -> &'static str {
        self.names().1
    }

    /// Returns the short name, such as `bf16`.
    pub fn short_name(self) -> &'static str {
        self.names().2
    }

    fn names(self) -> &'static (Self, &'static str, &'static str, &'static [&'static str]) {
        let mut all = NAMES.iter();
        all.find(|names| names.0 == self)
            .expect("each format has names")
    }

    /// Returns this format if it is one of those that are supported.
    ///
    /// # Errors
    /// If it isn't; the error names the supported ones.
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

/// A name that isn't the name of a format, or a format that isn't supported somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedDtype {
    /// The name.
    pub name: String,
    /// The formats that are supported.
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
