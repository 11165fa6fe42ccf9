//! Inserts computed values into the prose of a notebook, so that the prose can't contradict the
//! computed output. A notebook is a Rust port of one of the book's Python notebooks, and its prose
//! explains the computed values to learners. Wherever the prose mentions one of these values, it
//! contains a placeholder, which is a name in braces, such as `{seed}`.
//!
//! A placeholder in the prose can refer to an input of the notebook, which is a value (such as a
//! seed) that learners can change. It can also refer to a value that the notebook passes to
//! [`crate::Notebook::value`]. After the name, it can specify a format:
//!
//! - `{name:.2}` shows the value with two decimals, as in `0.54`.
//! - `{name:%}` shows the value as a percentage, as in `54%` for 0.54.
//! - `{name:,}` shows a whole number with commas between groups of three digits, as in `1,234,567`.
//! - `{name:w}` shows a whole number from zero to twelve as a word, as in `two`.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Text that replaces a placeholder, such as `{seed}`, in the prose of a notebook if no value with
/// this name was computed, for example because the notebook hasn't run.
pub(crate) const MISSING: &str = "…";

/// Values that a notebook has recorded during a run so that its prose can mention them. The key is
/// the name of the value, such as `words` for the placeholder `{words}`. A notebook can record
/// several values under the same name. Each value is therefore stored with the line number, in the
/// notebook's source file, of the call that recorded it.
#[derive(Default)]
pub(crate) struct Values(HashMap<String, Vec<(u32, String)>>);

impl Values {
    pub(crate) fn add(&mut self, name: &str, line: u32, value: String) {
        let values = self.0.entry(name.to_owned()).or_default();
        values.push((line, value));
    }

    /// Returns the value that replaces the placeholder `{name}` in prose at line `line` of the
    /// notebook's source file. This is the last value that the notebook recorded under this name at
    /// or before this line. If there is no such value, it is the first one recorded after this
    /// line, because the prose before a cell can mention a value that the cell computes. Returns
    /// `None` if no value was recorded under this name.
    fn at(&self, name: &str, line: u32) -> Option<&str> {
        let values = self.0.get(name)?;
        let before = values.iter().rev().find(|(at, _)| *at <= line);
        before.or(values.first()).map(|(_, value)| value.as_str())
    }

    /// Replaces each placeholder in `text`, such as `{seed}`. `text` is prose in a notebook's
    /// source file, and `line` is its line number there. The replacement is the value that
    /// [`Values::at`] returns for the placeholder's name and this line. If there is no such value,
    /// inserts [`MISSING`] instead. If the value is an empty string, also removes the space before
    /// the placeholder.
    pub(crate) fn fill(&self, text: &str, line: u32) -> String {
        static NAME: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"(\s?)\{([a-z_][a-z0-9_]*)(?::([^{}]*))?\}").expect("a regular expression")
        });
        let value = |found: &Captures<'_>| {
            let value = self.at(&found[2], line).unwrap_or(MISSING);
            match formatted(value, found.get(3).map_or("", |form| form.as_str())) {
                value if value.is_empty() => value,
                value => found[1].to_owned() + &value,
            }
        };
        NAME.replace_all(text, value).trim_end().to_owned()
    }
}

/// Formats a computed value that replaces a placeholder in the prose of a notebook. `form` is the
/// text after the colon in the placeholder. For example, the form in `{share:.2}` is `.2`, which
/// requests two decimals. If the value isn't a number, returns it unchanged.
fn formatted(value: &str, form: &str) -> String {
    const WORDS: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    let Ok(number) = value.parse::<f64>() else {
        return value.to_owned();
    };
    match form {
        "%" => format!("{:.0}%", 100.0 * number),
        "," => with_commas(&format!("{number:.0}")),
        "w" => value
            .parse()
            .ok()
            .and_then(|at: usize| WORDS.get(at))
            .map_or(value, |it| it)
            .to_owned(),
        form => match form.strip_prefix('.').and_then(|it| it.parse().ok()) {
            Some(decimals) => format!("{number:.decimals$}"),
            None => value.to_owned(),
        },
    }
}

/// Inserts commas between groups of three digits in a whole number, as in `1,234,567`.
fn with_commas(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        let left = digits.len() - place;
        if left.is_multiple_of(3) && text.ends_with(|c: char| c.is_ascii_digit()) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_the_last_value_before_it_or_the_next() {
        let mut values = Values::default();
        for (name, line, value) in [
            ("k", 3, "2"),
            ("k", 7, "4"),
            ("share", 3, "0.54166"),
            ("size", 9, "1234567"),
            ("loss", 3, "-10.98"),
            ("none", 3, ""),
        ] {
            values.add(name, line, value.to_owned());
        }
        for (text, line, filled) in [
            ("k = {k}", 1, "k = 2"),
            ("k = {k:w}", 6, "k = two"),
            ("{k}, {share:.2}, {share:%}", 8, "4, 0.54, 54%"),
            ("{size:,} and {size}", 1, "1,234,567 and 1234567"),
            ("{loss:.1}", 3, "-11.0"),
            ("A text. {none} Another {lost}.", 3, "A text. Another …."),
            ("`{ not a name }` and {}", 3, "`{ not a name }` and {}"),
        ] {
            assert_eq!(values.fill(text, line), filled);
        }
        assert_eq!(with_commas("-123456"), "-123,456");
        assert_eq!(with_commas("999"), "999");
    }
}
