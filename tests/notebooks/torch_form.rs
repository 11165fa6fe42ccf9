//! Formats the values computed by a notebook the way PyTorch or Python prints them, so that they
//! look like the output of the original document. A notebook is a Rust port of an original
//! document, usually one of the book's Python notebooks. Tensors are formatted with PyTorch's
//! default print options (see `torch.set_printoptions()`). These options determine the number of
//! digits, the column widths, the line breaks and the ellipses.

use ndarray::{ArrayD, Dimension};

use crate::value::{Kind, Value};

/// Maximum number of elements in a tensor that PyTorch prints in full. If a tensor has more
/// elements, PyTorch prints only the first and last [`EDGE`] items along each axis.
const THRESHOLD: usize = 1000;
const EDGE: usize = 3;
const LINE_WIDTH: usize = 80;

/// Formats a value computed by a notebook the way Python prints it in the original notebook, such
/// as `tensor([2., 0.])` for an array, or `['It', "'s"]` for a list of strings.
pub(crate) fn print(value: &Value) -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    match value {
        Value::Text(text) | Value::Lines(_, _, text) => text.clone(),
        Value::Texts(texts) => list(texts.iter().map(|text| quoted(text)).collect()),
        Value::Numbers(array, kind) if *kind != Kind::Tensor && array.ndim() < 2 => {
            let numbers = array.iter().map(|value| match kind {
                Kind::Whole => value.to_string(),
                _ if value.is_nan() => "nan".to_owned(),
                _ => format!("{value:?}"),
            });
            match array.ndim() {
                0 => numbers.collect(),
                _ => list(numbers.collect()),
            }
        }
        Value::Numbers(array, kind) => tensor(array, kind),
    }
}

/// Returns a string in quotes, the way Python prints it as an item of a list. The quotes are
/// usually single quotes, as in `'It'`. If the string contains a single quote but no double quotes,
/// they are double quotes, as in `"'s"`.
pub(crate) fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
    match text.contains('\'') && !text.contains('"') {
        true => format!("\"{escaped}\""),
        false => format!("'{}'", escaped.replace('\'', "\\'")),
    }
}

/// Returns the layout in which PyTorch prints an array, together with the printed numbers and their
/// indices in the array. The layout is a string that consists of the printed brackets, an `x` for
/// each number, and a `.` for each ellipsis in place of omitted numbers. For example, a 2×2 array
/// has the layout `[[xx][xx]]`.
pub(crate) fn shown(array: &ArrayD<f64>) -> (String, Vec<(Vec<usize>, f64)>) {
    let (mut form, mut numbers) = (String::new(), Vec::new());
    for (at, &value) in array.indexed_iter() {
        let at = at.slice();
        let axes = at.iter().zip(array.shape());
        // PyTorch prints `begins` opening brackets directly before this number and `ends` closing
        // brackets directly after it. There is one bracket for each row or larger block of the
        // array that begins or ends with this number.
        let begins = axes.clone().rev().take_while(|(place, _)| **place == 0);
        let ends = axes.rev().take_while(|(place, size)| **place + 1 == **size);
        let (begins, ends) = (begins.count(), ends.count());
        let is_hidden = |axis: &usize| {
            let middle = EDGE..array.shape()[*axis].saturating_sub(EDGE);
            array.len() > THRESHOLD && middle.contains(&at[*axis])
        };
        match (0..at.len()).find(is_hidden) {
            None => {
                form += &format!("{}x{}", "[".repeat(begins), "]".repeat(ends));
                numbers.push((at.to_vec(), value));
            }
            Some(axis) if at[axis] == EDGE && begins + axis + 1 >= at.len() => form.push('.'),
            Some(_) => {}
        }
    }
    (form, numbers)
}

