//! A configuration's JSON object, as Python writes it, asked key by key: no number that is not
//! what it should be.

use std::path::Path;

use atomic_file::read_small_file;
use serde_json::{Map, Value};

use crate::error::{CheckpointError, invalid};
use crate::shown::{self, JsonProblem};

/// The most bytes of a config.json: a usual one has a thousand.
const MOST_CONFIG_BYTES: u64 = 256 * 1024;

/// A configuration file's keys, asked for one by one.
pub(crate) struct Fields<'a> {
    file: &'a Path,
    json: Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Reads a file that is one JSON object.
    pub(crate) fn read(file: &'a Path) -> Result<Self, CheckpointError> {
        let text = read_text(file, MOST_CONFIG_BYTES)?;
        let json = serde_json::from_str(&text);
        let json = json.or_else(|error| serde_json::from_str(&quote_numbers(&text)).or(Err(error)));
        let json = json.map_err(not_json(file))?;
        Ok(Self { file, json })
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.json.keys().map(String::as_str)
    }

    /// A value, unless it isn't there or is null.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.json.get(key).filter(|value| !value.is_null())
    }

    /// An error about this file.
    pub(crate) fn problem(&self, problem: impl Into<String>) -> CheckpointError {
        invalid(self.file, problem)
    }

    /// A value that is not what it must be.
    pub(crate) fn wrong(&self, key: &str, expected: &str, found: &Value) -> CheckpointError {
        let found = shown::value(found);
        self.problem(format!("{key} must be {expected}, but is {found}"))
    }

    /// A setting that would change the arithmetic.
    pub(crate) fn unsupported(&self, key: &str, found: &Value, can_be: &str) -> CheckpointError {
        let found = shown::value(found);
        self.problem(format!(
            "{key} is {found}, but only {can_be} can be computed"
        ))
    }

    /// The value of the one of these keys that has one, as `read` takes it.
    ///
    /// # Errors
    /// If it is none that `read` takes, or two keys have values that differ.
    pub(crate) fn first<'f, T>(
        &'f self,
        keys: &[&str],
        expected: &str,
        read: impl Fn(&'f Value) -> Option<T>,
    ) -> Result<Option<T>, CheckpointError> {
        let mut found = keys.iter().filter_map(|&key| Some((key, self.get(key)?)));
        let Some((key, value)) = found.next() else {
            return Ok(None);
        };
        if let Some((other, its)) = found.find(|(_, its)| *its != value) {
            let (value, its) = (shown::value(value), shown::value(its));
            return Err(self.problem(format!(
                "{key} is {value}, but {other}, which is the same setting, is {its}"
            )));
        }
        match read(value) {
            None => Err(self.wrong(key, expected, value)),
            read => Ok(read),
        }
    }

    /// A flag that may be missing.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, CheckpointError> {
        self.first(&[key], "true or false", Value::as_bool)
    }
}

/// The text of a JSON file that may not have more than `limit` bytes.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, CheckpointError> {
    let text = read_small_file(path, limit)?;
    if text.starts_with(b"\xef\xbb\xbf") {
        let problem = "the file begins with a byte-order mark; JSON is UTF-8 without one";
        return Err(invalid(path, problem));
    }
    String::from_utf8(text).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        invalid(path, format!("the file is not UTF-8: byte {at} is wrong"))
    })
}

/// A text in which NaN and infinities, which Python writes and JSON doesn't have, are strings.
fn quote_numbers(text: &str) -> String {
    // Between quotes, of which a backslash takes the next away, they are part of a text.
    let mut quoted = String::with_capacity(text.len());
    let mut rest = text;
    let (mut in_text, mut escaped) = (false, false);
    while let Some(c) = rest.chars().next() {
        let number = ["NaN", "Infinity", "-Infinity"]
            .into_iter()
            .find(|number| !in_text && rest.starts_with(number));
        let taken = match number {
            Some(number) => {
                quoted.extend(["\"", number, "\""]);
                number.len()
            }
            None => {
                quoted.push(c);
                in_text ^= c == '"' && !escaped;
                escaped = in_text && c == '\\' && !escaped;
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    quoted
}

/// `.map_err(not_json(path))`
pub(crate) fn not_json(file: &Path) -> impl Fn(serde_json::Error) -> CheckpointError {
    move |error| {
        invalid(
            file,
            format!("not a JSON object: {}", JsonProblem::new(&error)),
        )
    }
}
