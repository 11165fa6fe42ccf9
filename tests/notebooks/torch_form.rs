//! Values as PyTorch or Python prints them: four digits, the widths, the line breaks and the
//! ellipses of `torch.set_printoptions()`'s defaults.

use ndarray::{ArrayD, ArrayViewD, Axis};

use crate::printed::Item;
use crate::value::{Kind, Value};

/// Larger tensors show three items at each end of an axis.
const THRESHOLD: usize = 1000;
const EDGE: usize = 3;
const LINE_WIDTH: usize = 80;

/// The value as the document would print it.
pub(crate) fn print(value: &Value) -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    match value {
        Value::Text(text) => text.clone(),
        Value::Texts(texts) => list(texts.iter().map(|text| quoted(text)).collect()),
        Value::Numbers(array, kind) => match (kind, array.ndim(), array.first()) {
            (Kind::Tensor, 0, Some(&value)) => {
                format!("tensor({})", Format::of(array, kind).number(value))
            }
            (_, 0, Some(&value)) => python(value, kind),
            (Kind::Python | Kind::Whole, 1, _) => {
                list(array.iter().map(|&value| python(value, kind)).collect())
            }
            _ => tensor(array, kind),
        },
    }
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
    match text.contains('\'') && !text.contains('"') {
        true => format!("\"{escaped}\""),
        false => format!("'{}'", escaped.replace('\'', "\\'")),
    }
}

fn python(value: f64, kind: &Kind) -> String {
    match kind {
        Kind::Whole => format!("{value}"),
        Kind::Python | Kind::Tensor => format!("{value:?}"),
    }
}

fn tensor(array: &ArrayD<f64>, kind: &Kind) -> String {
    let mut shown = array.clone();
    let is_cut = |&size: &usize| array.len() > THRESHOLD && size > 2 * EDGE;
    let cut: Vec<bool> = array.shape().iter().map(is_cut).collect();
    for (axis, size) in array
        .shape()
        .iter()
        .enumerate()
        .filter(|(axis, _)| cut[*axis])
    {
        let ends: Vec<usize> = (0..EDGE).chain(size - EDGE..*size).collect();
        shown = shown.select(Axis(axis), &ends);
    }
    let format = Format::of(&shown, kind);
    let inside = nested(&shown.view(), &cut, "tensor([".len(), &format);
    format!("tensor({inside})")
}

/// The brackets, ellipses and numbers that are shown of an array, each with its place.
pub(crate) fn items(array: &ArrayD<f64>) -> Vec<Item<(Vec<usize>, f64)>> {
    let mut items = Vec::new();
    let is_cut = array.len() > THRESHOLD;
    items_of(&array.view(), is_cut, &mut Vec::new(), &mut items);
    items
}

fn items_of(
    part: &ArrayViewD<f64>,
    is_cut: bool,
    at: &mut Vec<usize>,
    items: &mut Vec<Item<(Vec<usize>, f64)>>,
) {
    if part.ndim() == 0 {
        items.extend(part.iter().map(|&value| Item::Value((at.clone(), value))));
        return;
    }
    let middle = match part.len_of(Axis(0)) {
        size if is_cut && size > 2 * EDGE => EDGE..size - EDGE,
        _ => 0..0,
    };
    items.push(Item::Open);
    for (place, inner) in part.outer_iter().enumerate() {
        if !middle.contains(&place) {
            at.push(place);
            items_of(&inner, is_cut, at, items);
            at.pop();
        } else if place == middle.start {
            items.push(Item::Gap);
        }
    }
    items.push(Item::Close);
}

/// A part of a tensor, with an ellipsis in the middle of the axes that are `cut`.
fn nested(part: &ArrayViewD<f64>, cut: &[bool], indent: usize, format: &Format) -> String {
    let is_row = part.ndim() == 1;
    let mut items: Vec<String> = match is_row {
        true => part.iter().map(|&value| format.number(value)).collect(),
        false => (part.outer_iter())
            .map(|inner| nested(&inner, &cut[1..], indent + 1, format))
            .collect(),
    };
    if cut[0] {
        items.insert(EDGE, if is_row { " ..." } else { "..." }.to_owned());
    }
    let a_line = match is_row {
        true => ((LINE_WIDTH - indent + 1) / (format.width + 2)).max(1),
        false => 1,
    };
    let lines: Vec<String> = items.chunks(a_line).map(|line| line.join(", ")).collect();
    let newlines = "\n".repeat((part.ndim() - 1).max(1));
    let gap = " ".repeat(indent);
    format!("[{}]", lines.join(&format!(",{newlines}{gap}")))
}

/// PyTorch's choice for a whole tensor.
struct Format {
    style: Style,
    width: usize,
}

enum Style {
    Id,
    Whole,
    Decimals,
    Scientific,
}

impl Format {
    fn of(shown: &ArrayD<f64>, kind: &Kind) -> Self {
        let finite = shown.iter().copied();
        let finite = finite.filter(|value| value.is_finite() && *value != 0.0);
        let sizes = || finite.clone().map(f64::abs);
        let (most, least) = (
            sizes().fold(0.0, f64::max),
            sizes().fold(f64::INFINITY, f64::min),
        );
        let whole = sizes().all(|size| size.fract() == 0.0);
        let style = match kind {
            Kind::Whole => Style::Id,
            _ if most / least > 1000.0 || most > 1e8 || (!whole && least < 1e-4) => {
                Style::Scientific
            }
            _ if whole => Style::Whole,
            _ => Style::Decimals,
        };
        let format = Self { style, width: 0 };
        let widths = finite.map(|value| format.number(value).len());
        let width = widths.max().unwrap_or(1);
        Self { width, ..format }
    }

    /// Right-aligned.
    fn number(&self, value: f64) -> String {
        let text = match self.style {
            _ if value.is_infinite() => format!("{value}"),
            Style::Id => format!("{value}"),
            Style::Whole => format!("{value}."),
            Style::Decimals => format!("{value:.4}"),
            Style::Scientific => {
                let text = format!("{value:.4e}");
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let (sign, digits) = exponent
                    .strip_prefix('-')
                    .map_or(('+', exponent), |digits| ('-', digits));
                format!("{mantissa}e{sign}{digits:0>2}")
            }
        };
        format!("{text:>width$}", width = self.width)
    }
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
