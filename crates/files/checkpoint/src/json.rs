//! A configuration's JSON object, as Python writes it, read key by key; every number is checked.

use std::path::Path;

use atomic_file::{quote_python_numbers, read_small_file};
use serde_json::{Map, Value};

use crate::error::{CheckpointError, invalid};

/// The most bytes of a config.json: a usual one has a thousand.
const MAX_CONFIG_BYTES: u64 = 256 * 1024;

/// The text of a JSON file.
pub(crate) fn text(json: &Value) -> String {
    format!("{json:#}\n")
}

/// A configuration file's keys, read one by one.
pub(crate) struct Fields<'a> {
    file: &'a Path,
    json: Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Reads a file that is one JSON object.
    pub(crate) fn read(file: &'a Path) -> Result<Self, CheckpointError> {
        Self::of(file, &read_small_file(file, MAX_CONFIG_BYTES)?)
    }

    /// Reads a file's contents.
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

    /// A value, unless it isn't there or is null.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.json.get(key).filter(|value| !value.is_null())
    }

    /// An error about this file.
    pub(crate) fn problem(&self, problem: impl Into<String>) -> CheckpointError {
        invalid(self.file, problem)
    }

    /// The error of a key that must be there.
    pub(crate) fn missing(&self, key: &str) -> CheckpointError {
        self.problem(format!("{key} is missing"))
    }

    /// A value that is not what it must be.
    pub(crate) fn wrong(&self, key: &str, expected: &str, found: &Value) -> CheckpointError {
        self.problem(format!("{key} must be {expected}, but is {found}"))
    }

    /// A setting that would change the arithmetic.
    pub(crate) fn unsupported(&self, key: &str, found: &Value, can_be: &str) -> CheckpointError {
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
            return Err(self.problem(format!(
                "{key} is {value}, but {other}, which is the same setting, is {its}"
            )));
        }
        match read(value) {
            None => Err(self.wrong(key, expected, value)),
            read => Ok(read),
        }
    }

    /// A size that may be missing, under one of these keys.
    pub(crate) fn size(&self, keys: &[&str]) -> Result<Option<usize>, CheckpointError> {
        let size = |value: &Value| usize::try_from(value.as_u64()?).ok().filter(|&n| n > 0);
        self.first(keys, "a whole number of at least 1", size)
    }

    /// A rate of dropout, or another small number, that may be missing.
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, CheckpointError> {
        let number = |value: &Value| value.as_f64().filter(|x| (0.0..=1.0).contains(x));
        self.first(&[key], "a number from 0 to 1", number)
    }

    /// A flag that may be missing.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, CheckpointError> {
        self.first(&[key], "true or false", Value::as_bool)
    }
}

/// The text of a JSON file's contents.
pub(crate) fn text_of<'t>(path: &Path, contents: &'t [u8]) -> Result<&'t str, CheckpointError> {
    let text = std::str::from_utf8(contents);
    let text = text.map_err(|error| invalid(path, format!("the file is not UTF-8: {error}")))?;
    match text.starts_with('\u{feff}') {
        true => Err(invalid(
            path,
            "starts with a byte-order mark; save it as UTF-8 without one",
        )),
        false => Ok(text),
    }
}

/// `.map_err(not_json(path))`
pub(crate) fn not_json(file: &Path) -> impl Fn(serde_json::Error) -> CheckpointError {
    move |error| invalid(file, format!("not a JSON object: {error}"))
}
