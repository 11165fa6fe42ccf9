//! Reads and checks the settings in JSON configuration files. The files may contain the numbers
//! `NaN` and `Infinity`. Although JSON doesn't allow these numbers, Python's `json` module writes
//! them.

use std::path::Path;

use atomic_file::{quote_python_numbers, read_small_file};
use serde_json::{Map, Value};

use crate::error::{CheckpointError, invalid};

/// Maximum size of a JSON configuration file in bytes. A typical config.json has about a thousand
/// bytes.
const MAX_CONFIG_BYTES: u64 = 256 * 1024;

/// Formats `json` as the contents of a file: indented text that ends with a line feed.
pub(crate) fn text(json: &Value) -> String {
    format!("{json:#}\n")
}

/// The keys and values of a configuration file.
pub(crate) struct Fields<'a> {
    file: &'a Path,
    json: Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Reads a file that contains a JSON object.
    pub(crate) fn read(file: &'a Path) -> Result<Self, CheckpointError> {
        Self::of(file, &read_small_file(file, MAX_CONFIG_BYTES)?)
    }

    /// Parses the contents of a JSON file. The path `file` is used only in error messages.
    pub(crate) fn of(file: &'a Path, contents: &[u8]) -> Result<Self, CheckpointError> {
        let text = text_of(file, contents)?;
        let json = serde_json::from_str(text)
            .or_else(|error| serde_json::from_str(&quote_python_numbers(text)).or(Err(error)));
        let json = json.map_err(not_json(file))?;
        Ok(Self { file, json })
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.json.keys().map(String::as_str)
    }

    /// Returns the value of a key, or `None` if the key is missing or null.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.json.get(key).filter(|value| !value.is_null())
    }

    /// Returns the error for a problem with this file.
    pub(crate) fn problem(&self, problem: impl Into<String>) -> CheckpointError {
        invalid(self.file, problem)
    }

    /// Returns the error for a required key that is missing.
    pub(crate) fn missing(&self, key: &str) -> CheckpointError {
        self.problem(format!("{key} is missing"))
    }

    /// Returns the error for a value of the wrong kind.
    pub(crate) fn wrong(&self, key: &str, expected: &str, found: &Value) -> CheckpointError {
        self.problem(format!("{key} must be {expected}, got {found}"))
    }

    /// Returns the error for a setting that affects the results of the model but has a value that
    /// this crate doesn't support. `found` is the value in the file, and `can_be` describes the
    /// supported values.
    pub(crate) fn unsupported(&self, key: &str, found: &Value, can_be: &str) -> CheckpointError {
        self.problem(format!("{key} is {found}, but only {can_be} is supported"))
    }

    /// Returns the value of a setting in this JSON file. `keys` contains all names that the setting
    /// can have, such as `n_embd` and `hidden_size`. The function `read` converts the JSON value to
    /// `T`, or returns `None` if the value is invalid. If the file contains none of the keys, this
    /// method returns `None`.
    ///
    /// # Errors
    ///
    /// Returns an error if the value of the setting is invalid, or if the file contains two of its
    /// names with different values. The error message for an invalid value says that the value must
    /// be `expected`.
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
            return Err(self.problem(format!(
                "{key} is {value}, but {other}, an alias for the same setting, is {its}; remove one of them"
            )));
        }
        match read(value) {
            None => Err(self.wrong(key, expected, value)),
            read => Ok(read),
        }
    }

    /// Returns the value of a setting that must be an integer of at least 1. `keys` contains all
    /// names that the setting can have.
    pub(crate) fn size(&self, keys: &[&str]) -> Result<Option<usize>, CheckpointError> {
        let size = |value: &Value| usize::try_from(value.as_u64()?).ok().filter(|&n| n > 0);
        self.first(keys, "a whole number that is at least 1", size)
    }

    /// Returns the value of a setting that must be a number between 0 and 1, such as a dropout
    /// rate.
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, CheckpointError> {
        let number = |value: &Value| value.as_f64().filter(|x| (0.0..=1.0).contains(x));
        self.first(&[key], "a number from 0 to 1", number)
    }

    /// Returns the value of a setting that must be true or false.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, CheckpointError> {
        self.first(&[key], "true or false", Value::as_bool)
    }
}

/// Returns the contents of a JSON file as a string.
pub(crate) fn text_of<'t>(path: &Path, contents: &'t [u8]) -> Result<&'t str, CheckpointError> {
    let text = std::str::from_utf8(contents);
    let text =
        text.map_err(|error| invalid(path, format!("the file isn't valid UTF-8: {error}")))?;
    match text.starts_with('\u{feff}') {
        true => Err(invalid(
            path,
            "the file begins with a byte-order mark; save it as UTF-8 without one",
        )),
        false => Ok(text),
    }
}

/// Returns a function that converts a JSON error to a [`CheckpointError`]. It can be used as
/// `.map_err(not_json(path))`.
pub(crate) fn not_json(file: &Path) -> impl Fn(serde_json::Error) -> CheckpointError {
    move |error| invalid(file, format!("the file isn't a JSON object: {error}"))
}
