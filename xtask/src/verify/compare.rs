//! Computed values against printed figures: every number of a case, one verdict.
//!
//! A figure without a computed value, or the other way round, fails the case; nothing is skipped silently.

use anyhow::{Result, ensure};
use ndarray::{ArrayView, Dimension};

use super::table::{Case, Figure, Kind};

/// What a case's function computed, by the names of its figures.
#[derive(Default)]
pub(crate) struct Computed {
    values: Vec<(String, Value)>,
}

/// One computed value.
pub(crate) enum Value {
    /// An array of floats in row-major order, with its shape.
    Numbers(Vec<usize>, Vec<f64>),
    /// Whole numbers.
    WholeNumbers(Vec<u64>),
    /// A text.
    Text(String),
    /// A list of texts.
    Strings(Vec<String>),
    /// Two arrays that must agree in every bit.
    Pair(Vec<f32>, Vec<f32>),
}

impl Computed {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn push(mut self, name: &str, value: Value) -> Self {
        self.values.push((name.to_owned(), value));
        self
    }

    /// An array.
    pub(crate) fn numbers<D: Dimension>(self, name: &str, array: ArrayView<'_, f32, D>) -> Self {
        let values = array.iter().copied().map(f64::from).collect();
        self.push(name, Value::Numbers(array.shape().to_vec(), values))
    }

    /// A vector.
    pub(crate) fn series<T: Into<f64>>(
        self,
        name: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        let values: Vec<f64> = values.into_iter().map(Into::into).collect();
        self.push(name, Value::Numbers(vec![values.len()], values))
    }

    /// One number.
    pub(crate) fn number(self, name: &str, value: impl Into<f64>) -> Self {
        self.push(name, Value::Numbers(Vec::new(), vec![value.into()]))
    }

    /// Token ids, or the counts of a histogram.
    pub(crate) fn ids<T: Into<u64>>(self, name: &str, ids: impl IntoIterator<Item = T>) -> Self {
        self.push(
            name,
            Value::WholeNumbers(ids.into_iter().map(Into::into).collect()),
        )
    }

    /// A shape.
    pub(crate) fn shape(self, name: &str, shape: &[usize]) -> Self {
        self.push(
            name,
            Value::WholeNumbers(shape.iter().map(|&size| size as u64).collect()),
        )
    }

    /// One whole number.
    pub(crate) fn count(self, name: &str, count: usize) -> Self {
        self.push(name, Value::WholeNumbers(vec![count as u64]))
    }

    /// A text.
    pub(crate) fn text(self, name: &str, text: impl Into<String>) -> Self {
        self.push(name, Value::Text(text.into()))
    }

    /// A list of texts.
    pub(crate) fn strings<T: Into<String>>(
        self,
        name: &str,
        texts: impl IntoIterator<Item = T>,
    ) -> Self {
        self.push(
            name,
            Value::Strings(texts.into_iter().map(Into::into).collect()),
        )
    }

    /// Two arrays that must agree in every bit.
    pub(crate) fn identical<'a>(
        self,
        name: &str,
        one: impl IntoIterator<Item = &'a f32>,
        other: impl IntoIterator<Item = &'a f32>,
    ) -> Self {
        let pair = Value::Pair(
            one.into_iter().copied().collect(),
            other.into_iter().copied().collect(),
        );
        self.push(name, pair)
    }
}

/// The verdict on one case.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// How many numbers (ids, sizes, texts) were compared.
    pub(crate) numbers: usize,
    /// The difference that comes nearest to its allowance, or exceeds it most.
    pub(crate) max_diff: f64,
    /// The allowance of that number.
    pub(crate) allowed: f64,
    /// What does not agree; empty when the case passes.
    pub(crate) faults: Vec<String>,
}

impl Verdict {
    /// How much of its allowance the worst number uses; over 1 is a failure.
    pub(crate) fn severity(&self) -> f64 {
        let ratio = ratio(self.max_diff, self.allowed);
        if ratio <= 1.0 && !self.faults.is_empty() {
            f64::INFINITY
        } else {
            ratio
        }
    }

    fn note(&mut self, difference: f64, allowed: f64, fault: impl FnOnce() -> String) {
        self.numbers += 1;
        let (new, old) = (
            ratio(difference, allowed),
            ratio(self.max_diff, self.allowed),
        );
        if new > old || (new == old && allowed > self.allowed) {
            (self.max_diff, self.allowed) = (difference, allowed);
        }
        if difference > allowed {
            self.faults.push(fault());
        }
    }

    fn exact<T: PartialEq + std::fmt::Debug>(&mut self, name: &str, printed: &[T], computed: &[T]) {
        if printed.len() != computed.len() {
            self.faults.push(format!(
                "{name}: {} printed, {} computed",
                printed.len(),
                computed.len()
            ));
        }
        for (index, (printed, computed)) in printed.iter().zip(computed).enumerate() {
            let difference = if printed == computed {
                0.0
            } else {
                f64::INFINITY
            };
            self.note(difference, 0.0, || {
                format!("{name}[{index}]: printed {printed:?}, computed {computed:?}")
            });
        }
    }
}

