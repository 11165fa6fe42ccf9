//! A printed output against a computed value: labels, brackets, rows, elided middles, lists of
//! texts.
//!
//! How far a number may lie off follows from its digits ([`Literal`]); whole numbers and texts are
//! exact.

use anyhow::{Context, Result, bail, ensure};

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
    fn note(&mut self, difference: f64, allowed: f64, fault: impl FnOnce() -> String) {
        self.figures += 1;
        let ratio = |difference: f64, allowed: f64| {
            if difference == 0.0 {
                0.0
            } else {
                difference / allowed
            }
        };
        if self.figures == 1 || ratio(difference, allowed) > ratio(self.difference, self.allowed) {
            (self.difference, self.allowed) = (difference, allowed);
        }
        if difference > allowed {
            self.faults.push(fault());
        }
    }
}

/// Compares a computed value with what a document printed; `within` replaces the rule of the
/// digits.
///
/// # Errors
/// `printed` is not the kind of output that the value has.
pub(crate) fn compare(value: &Value, printed: &str, within: Option<f64>) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    match value {
        Value::Text(text) => compare_texts(
            std::slice::from_ref(text),
            &[Some(printed.to_owned())],
            &mut verdict,
        ),
        Value::Texts(texts) => compare_texts(texts, &strings(printed)?, &mut verdict),
        Value::Numbers {
            shape,
            values,
            kind,
        } => {
            let allowed = |literal: &Literal| match kind {
                Kind::Whole => 0.0,
                _ => within.unwrap_or_else(|| literal.allowed()),
            };
            let places = if printed.contains('[') {
                let tree = Node::parse(printed)?;
                let mut places = Vec::new();
                tree.places(shape, 0, &mut places)?;
                places
            } else {
                rows(printed, shape)?
            };
            for (literal, place) in places {
                let computed = values[place];
                verdict.note(literal.difference(computed), allowed(&literal), || {
                    let computed = match kind {
                        Kind::Tensor => (computed as f32).to_string(),
                        _ => computed.to_string(),
                    };
                    format!(
                        "[{}]: printed {}, computed {computed}",
                        indices(place, shape),
                        literal.text
                    )
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

fn compare_texts(computed: &[String], printed: &[Option<String>], verdict: &mut Verdict) {
    let elided = printed.iter().position(Option::is_none);
    let texts = printed.iter().flatten().count();
    if (elided.is_none() && texts != computed.len()) || texts > computed.len() {
        verdict
            .faults
            .push(format!("{texts} printed, {} computed", computed.len()));
    }
    let head = elided.unwrap_or(texts);
    let tail = computed.len().saturating_sub(texts - head);
    let places = (0..head).chain(tail..computed.len());
    for (printed, place) in printed.iter().flatten().zip(places) {
        let computed = computed.get(place).map_or("nothing", String::as_str);
        let difference = if printed == computed {
            0.0
        } else {
            f64::INFINITY
        };
        verdict.note(difference, 0.0, || {
            format!("printed {printed:?}, computed {computed:?}")
        });
    }
}

/// The index of a flat position, as in `3, 1`.
fn indices(mut place: usize, shape: &[usize]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for &size in shape.iter().rev() {
        parts.insert(0, (place % size).to_string());
        place /= size;
    }
    parts.join(", ")
}

/// The nesting of a printed array.
#[derive(Debug)]
enum Node {
    Number(Literal),
    List(Vec<Node>),
    Elided,
}

impl Node {
    /// The one pair of outer brackets in `text`; words around and between the numbers are labels.
    fn parse(text: &str) -> Result<Self> {
        let mut open: Vec<Vec<Node>> = vec![Vec::new()];
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '[' => {
                    open.push(Vec::new());
                    1
                }
                ']' => {
                    let list = open
                        .pop()
                        .filter(|_| !open.is_empty())
                        .context("`]` without `[`")?;
                    open.last_mut()
                        .context("`]` without `[`")?
                        .push(Node::List(list));
                    1
                }
                _ => {
                    let separator = |c: char| c.is_whitespace() || "[](),'\"".contains(c);
                    let word = &rest[..rest.find(separator).unwrap_or(rest.len())];
                    let node = if word == "..." {
                        Some(Node::Elided)
                    } else {
                        Literal::parse(word).map(Node::Number)
                    };
                    // A number outside of the brackets belongs to a label.
                    if open.len() > 1 {
                        open.last_mut().context("an open list")?.extend(node);
                    }
                    word.len().max(first.len_utf8())
                }
            };
            rest = &rest[length..];
        }
        let mut outer = open
            .pop()
            .filter(|_| open.is_empty())
            .context("`[` without `]`")?;
        ensure!(
            outer.len() == 1,
            "{} arrays are printed, not one",
            outer.len()
        );
        outer.pop().context("one array")
    }

    /// Where each printed number stands in an array of this shape.
    fn places(
        self,
        shape: &[usize],
        start: usize,
        places: &mut Vec<(Literal, usize)>,
    ) -> Result<()> {
        match (self, shape) {
            (Node::Number(literal), []) => places.push((literal, start)),
            (Node::List(nodes), [size, inner @ ..]) => {
                let step: usize = inner.iter().product();
                for (node, index) in spread(nodes, *size, |node| matches!(node, Node::Elided))? {
                    node.places(inner, start + index * step, places)?;
                }
            }
            (node, shape) => bail!(
                "{} is printed where the value has the shape {shape:?}",
                node.name()
            ),
        }
        Ok(())
    }

    fn name(&self) -> String {
        match self {
            Node::Number(literal) => literal.text.clone(),
            Node::List(nodes) => format!("a list of {}", nodes.len()),
            Node::Elided => "`...`".to_owned(),
        }
    }
}

/// Numbers without brackets: a line is a row.
fn rows(text: &str, shape: &[usize]) -> Result<Vec<(Literal, usize)>> {
    let size: usize = shape.iter().product();
    let lines: Vec<&str> = match shape.len() {
        0 | 1 => vec![text],
        _ => text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect(),
    };
    let columns = if shape.len() < 2 {
        size
    } else {
        shape[shape.len() - 1]
    };
    ensure!(
        lines.len() * columns == size,
        "{} rows of {columns} are printed, but the value has the shape {shape:?}",
        lines.len()
    );
    let mut places = Vec::new();
    for (row, line) in lines.into_iter().enumerate() {
        let words = line
            .split_whitespace()
            .map(|word| word.trim_start_matches("tensor("))
            .map(|word| word.trim_end_matches([')', ',', ';']).replace(',', ""));
        let nodes: Vec<Node> = words
            .filter_map(|word| {
                if word == "..." {
                    Some(Node::Elided)
                } else {
                    Literal::parse(&word).map(Node::Number)
                }
            })
            .collect();
        for (node, column) in spread(nodes, columns, |node| matches!(node, Node::Elided))? {
            node.places(&[], row * columns + column, &mut places)?;
        }
    }
    Ok(places)
}

/// Gives each printed item its index among `size`: those after an ellipsis count from the end.
fn spread<T>(
    items: Vec<T>,
    size: usize,
    is_elided: impl Fn(&T) -> bool,
) -> Result<Vec<(T, usize)>> {
    let elided = items.iter().position(&is_elided);
    let printed = items.len() - usize::from(elided.is_some());
    ensure!(
        if elided.is_some() {
            printed < size
        } else {
            printed == size
        },
        "{printed} printed, {size} computed"
    );
    let places = items
        .into_iter()
        .filter(|item| !is_elided(item))
        .enumerate();
    Ok(places
        .map(|(index, item)| {
            (
                item,
                if elided.is_some_and(|gap| index >= gap) {
                    size - printed + index
                } else {
                    index
                },
            )
        })
        .collect())
}

/// A printed list of texts, `None` for an ellipsis.
fn strings(text: &str) -> Result<Vec<Option<String>>> {
    let mut strings = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(quote) = characters.next() {
        if quote == '.' && characters.next_if_eq(&'.').is_some() {
            strings.push(None);
        }
        if quote != '\'' && quote != '"' {
            continue;
        }
        let mut string = String::new();
        loop {
            match characters.next().context("a text has no end")? {
                end if end == quote => break,
                '\\' => string.push(match characters.next() {
                    Some('n') => '\n',
                    other => other.context("a text has no end")?,
                }),
                character => string.push(character),
            }
        }
        strings.push(Some(string));
    }
    Ok(strings)
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
        assert_eq!(faults(vec!["It"], "['It', 's']").len(), 2);
        assert_eq!(faults("a  b", "a b").len(), 1);
    }
}
