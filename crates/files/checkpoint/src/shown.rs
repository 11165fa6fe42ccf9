//! Names, values and shapes out of files, as errors show them: escaped, on one line, and cut where
//! they are very long.

use std::fmt;

use serde_json::Value;

/// A problem that the parser of JSON or the crate `safetensors` found, and where: on one line, and
/// cut if it quotes something very long.
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

/// A text in quotes.
pub(crate) fn quoted(text: &str) -> String {
    const MOST: usize = 80;
    let mut shown: String = text.chars().take(MOST).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// A JSON value, as it stands in the file.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
        other => other.to_string(),
    }
}

/// A shape as `[3, 4]`, cut if it has very many dimensions.
pub(crate) fn shape(shape: &[usize]) -> String {
    const MOST: usize = 8;
    match shape.get(..MOST) {
        Some(first) if first.len() < shape.len() => {
            let shown = format!("{first:?}");
            shown.replace(']', ", …]")
        }
        _ => format!("{shape:?}"),
    }
}
