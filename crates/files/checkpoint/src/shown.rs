//! Names, values and shapes out of files, as errors show them: escaped, on one line, and cut where
//! they are very long.

use std::fmt;

/// What the parser of JSON or the crate `safetensors` found wrong, and where: on one line, and cut
/// if it quotes something very long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonProblem(String);

impl JsonProblem {
    /// The parser's place comes last, so the middle is cut.
    const EACH_END: usize = 100;

    pub(crate) fn new(error: &dyn fmt::Display) -> Self {
        let text = error.to_string();
        let shown = if text.chars().count() > 2 * Self::EACH_END {
            let head: String = text.chars().take(Self::EACH_END).collect();
            let tail: Vec<char> = text.chars().rev().take(Self::EACH_END).collect();
            format!("{head}…{}", tail.into_iter().rev().collect::<String>())
        } else {
            text
        };
        Self(shown.replace(char::is_control, " "))
    }
}

impl From<serde_json::Error> for JsonProblem {
    fn from(error: serde_json::Error) -> Self {
        Self::new(&error)
    }
}

impl fmt::Display for JsonProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name or value out of a file, as it is shown: escaped, on one line, and cut if it is very long.
#[derive(Clone, PartialEq, Eq)]
pub struct Quoted(String);

impl Quoted {
    const MOST: usize = 80;

    /// A text, in quotes.
    pub(crate) fn text(text: &str) -> Self {
        let mut shown: String = text.chars().take(Self::MOST).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        Self(format!("{shown:?}"))
    }

    /// A JSON value, as it stands in the file.
    pub(crate) fn json(value: &serde_json::Value) -> Self {
        use serde_json::Value::{Array, Object, String};
        Self(match value {
            String(text) => return Self::text(text),
            Array(_) => "an array".into(),
            Object(_) => "an object".into(),
            other => other.to_string(),
        })
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A shape out of a file, shown as `[3, 4]`, and cut if it has very many dimensions.
#[derive(Clone, PartialEq, Eq)]
pub struct Shape(Vec<usize>, bool);

impl Shape {
    const MOST: usize = 8;

    pub(crate) fn new(shape: &[usize]) -> Self {
        let shown = &shape[..shape.len().min(Self::MOST)];
        Self(shown.to_vec(), shown.len() < shape.len())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, size) in self.0.iter().enumerate() {
            write!(f, "{}{size}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(if self.1 { ", …]" } else { "]" })
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
