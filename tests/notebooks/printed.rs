//! A printed output against a computed value: labels, brackets, rows, elided middles, lists of
//! texts.
//!
//! How far a number may lie off follows from its digits ([`Literal`]); whole numbers and texts are
//! exact.

use std::ops::Range;
use std::sync::LazyLock;

use anyhow::{Result, ensure};
use regex::{Captures, Match, Regex};

use crate::literal::Literal;
use crate::torch_form;
use crate::value::{Kind, Value};

/// The verdict on one printed output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The number of compared numbers or texts.
    pub figures: usize,
    /// The difference that comes nearest to its allowance, or exceeds it most.
    pub difference: f64,
    /// The allowance of that number.
    pub allowed: f64,
    /// The disagreements; empty when the cell passes.
    pub faults: Vec<String>,
}

impl Verdict {
    pub(crate) fn of_fault(fault: String) -> Self {
        Self {
            faults: vec![fault],
            ..Self::default()
        }
    }

    fn note(&mut self, difference: f64, allowed: f64, fault: impl FnOnce() -> String) {
        self.figures += 1;
        // Nothing of nothing is no number, and none.
        let ratio = |difference: f64, allowed: f64| (difference / allowed).max(0.0);
        if self.figures == 1 || ratio(difference, allowed) > ratio(self.difference, self.allowed) {
            (self.difference, self.allowed) = (difference, allowed);
        }
        if difference > allowed {
            self.faults.push(fault());
        }
    }

    fn note_text(&mut self, computed: &str, printed: &str) {
        let difference = if printed == computed {
            0.0
        } else {
            f64::INFINITY
        };
        self.note(difference, 0.0, || {
            format!("printed {printed:?}, computed {computed:?}")
        });
    }
}

/// Compares a computed value with the document's output; `within` replaces the rule of the digits.
///
/// An array is printed with its brackets and with an ellipsis where PyTorch leaves numbers out, or
/// without brackets as all its numbers.
///
/// # Errors
/// The output is of another kind of value or another shape.
pub(crate) fn compare(value: &Value, printed: &str, within: Option<f64>) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    match value {
        Value::Text(text) => verdict.note_text(text, printed),
        Value::Texts(texts) => {
            let list = texts_of_list(printed);
            let (printed, computed) = (list.len(), texts.len());
            ensure!(
                printed == computed,
                "{printed} printed, {computed} computed"
            );
            for (printed, text) in list.iter().zip(texts) {
                verdict.note_text(text, printed);
            }
        }
        Value::Numbers(array, kind) => {
            let has_brackets = printed.contains('[');
            let theirs = match has_brackets {
                true => items_of_array(printed),
                false => items(printed).into_iter().map(|(_, item)| item).collect(),
            };
            let mut ours = torch_form::items(array);
            ours.retain(|item| has_brackets || matches!(item, Item::Value(_)));
            let pairs = ours.iter().zip(&theirs);
            let is_same = pairs.clone().all(|(one, other)| one.same_form(other));
            ensure!(
                is_same && ours.len() == theirs.len(),
                "a value of shape {:?} is not printed so",
                array.shape()
            );
            for pair in pairs {
                let (Item::Value((at, computed)), Item::Value(literal)) = pair else {
                    continue;
                };
                let allowed = match kind {
                    Kind::Whole => 0.0,
                    _ => within.unwrap_or_else(|| literal.allowed()),
                };
                verdict.note(literal.difference(*computed), allowed, || {
                    let computed = match kind {
                        Kind::Tensor => (*computed as f32).to_string(),
                        _ => computed.to_string(),
                    };
                    format!("{at:?}: printed {}, computed {computed}", literal.text)
                });
            }
        }
    }
    let is_empty = verdict.figures == 0 && printed.trim() != "[]";
    ensure!(!is_empty, "nothing is printed there");
    Ok(verdict)
}

/// A part of a printed array.
#[derive(Debug, PartialEq)]
pub(crate) enum Item<T> {
    Open,
    Close,
    /// An ellipsis.
    Gap,
    Value(T),
}

impl<T> Item<T> {
    fn same_form<U>(&self, other: &Item<U>) -> bool {
        matches!(
            (self, other),
            (Self::Open, Item::Open)
                | (Self::Close, Item::Close)
                | (Self::Gap, Item::Gap)
                | (Self::Value(_), Item::Value(_))
        )
    }
}

