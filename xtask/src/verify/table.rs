//! The table of golden figures: what was printed where, and with which inputs.
//!
//! It is data (`xtask/goldens/*.toml`), copied from the documents and never from our own output;
//! `verify`, docs/golden.md and the coverage check all read it from here.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::literal::{Literal, Rule};

/// The files of the table, in the order in which reports list them.
const FILES: [(&str, &str); 9] = [
    ("seed000", include_str!("../../goldens/seed000.toml")),
    ("seed001", include_str!("../../goldens/seed001.toml")),
    ("seed002", include_str!("../../goldens/seed002.toml")),
    ("seed003", include_str!("../../goldens/seed003.toml")),
    ("seed004", include_str!("../../goldens/seed004.toml")),
    ("ch02", include_str!("../../goldens/ch02.toml")),
    ("ch04", include_str!("../../goldens/ch04.toml")),
    ("ch05", include_str!("../../goldens/ch05.toml")),
    ("ch05_train", include_str!("../../goldens/ch05_train.toml")),
];

/// One cell or passage that prints figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Name, as `verify FILTER` takes it.
    pub(crate) id: String,
    /// Document and line, or notebook and cell.
    pub(crate) source: String,
    /// What was computed there.
    pub(crate) what: String,
    /// Whether it reads the-verdict.txt.
    #[serde(default)]
    pub(crate) needs_book_text: bool,
    /// A long run's name: such a case runs only when the filter begins with it.
    #[serde(default)]
    pub(crate) tier: Option<String>,
    /// Why an allowance is looser than the rule.
    #[serde(default)]
    pub(crate) why: Option<String>,
    /// Seed, sizes, texts.
    #[serde(default)]
    inputs: toml::Table,
    /// What was printed.
    #[serde(rename = "figure")]
    pub(crate) figures: Vec<Figure>,
}

/// One printed value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// What it is; the case's function names its result alike.
    pub(crate) name: String,
    /// How it is compared.
    pub(crate) kind: Kind,
    /// Its shape, when it is an array.
    #[serde(default)]
    pub(crate) shape: Option<Vec<usize>>,
    /// How its allowance follows from its digits.
    #[serde(default)]
    pub(crate) rule: Rule,
    /// The text that was printed; none for an identity of two computed values.
    #[serde(default)]
    pub(crate) printed: Option<Printed>,
}

/// How a figure is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Floats, by [`Rule`].
    Numbers,
    /// Token ids or counts of a histogram, exactly.
    Ids,
    /// A text, exactly.
    Text,
    /// A list of texts, exactly.
    Strings,
    /// A shape, exactly.
    Shape,
    /// One whole number, exactly.
    Count,
    /// Two computed values, bit for bit.
    Identity,
}

/// The printed text: numbers are separated by white space.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Printed {
    /// Numbers or a text.
    One(String),
    /// A list of texts.
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

/// All cases, in order.
///
/// # Errors
/// A file of the table is no valid table, or two cases share an id.
pub(crate) fn load() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, text) in FILES {
        let file: File = toml::from_str(text).with_context(|| format!("goldens/{name}.toml"))?;
        cases.extend(file.case);
    }
    let mut seen = BTreeSet::new();
    for case in &cases {
        ensure!(seen.insert(&case.id), "two cases are called {}", case.id);
    }
    Ok(cases)
}

impl Figure {
    /// The printed text of a figure that is one text.
    pub(crate) fn text(&self) -> Result<&str> {
        match &self.printed {
            Some(Printed::One(text)) => Ok(text),
            _ => bail!("figure `{}` has no text", self.name),
        }
    }

    /// The printed texts of a list.
    pub(crate) fn strings(&self) -> Result<&[String]> {
        match &self.printed {
            Some(Printed::Many(texts)) => Ok(texts),
            _ => bail!("figure `{}` is no list", self.name),
        }
    }

    /// The printed numbers.
    pub(crate) fn literals(&self) -> Result<Vec<Literal>> {
        self.text()?
            .split_whitespace()
            .map(Literal::parse)
            .collect()
    }

    /// The printed whole numbers.
    pub(crate) fn whole_numbers(&self) -> Result<Vec<u64>> {
        self.text()?
            .split_whitespace()
            .map(|word| {
                word.replace(',', "")
                    .parse()
                    .with_context(|| format!("`{word}` is no whole number"))
            })
            .collect()
    }
}

impl Figure {
    /// Drops all but the first `n` of the printed numbers.
    pub(crate) fn keep_first(&mut self, n: usize) {
        if let Some(Printed::One(text)) = &mut self.printed {
            let words: Vec<&str> = text.split_whitespace().take(n).collect();
            self.shape = Some(vec![words.len()]);
            *text = words.join(" ");
        }
    }
}

/// Readers of the inputs; each error names the case and the key.
impl Case {
    fn input(&self, key: &str) -> Result<&toml::Value> {
        self.inputs
            .get(key)
            .with_context(|| format!("{} has no input `{key}`", self.id))
    }

    /// All inputs as `key = value`, for the documentation.
    pub(crate) fn inputs_as_text(&self) -> Vec<(String, String)> {
        self.inputs
            .iter()
            .map(|(key, value)| (key.clone(), value.to_string()))
            .collect()
    }

    /// The seed.
    pub(crate) fn seed(&self) -> Result<u64> {
        Ok(self.count("seed")? as u64)
    }

    /// A size.
    pub(crate) fn count(&self, key: &str) -> Result<usize> {
        let value = self
            .input(key)?
            .as_integer()
            .and_then(|value| usize::try_from(value).ok());
        value.with_context(|| format!("{}: input `{key}` is no size", self.id))
    }

    /// A list of sizes.
    pub(crate) fn counts(&self, key: &str) -> Result<Vec<usize>> {
        let list = self
            .input(key)?
            .as_array()
            .with_context(|| format!("{}: `{key}` is no list", self.id))?;
        list.iter()
            .map(|value| {
                let size = value
                    .as_integer()
                    .and_then(|value| usize::try_from(value).ok());
                size.with_context(|| format!("{}: `{key}` holds no sizes", self.id))
            })
            .collect()
    }

    /// A number.
    pub(crate) fn number(&self, key: &str) -> Result<f64> {
        self.input(key)?
            .as_float()
            .with_context(|| format!("{}: input `{key}` is no number", self.id))
    }

    /// A yes or no.
    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        self.input(key)?
            .as_bool()
            .with_context(|| format!("{}: input `{key}` is no flag", self.id))
    }

    /// A text.
    pub(crate) fn text(&self, key: &str) -> Result<&str> {
        self.input(key)?
            .as_str()
            .with_context(|| format!("{}: input `{key}` is no text", self.id))
    }

    /// A list of texts.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<&str>> {
        let list = self
            .input(key)?
            .as_array()
            .with_context(|| format!("{}: `{key}` is no list", self.id))?;
        list.iter()
            .map(|value| {
                value
                    .as_str()
                    .with_context(|| format!("{}: `{key}` holds no texts", self.id))
            })
            .collect()
    }

    /// Numbers separated by white space.
    pub(crate) fn numbers<T: std::str::FromStr>(&self, key: &str) -> Result<Vec<T>> {
        self.text(key)?
            .split_whitespace()
            .map(|word| {
                word.parse()
                    .ok()
                    .with_context(|| format!("{}: `{word}` in `{key}`", self.id))
            })
            .collect()
    }
}
