//! How PyTorch or Python prints a value: four digits, the widths, the line breaks and the ellipses
//! of `torch.set_printoptions()`'s defaults.

use crate::value::{Kind, Value};

/// Larger tensors show three items at each end of an axis.
const THRESHOLD: usize = 1000;
const EDGE: usize = 3;
const LINE_WIDTH: usize = 80;

/// The value as the document would print it.
pub(crate) fn print(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Texts(texts) => format!(
            "[{}]",
            texts
                .iter()
                .map(|text| quoted(text))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        Value::Numbers {
            shape,
            values,
            kind,
        } => match (kind, shape.as_slice()) {
            (Kind::Tensor, []) => format!("tensor({})", Format::of(values, kind).number(values[0])),
            (_, []) => python(values[0], kind),
            (Kind::Python | Kind::Whole, [_]) => {
                format!(
                    "[{}]",
                    values
                        .iter()
                        .map(|&value| python(value, kind))
                        .collect::<Vec<_>>()
                        .join(", ")
                )
            }
            _ => tensor(shape, values, kind),
        },
    }
}

fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
    format!(
        "{quote}{}{quote}",
        if quote == '\'' {
            escaped.replace('\'', "\\'")
        } else {
            escaped
        }
    )
}

fn python(value: f64, kind: &Kind) -> String {
    match kind {
        Kind::Whole => format!("{value}"),
        Kind::Python | Kind::Tensor => format!("{value:?}"),
    }
}

fn tensor(shape: &[usize], values: &[f64], kind: &Kind) -> String {
    let summarize = values.len() > THRESHOLD;
    let mut visible = Vec::new();
    collect(shape, values, summarize, &mut visible);
    let format = Format::of(&visible, kind);
    format!(
        "tensor({})",
        nested(shape, values, summarize, "tensor([".len(), &format)
    )
}

/// The indices of an axis that are printed; `None` is the ellipsis.
fn places(size: usize, summarize: bool) -> Vec<Option<usize>> {
    if summarize && size > 2 * EDGE {
        (0..EDGE)
            .map(Some)
            .chain([None])
            .chain((size - EDGE..size).map(Some))
            .collect()
    } else {
        (0..size).map(Some).collect()
    }
}

fn collect(shape: &[usize], values: &[f64], summarize: bool, visible: &mut Vec<f64>) {
    let [size, inner @ ..] = shape else {
        return visible.extend(values);
    };
    let step: usize = inner.iter().product();
    for index in places(*size, summarize).into_iter().flatten() {
        collect(
            inner,
            &values[index * step..(index + 1) * step],
            summarize,
            visible,
        );
    }
}

fn nested(
    shape: &[usize],
    values: &[f64],
    summarize: bool,
    indent: usize,
    format: &Format,
) -> String {
    let places = places(shape[0], summarize).into_iter();
    let gap = " ".repeat(indent);
    if let [_] = shape {
        let a_line = ((LINE_WIDTH - indent + 1) / (format.width + 2)).max(1);
        let items: Vec<String> = places
            .map(|place| place.map_or(" ...".to_owned(), |place| format.number(values[place])))
            .collect();
        let lines: Vec<String> = items.chunks(a_line).map(|line| line.join(", ")).collect();
        return format!("[{}]", lines.join(&format!(",\n{gap}")));
    }
    let step: usize = shape[1..].iter().product();
    let slices: Vec<String> = places
        .map(|place| match place {
            Some(place) => nested(
                &shape[1..],
                &values[place * step..(place + 1) * step],
                summarize,
                indent + 1,
                format,
            ),
            None => "...".to_owned(),
        })
        .collect();
    let newlines = "\n".repeat(shape.len() - 1);
    format!("[{}]", slices.join(&format!(",{newlines}{gap}")))
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
    fn of(visible: &[f64], kind: &Kind) -> Self {
        let finite: Vec<f64> = visible
            .iter()
            .copied()
            .filter(|value| value.is_finite() && *value != 0.0)
            .collect();
        let most = finite
            .iter()
            .fold(0.0, |most: f64, value| most.max(value.abs()));
        let least = finite
            .iter()
            .fold(f64::INFINITY, |least, value| least.min(value.abs()));
        let whole = finite.iter().all(|value| value.fract() == 0.0);
        let style = match kind {
            Kind::Whole => Style::Id,
            _ if most / least > 1000.0 || most > 1e8 || (!whole && least < 1e-4) => {
                Style::Scientific
            }
            _ if whole => Style::Whole,
            _ => Style::Decimals,
        };
        let mut format = Self { style, width: 0 };
        let widths = |values: &[f64]| values.iter().map(|&value| format.number(value).len()).max();
        format.width = match format.style {
            Style::Id => widths(visible),
            _ => widths(&finite),
        }
        .unwrap_or(1);
        format
    }

    /// Right-aligned.
    fn number(&self, value: f64) -> String {
        let text = match self.style {
            _ if value.is_infinite() => format!("{value}"),
            Style::Id => format!("{value}"),
            Style::Whole => format!("{value:.0}."),
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
