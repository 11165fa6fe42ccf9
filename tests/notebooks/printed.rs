//! Compares the values that a notebook computes with the output of the original document. A
//! notebook is a Rust port of an original document, usually one of the book's Python notebooks.
//! Besides numbers or strings, the output can contain labels, brackets, and an ellipsis in place of
//! numbers that PyTorch omits.
//!
//! When a computed floating-point number is compared with a printed number, the tolerance depends
//! on the printed digits, as described in [`crate::literal`]. Whole numbers and strings must be
//! equal to the printed ones.

use std::ops::Range;
use std::sync::LazyLock;

use anyhow::{Result, ensure};
use regex::Regex;

use crate::literal::Literal;
use crate::torch_form;
use crate::value::{Kind, Value};

/// Result of comparing a value computed by a notebook, such as an array, with the output of the
/// original Python notebook.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Number of values that were compared with the output of the Python notebook. Each number in
    /// an array and each string in a list counts as one value.
    pub figures: usize,
    /// Absolute difference between a computed number and the corresponding number in the output of
    /// the Python notebook. If several numbers were compared, this is the difference that is
    /// largest relative to its tolerance.
    pub difference: f64,
    /// Tolerance for `difference`: the largest difference that still counts as agreement.
    pub allowed: f64,
    /// Error messages for the computed values that differ from the printed values by more than the
    /// tolerance, such as `[1, 0]: printed 0.3000, computed 0.3001`. The list is empty if the
    /// comparison succeeded.
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
        // `max` also handles NaN. If two values are equal and their tolerance is 0, the ratio of
        // the difference to the tolerance is 0 / 0, which is NaN. In this case, `max` returns 0, so
        // the pair doesn't count as the one with the largest difference.
        let ratio = |difference: f64, allowed: f64| (difference / allowed).max(0.0);
        if self.figures == 1 || ratio(difference, allowed) > ratio(self.difference, self.allowed) {
            (self.difference, self.allowed) = (difference, allowed);
        }
        if difference > allowed {
            self.faults.push(fault());
        }
    }
}

/// Compares a value that a notebook computes with `printed`, the output of the original Python
/// notebook, such as `tensor([0.1000, 0.2000])`. If `within` contains a tolerance, it replaces the
/// one derived from the printed digits.
///
/// If the computed value is an array, the printed output can have brackets, with an ellipsis where
/// PyTorch omits numbers. It can also be a sequence of numbers without brackets.
///
/// # Errors
///
/// Returns an error if the printed output and the computed value have different shapes, or if the
/// output contains nothing that can be compared.
pub(crate) fn compare(value: &Value, printed: &str, within: Option<f64>) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    let mut note_text = |computed: &str, printed: &str| {
        let difference = if computed == printed {
            0.0
        } else {
            f64::INFINITY
        };
        let fault = || format!("printed {printed:?}, computed {computed:?}");
        verdict.note(difference, 0.0, fault);
    };
    let (array, kind) = match value {
        Value::Numbers(array, kind) | Value::Lines(array, kind, _) => (array, kind),
        Value::Text(text) => {
            note_text(text, printed);
            return Ok(verdict);
        }
        Value::Texts(texts) => {
            let list: Vec<&str> = TEXT.find_iter(printed).map(|text| text.as_str()).collect();
            let (printed, computed) = (list.len(), texts.len());
            ensure!(
                printed == computed,
                "the document prints {printed} texts, but {computed} were computed"
            );
            for (text, printed) in texts.iter().zip(list) {
                note_text(&torch_form::quoted(text), printed);
            }
            return Ok(verdict);
        }
    };
    // Any text outside the brackets of a printed array is a label, such as `tensor(`, and isn't
    // compared.
    let inside = match (printed.find('['), printed.rfind(']')) {
        (Some(start), Some(end)) => &printed[start..=end],
        _ => printed,
    };
    let (theirs, literals) = read(inside);
    let (mut ours, numbers) = torch_form::shown(array);
    ours.retain(|mark| mark == 'x' || theirs.contains('['));
    ensure!(
        ours == theirs,
        "the layout of the printed output doesn't match the computed value, which has the shape {:?}",
        array.shape()
    );
    for ((at, computed), (literal, _)) in numbers.iter().zip(&literals) {
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
    ensure!(
        verdict.figures > 0,
        "the printed output contains no number to compare with"
    );
    Ok(verdict)
}

/// Matches a string in single or double quotes in the output of a Python notebook, such as `'It'`
/// or `"'s"`.
static TEXT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?s)'(\\.|[^'\\])*'|"(\\.|[^"\\])*""#).expect("a regular expression")
});

/// Parses an array in the output of a Python notebook. Returns the layout of the array in the
/// notation of [`torch_form::shown`], such as `[[xx][xx]]`. Also returns the numbers in the array,
/// each with its byte range in `text`. Words that aren't numbers are treated as labels and ignored.
fn read(text: &str) -> (String, Vec<(Literal, Range<usize>)>) {
    static WORD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"[\[\]]|[^\s\[\]()'"]+"#).expect("a regular expression"));
    // If the printed output contains no brackets, a comma separates groups of digits, as in
    // 163,009,536. Otherwise, a comma separates two numbers of an array or list.
    let text = match text.contains('[') {
        true => text.replace(',', " "),
        false => text.to_owned(),
    };
    let (mut form, mut numbers) = (String::new(), Vec::new());
    for word in WORD.find_iter(&text) {
        match word.as_str() {
            bracket @ ("[" | "]") => form += bracket,
            "..." => form.push('.'),
            number => {
                if let Some(literal) = Literal::parse(number) {
                    form.push('x');
                    numbers.push((literal, word.range()));
                }
            }
        }
    }
    (form, numbers)
}

/// Returns the numbers in the output of a Python notebook, such as `tensor([0.1000, 0.2000])`, each
/// with its byte range in `text`.
pub fn numbers(text: &str) -> Vec<(f64, Range<usize>)> {
    let (_, numbers) = read(text);
    let numbers = numbers.into_iter();
    numbers
        .map(|(literal, place)| (literal.value, place))
        .collect()
}

/// Returns the numbers in the output of a Python notebook, each as a pair of its value and its
/// tolerance. The tolerance is derived from the printed digits. It is the largest accepted
/// difference between the number and a computed value.
pub fn allowances(text: &str) -> Vec<(f64, f64)> {
    let (_, numbers) = read(text);
    let numbers = numbers.iter();
    numbers
        .map(|(literal, _)| (literal.value, literal.allowed()))
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
