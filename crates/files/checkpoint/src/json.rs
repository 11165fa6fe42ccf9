//! A configuration's JSON object, asked key by key: no number that is not what it should be.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{CheckpointError, ConfigProblem, in_config};
use crate::file::read_small;
use crate::shown::Quoted;

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
        let text = read_small(file, MOST_CONFIG_BYTES)?;
        let json = serde_json::from_str(&text)
            .map_err(|e| in_config(file)(ConfigProblem::NotJson(e.into())))?;
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
    pub(crate) fn problem(&self, problem: ConfigProblem) -> CheckpointError {
        in_config(self.file)(problem)
    }

    /// A value that is not what it must be.
    pub(crate) fn wrong(
        &self,
        key: &'static str,
        expected: &'static str,
        found: &Value,
    ) -> CheckpointError {
        let found = Quoted::json(found);
        self.problem(ConfigProblem::Value {
            key,
            expected,
            found,
        })
    }

    /// A setting that would change the arithmetic.
    pub(crate) fn unsupported(
        &self,
        key: &'static str,
        found: &Value,
        supported: &'static str,
    ) -> CheckpointError {
        let found = Quoted::json(found);
        self.problem(ConfigProblem::Unsupported {
            key,
            found,
            supported,
        })
    }

    /// A size that must be there: a whole number of at least 1.
    pub(crate) fn size(&self, key: &'static str) -> Result<usize, CheckpointError> {
        self.optional_size(key)?
            .ok_or_else(|| self.problem(ConfigProblem::Missing(key)))
    }

    /// As [`size`](Self::size), but may be missing or null.
    pub(crate) fn optional_size(
        &self,
        key: &'static str,
    ) -> Result<Option<usize>, CheckpointError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value.as_u64().and_then(|size| usize::try_from(size).ok()) {
            Some(size) if size > 0 => Ok(Some(size)),
            _ => Err(self.wrong(key, "a whole number of at least 1", value)),
        }
    }

    /// A flag that may be missing.
    pub(crate) fn flag(&self, key: &'static str) -> Result<Option<bool>, CheckpointError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.wrong(key, "true or false", other)),
        }
    }

    /// A dropout rate that may be missing.
    pub(crate) fn rate(&self, key: &'static str) -> Result<Option<f64>, CheckpointError> {
        self.number(key, "a number from 0 to 1", |rate| {
            (0.0..=1.0).contains(&rate)
        })
    }

    /// The norms' epsilon, which may be missing.
    pub(crate) fn epsilon(&self, key: &'static str) -> Result<Option<f32>, CheckpointError> {
        let fits = |eps: f64| (0.0..=f64::from(f32::MAX)).contains(&eps);
        let eps = self.number(key, "a finite number of at least 0", fits)?;
        Ok(eps.map(|eps| eps as f32))
    }

    fn number(
        &self,
        key: &'static str,
        expected: &'static str,
        fits: impl Fn(f64) -> bool,
    ) -> Result<Option<f64>, CheckpointError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.as_f64().filter(|&number| fits(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(key, expected, value)),
            },
        }
    }

    /// `width` must be divisible by `heads`.
    pub(crate) fn check_heads(
        &self,
        (width_key, width): (&'static str, usize),
        (heads_key, heads): (&'static str, usize),
    ) -> Result<(), CheckpointError> {
        if width.is_multiple_of(heads) {
            return Ok(());
        }
        Err(self.problem(ConfigProblem::HeadsDontDivide {
            width_key,
            width,
            heads_key,
            heads,
        }))
    }
}