/// `difference` in units of its allowance.
fn ratio(difference: f64, allowed: f64) -> f64 {
    if difference == 0.0 {
        0.0
    } else {
        difference / allowed
    }
}

/// Compares every figure of `case` with the computed value of the same name.
///
/// # Errors
/// The table itself is faulty, or names don't match.
pub(crate) fn compare(case: &Case, computed: &Computed) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    ensure!(
        case.figures.len() == computed.values.len(),
        "{} has {} figures, {} were computed",
        case.id,
        case.figures.len(),
        computed.values.len()
    );
    for (figure, (name, value)) in case.figures.iter().zip(&computed.values) {
        ensure!(
            figure.name == *name,
            "{}: figure `{}`, but `{name}` was computed",
            case.id,
            figure.name
        );
        compare_figure(figure, value, &mut verdict)?;
    }
    Ok(verdict)
}

fn compare_figure(figure: &Figure, value: &Value, verdict: &mut Verdict) -> Result<()> {
    let name = &figure.name;
    match (figure.kind, value) {
        (Kind::Numbers, Value::Numbers(shape, values)) => {
            let literals = figure.literals()?;
            if *shape != figure.shape.clone().unwrap_or_default() {
                verdict.faults.push(format!(
                    "{name}: printed shape {:?}, computed {shape:?}",
                    figure.shape
                ));
            }
            if literals.len() != values.len() {
                verdict.faults.push(format!(
                    "{name}: {} printed, {} computed",
                    literals.len(),
                    values.len()
                ));
            }
            for (index, (literal, &computed)) in literals.iter().zip(values).enumerate() {
                let difference = literal.difference(computed);
                verdict.note(difference, literal.allowed(figure.rule), || {
                    format!(
                        "{name}[{index}]: printed {}, computed {computed}",
                        literal.value
                    )
                });
            }
        }
        (Kind::Ids | Kind::Shape | Kind::Count, Value::WholeNumbers(values)) => {
            verdict.exact(name, &figure.whole_numbers()?, values);
        }
        (Kind::Text, Value::Text(text)) => verdict.exact(name, &[figure.text()?], &[text.as_str()]),
        (Kind::Strings, Value::Strings(texts)) => verdict.exact(name, figure.strings()?, texts),
        (Kind::Identity, Value::Pair(one, other)) => {
            let bits = |values: &[f32]| {
                values
                    .iter()
                    .map(|value| value.to_bits())
                    .collect::<Vec<_>>()
            };
            verdict.exact(name, &bits(one), &bits(other));
        }
        (kind, _) => verdict.faults.push(format!(
            "{name}: a figure of kind {kind:?} was computed as another kind"
        )),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    fn case(figure: &str) -> Case {
        let head = "id = 'x'\nsource = 's'\nwhat = 'w'\n";
        toml::from_str(&format!("{head}[[figure]]\n{figure}")).unwrap()
    }

    #[test]
    fn one_wrong_number_among_many_fails_and_is_named() {
        let case = case(
            "name = 'a'\nkind = 'numbers'\nshape = [2, 2]\nprinted = '0.1000 0.2000 0.3000 0.4000'",
        );
        let good = array![[0.1f32, 0.2], [0.3, 0.4]];
        let mut bad = good.clone();
        bad[[1, 0]] += 1e-4;
        assert_eq!(
            compare(&case, &Computed::new().numbers("a", good.view()))
                .unwrap()
                .faults,
            Vec::<String>::new()
        );
        let verdict = compare(&case, &Computed::new().numbers("a", bad.view())).unwrap();
        assert!(
            verdict.faults[0].starts_with("a[2]: printed 0.3"),
            "{:?}",
            verdict.faults
        );
        assert!(verdict.severity() > 1.0);
    }

    #[test]
    fn a_wrong_shape_or_a_missing_value_fails() {
        let case = case("name = 'a'\nkind = 'numbers'\nshape = [2, 1]\nprinted = '0.1000 0.2000'");
        let wide = array![[0.1f32, 0.2]];
        assert!(
            !compare(&case, &Computed::new().numbers("a", wide.view()))
                .unwrap()
                .faults
                .is_empty()
        );
        assert!(compare(&case, &Computed::new()).is_err());
        assert!(compare(&case, &Computed::new().numbers("b", wide.view())).is_err());
    }

    #[test]
    fn ids_and_texts_are_compared_exactly() {
        let ids = case("name = 'ids'\nkind = 'ids'\nprinted = '1 2 3'");
        assert!(
            compare(&ids, &Computed::new().ids("ids", [1u32, 2, 3]))
                .unwrap()
                .faults
                .is_empty()
        );
        assert_eq!(
            compare(&ids, &Computed::new().ids("ids", [1u32, 2, 4]))
                .unwrap()
                .severity(),
            f64::INFINITY
        );
        assert!(
            !compare(&ids, &Computed::new().ids("ids", [1u32, 2]))
                .unwrap()
                .faults
                .is_empty()
        );
        let text = case("name = 't'\nkind = 'text'\nprinted = 'a b'");
        assert!(
            !compare(&text, &Computed::new().text("t", "a  b"))
                .unwrap()
                .faults
                .is_empty()
        );
    }
}
