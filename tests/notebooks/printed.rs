//! A printed output against a computed value: labels, brackets, rows, elided middles, lists of
//! texts.
//!
//! How far a number may lie off follows from its digits ([`Literal`]); whole numbers and texts are
//! exact.

use std::ops::Range;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail, ensure};
use ndarray::Dimension;
use regex::{Captures, Match, Regex};

use crate::literal::Literal;
use crate::value::{Kind, Value};

/// The verdict on one printed output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// How many numbers or texts were compared.
    pub figures: usize,
    /// The difference that comes nearest to its allowance, or exceeds it most.
    pub difference: f64,
    /// The allowance of that number.
    pub allowed: f64,
    /// What does not agree; empty when the cell passes.
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

/// Compares a computed value with what a document printed; `within` replaces the rule of the
/// digits.
///
/// # Errors
/// `printed` is not the kind of output that the value has, or has another shape.
pub(crate) fn compare(value: &Value, printed: &str, within: Option<f64>) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    match value {
        Value::Text(text) => verdict.note_text(text, printed),
        Value::Texts(texts) => {
            for (printed, place) in read(items_of_list(printed), &[texts.len()])? {
                verdict.note_text(&texts[place], &printed);
            }
        }
        Value::Numbers(array, kind) => {
            let numbers = match printed.contains('[') {
                true => read(items_of_array(printed), array.shape())?,
                false => {
                    let columns = match array.shape() {
                        [] | [_] => array.len(),
                        [.., columns] => *columns,
                    };
                    let rows = array.len() / columns.max(1);
                    read(items_of_table(printed, rows), &[rows, columns])?
                }
            };
            let computed: Vec<_> = array.indexed_iter().collect();
            for (literal, place) in numbers {
                let (at, computed) = &computed[place];
                let computed = **computed;
                let allowed = match kind {
                    Kind::Whole => 0.0,
                    _ => within.unwrap_or_else(|| literal.allowed()),
                };
                verdict.note(literal.difference(computed), allowed, || {
                    let computed = match kind {
                        Kind::Tensor => (computed as f32).to_string(),
                        _ => computed.to_string(),
                    };
                    let printed = &literal.text;
                    format!("{:?}: printed {printed}, computed {computed}", at.slice())
                });
            }
        }
    }
    ensure!(
        verdict.figures > 0 || printed.trim() == "[]",
        "nothing is printed there"
    );
    Ok(verdict)
}

/// A part of a printed array.
#[derive(Debug, PartialEq)]
enum Item<T> {
    Open,
    Close,
    /// An ellipsis.
    Gap,
    Value(T),
}

/// The values of a printed array of this shape, each with its place.
fn read<T>(items: Vec<Item<T>>, shape: &[usize]) -> Result<Vec<(T, usize)>> {
    let (mut items, mut places) = (items.into_iter().peekable(), Vec::new());
    read_from(&mut items, shape, 0, &mut places)?;
    ensure!(items.next().is_none(), "several arrays are printed");
    Ok(places)
}

/// Reads an array whose first value has the place `start`; what stands behind an ellipsis is
/// counted from the end.
fn read_from<T>(
    items: &mut std::iter::Peekable<std::vec::IntoIter<Item<T>>>,
    shape: &[usize],
    start: usize,
    places: &mut Vec<(T, usize)>,
) -> Result<()> {
    let ([size, inner @ ..], Some(Item::Open)) = (shape, items.peek()) else {
        match (shape, items.next()) {
            ([], Some(Item::Value(value))) => places.push((value, start)),
            (_, Some(_)) => bail!("an array with other dimensions is printed"),
            (_, None) => bail!("no whole array is printed"),
        }
        return Ok(());
    };
    items.next();
    let step: usize = inner.iter().product();
    let (mut printed, mut behind_gap) = (0, None);
    while items
        .peek()
        .is_some_and(|item| !matches!(item, Item::Close))
    {
        if items.next_if(|item| matches!(item, Item::Gap)).is_some() {
            behind_gap = Some(places.len());
        } else {
            read_from(items, inner, start + printed * step, places)?;
            printed += 1;
        }
    }
    items.next().context("`[` without `]`")?;
    let fits = match behind_gap {
        Some(_) => printed < *size,
        None => printed == *size,
    };
    ensure!(fits, "{printed} printed, {size} computed");
    let behind_gap = behind_gap.unwrap_or(places.len());
    for (_, place) in &mut places[behind_gap..] {
        *place += (size - printed) * step;
    }
    Ok(())
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

/// Numbers without brackets: a line is a row, if there are several.
fn items_of_table(text: &str, rows: usize) -> Vec<Item<Literal>> {
    let lines: Vec<&str> = match rows {
        1 => vec![text],
        _ => text.lines().filter(|it| !it.trim().is_empty()).collect(),
    };
    let mut table = vec![Item::Open];
    for line in lines {
        table.push(Item::Open);
        table.extend(items(line).into_iter().map(|(_, item)| item));
        table.push(Item::Close);
    }
    table.push(Item::Close);
    table
}

/// The texts of a printed list.
fn items_of_list(list: &str) -> Vec<Item<String>> {
    static ITEM: LazyLock<Regex> = LazyLock::new(|| {
        let item = r#"(?s)\.\.\.|'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)""#;
        Regex::new(item).expect("a regular expression")
    });
    static ESCAPE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)\\(.)").expect("a regular expression"));
    let character = |escape: &Captures<'_>| match &escape[1] {
        "n" => "\n".to_owned(),
        other => other.to_owned(),
    };
    let items = ITEM.captures_iter(list).map(|item| {
        let text = item.get(1).or(item.get(2));
        text.map_or(Item::Gap, |text| {
            Item::Value(ESCAPE.replace_all(text.as_str(), character).into_owned())
        })
    });
    [Item::Open]
        .into_iter()
        .chain(items)
        .chain([Item::Close])
        .collect()
}

#[cfg(test)]
mod tests {
    use ndarray::array;

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
        let row = array![[1u32, 2, 3, 4, 5]];
        assert!(faults(row.clone(), "tensor([[1, 2,  ..., 5]])").is_empty());
        assert!(faults(row.clone(), "1 ... 4 5").is_empty());
        assert_eq!(faults(row.clone(), "[[1, 2, ..., 4]]").len(), 1);
        assert!(compare(&row.value(), "[[1, 2, 5]]", None).is_err());
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