fn tensor(array: &ArrayD<f64>, kind: &Kind) -> String {
    let (form, numbers) = shown(array);
    let format = Format::of(numbers.iter().map(|(_, value)| *value), kind);
    let mut numbers = numbers.into_iter().map(|(_, value)| format.number(value));
    let mut text = "tensor(".to_owned();
    let (mut depth, mut in_line) = (0, 0);
    for mark in form.chars() {
        let indent = "tensor(".len() + depth;
        let a_line = (LINE_WIDTH - indent + 1) / (format.width + 2);
        let is_row = depth == array.ndim();
        if text.ends_with(['(', '[']) || mark == ']' {
            in_line = 0;
        } else if is_row && in_line < a_line {
            text += ", ";
        } else {
            let newlines = "\n".repeat((array.ndim() - depth).max(1));
            text += &format!(",{newlines}{}", " ".repeat(indent));
            in_line = 0;
        }
        in_line += 1;
        match mark {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        match mark {
            'x' => text.extend(numbers.next()),
            '.' => text += if is_row { " ..." } else { "..." },
            bracket => text.push(bracket),
        }
    }
    text + ")"
}

/// Format in which PyTorch prints the numbers of a tensor. All numbers of a tensor have the same
/// notation, such as four decimals or scientific notation, and are padded to the same width.
struct Format {
    write: fn(f64) -> String,
    width: usize,
}

impl Format {
    fn of(shown: impl Iterator<Item = f64> + Clone, kind: &Kind) -> Self {
        let finite = shown.filter(|value| value.is_finite() && *value != 0.0);
        let sizes = || finite.clone().map(f64::abs);
        let (most, least) = (
            sizes().fold(0.0, f64::max),
            sizes().fold(f64::INFINITY, f64::min),
        );
        let whole = sizes().all(|size| size.fract() == 0.0);
        let write: fn(f64) -> String = match kind {
            Kind::Whole => |value| value.to_string(),
            _ if most / least > 1000.0 || most > 1e8 || (!whole && least < 1e-4) => scientific,
            _ if whole => |value| format!("{value}."),
            _ => |value| format!("{value:.4}"),
        };
        let width = finite.map(|value| write(value).len()).max().unwrap_or(1);
        Self { write, width }
    }

    /// Formats a number of a tensor and pads it on the left with spaces up to the width of the
    /// tensor's columns.
    fn number(&self, value: f64) -> String {
        let text = match value {
            _ if value.is_nan() => "nan".to_owned(),
            _ if value.is_infinite() => value.to_string(),
            _ => (self.write)(value),
        };
        format!("{text:>width$}", width = self.width)
    }
}

/// Formats a number of a tensor in Python's scientific notation, such as `1.0720e+00`. PyTorch uses
/// this notation if the numbers of the tensor are very large, are very small, or differ by a large
/// factor.
fn scientific(value: f64) -> String {
    let text = format!("{value:.4e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let sign = if exponent.starts_with('-') { '-' } else { '+' };
    let digits = exponent.trim_start_matches('-');
    format!("{mantissa}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use super::*;
    use crate::value::Shown;

    #[test]
    fn tensors_print_as_in_the_book() {
        let x = array![
            [[0.1f32, -0.25], [1.0, 2.0]],
            [[0.0, f32::NEG_INFINITY], [3.0, 4.0]]
        ];
        let printed = "\
tensor([[[ 0.1000, -0.2500],
         [ 1.0000,  2.0000]],

        [[ 0.0000,    -inf],
         [ 3.0000,  4.0000]]])";
        assert_eq!(print(&x.value()), printed);
        assert_eq!(print(&array![2.0f32, 0.0].value()), "tensor([2., 0.])");
        assert_eq!(
            print(&array![7.4541e-05f32, 3.1061e-05].value()),
            "tensor([7.4541e-05, 3.1061e-05])"
        );
        assert_eq!(print(&0.95442f32.value()), "tensor(0.9544)");
        let nan = f32::NAN;
        assert_eq!(
            print(&array![0.2689, nan].value()),
            "tensor([0.2689,    nan])"
        );
        assert_eq!(print(&array![0.0, nan].value()), "tensor([0., nan])");
        assert_eq!(
            print(&array![1e-9f32, 1.5, nan].value()),
            "tensor([1.0000e-09, 1.5000e+00,        nan])"
        );
        assert_eq!(print(&[nan, 1.0][..].value()), "[nan, 1.0]");
        assert_eq!(print(&[1usize, 10].value()), "[1, 10]");
        assert_eq!(print(&array![1u32, 10].value().clone()), "[1, 10]");
        assert_eq!(print(&vec!["It", "'s"].value()), r#"['It', "'s"]"#);
    }

    #[test]
    fn a_large_tensor_shows_its_ends() {
        let printed = print(&Array2::<f32>::from_elem((2, 501), 0.5).value());
        assert_eq!(
            printed,
            "tensor([[0.5000, 0.5000, 0.5000,  ..., 0.5000, 0.5000, 0.5000],\n        [0.5000, 0.5000, 0.5000,  ..., 0.5000, 0.5000, 0.5000]])"
        );
    }
}