/// The numbers, brackets and ellipses of a text, with their places; other words are labels.
fn items(text: &str) -> Vec<(Range<usize>, Item<Literal>)> {
    static WORD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"[\[\]]|[^\s\[\]()'"]+"#).expect("a regular expression"));
    // Between numbers without brackets they are part of them: 163,009,536.
    let text = match text.contains('[') {
        true => text.replace(',', " "),
        false => text.to_owned(),
    };
    let item = |word: Match<'_>| {
        let item = match word.as_str() {
            "[" => Item::Open,
            "]" => Item::Close,
            "..." => Item::Gap,
            number => Item::Value(Literal::parse(number)?),
        };
        Some((word.range(), item))
    };
    WORD.find_iter(&text).filter_map(item).collect()
}

/// The numbers of an output, each with its place.
pub fn numbers(text: &str) -> Vec<(f64, Range<usize>)> {
    let number = |(place, item)| match item {
        Item::Value(Literal { value, .. }) => Some((value, place)),
        _ => None,
    };
    items(text).into_iter().filter_map(number).collect()
}

/// From the first bracket to the last: what stands outside is a label.
fn items_of_array(text: &str) -> Vec<Item<Literal>> {
    let inside = text.find('[').unwrap_or(0)..text.rfind(']').map_or(text.len(), |end| end + 1);
    let items = items(text.get(inside).unwrap_or_default()).into_iter();
    items.map(|(_, item)| item).collect()
}

/// The texts of a printed list.
fn texts_of_list(list: &str) -> Vec<String> {
    static ITEM: LazyLock<Regex> = LazyLock::new(|| {
        let item = r#"(?s)'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)""#;
        Regex::new(item).expect("a regular expression")
    });
    static ESCAPE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)\\(.)").expect("a regular expression"));
    let character = |escape: &Captures<'_>| escape[1].replace('n', "\n");
    let items = ITEM.captures_iter(list);
    let texts = items.filter_map(|item| item.get(1).or(item.get(2)));
    texts
        .map(|text| ESCAPE.replace_all(text.as_str(), character).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use super::*;
    use crate::value::Shown;

    fn faults(value: impl Shown, printed: &str) -> Vec<String> {
        compare(&value.value(), printed, None).unwrap().faults
    }

    #[test]
    fn one_wrong_number_among_many_is_named() {
        let printed = "tensor([[0.1000, 0.2000],\n        [0.3000, 0.4000]], grad_fn=<X>)";
        assert!(faults(array![[0.1f32, 0.2], [0.3, 0.4]], printed).is_empty());
        let wrong = faults(array![[0.1f32, 0.2], [0.3001, 0.4]], printed);
        assert!(wrong[0].starts_with("[1, 0]: printed 0.3000"), "{wrong:?}");
        assert!(compare(&array![0.1f32, 0.2].value(), printed, None).is_err());
        assert!(compare(&array![[0.1f32], [0.2]].value(), printed, None).is_err());
    }

    #[test]
    fn an_ellipsis_leaves_out_the_middle() {
        let rows = Array2::from_shape_fn((2, 1000), |(row, column)| (row * 1000 + column) as u32);
        let printed = |last| {
            format!(
                "tensor([[0, 1, 2,  ..., 997, 998, 999], [1000, 1001, 1002,  ..., 1997, 1998, {last}]])"
            )
        };
        assert!(faults(rows.clone(), &printed(1999)).is_empty());
        assert_eq!(
            faults(rows.clone(), &printed(1998)),
            ["[1, 999]: printed 1998, computed 1999"]
        );
        assert!(compare(&rows.value(), "[[0, 1, 2, 997, 998, 999]]", None).is_err());
        assert!(compare(&array![1u32, 2].value(), "[1,  ..., 2]", None).is_err());
    }

    #[test]
    fn whole_numbers_and_texts_are_exact() {
        assert!(faults(163_009_536usize, "Total number of parameters: 163,009,536").is_empty());
        assert_eq!(faults(163_009_537usize, "163,009,536").len(), 1);
        assert!(faults(10.794f32, "tensor(10.7940)").is_empty());
        assert_eq!(faults(10.795f32, "tensor(10.7940)").len(), 1);
        assert!(faults(vec!["It", "'s"], r#"['It', "'s"]"#).is_empty());
        assert_eq!(faults(vec!["It", "s"], r#"['It', "'s"]"#).len(), 1);
        assert!(compare(&vec!["It"].value(), "['It', 's']", None).is_err());
        assert_eq!(faults("a  b", "a b").len(), 1);
    }
}
