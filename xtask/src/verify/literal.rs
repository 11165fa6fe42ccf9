//! A printed number, kept as its text, and how far a computed value may lie from it.
//!
//! The allowance follows from the digits that were printed, never from the case:
//! a number with `d` decimals allows half a unit of the last one plus 1e-5 of its size,
//! `0.5 * 10^-d + 1e-5 * max(1, |printed|)`; a scientific print follows the same rule on its mantissa.
//! It does not round: a value on a rounding edge would flip.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Slack for summation order and vector instructions, relative to `max(1, |printed|)`.
const SLACK: f64 = 1e-5;

/// How the allowance of a figure's numbers follows from their text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rule {
    /// Half a unit of the last printed decimal, plus slack.
    #[default]
    Printed,
    /// All digits of a float were printed: relative 1e-5.
    FullPrecision,
    /// Rounding noise around zero: absolute 1e-6.
    Noise,
    /// Equal as an f32.
    Exact,
    /// One unit of the last printed decimal.
    LastUnit,
    /// The training table of chapter 5: absolute 5e-3.
    TrainingTable,
}

/// One printed number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Literal {
    /// What the text says.
    pub(crate) value: f64,
    /// Decimals of the mantissa.
    decimals: i32,
    /// Power of ten of a scientific print.
    exponent: i32,
}

impl Literal {
    /// Reads a number as Python or PyTorch prints it: `0.2996`, `2.`, `-1.2e-03`, `-inf`, `163,009,536`.
    ///
    /// # Errors
    /// The text is no number.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let plain = text.replace(',', "");
        let value: f64 = plain
            .parse()
            .with_context(|| format!("`{text}` is no number"))?;
        if value.is_nan() {
            bail!("`{text}` is no number");
        }
        let (mantissa, exponent) = match plain.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().context("exponent")?),
            None => (plain.as_str(), 0),
        };
        let decimals = mantissa.split_once('.').map_or(0, |(_, after)| after.len());
        Ok(Self {
            value,
            decimals: i32::try_from(decimals).context("decimals")?,
            exponent,
        })
    }

    /// The largest difference from the printed value that `rule` allows.
    pub(crate) fn allowed(&self, rule: Rule) -> f64 {
        if self.value.is_infinite() {
            return 0.0;
        }
        let size = self.value.abs();
        match rule {
            Rule::FullPrecision => 1e-5 * size,
            Rule::Noise => 1e-6,
            Rule::LastUnit => 10f64.powi(self.exponent - self.decimals),
            Rule::TrainingTable => 5e-3,
            Rule::Exact => f64::from(f32::EPSILON) * size,
            Rule::Printed => {
                let unit = 10f64.powi(self.exponent);
                let mantissa = size / unit;
                // PyTorch prints `2.` only when every value is whole, so no half unit is hidden there.
                let half_unit = if self.decimals == 0 {
                    0.0
                } else {
                    0.5 * 10f64.powi(-self.decimals)
                };
                (half_unit + SLACK * mantissa.max(1.0)) * unit
            }
        }
    }

    /// How far `computed` lies from the printed value: 0 for equal infinities.
    pub(crate) fn difference(&self, computed: f64) -> f64 {
        if computed == self.value {
            return 0.0;
        }
        let difference = (computed - self.value).abs();
        if difference.is_nan() {
            f64::INFINITY
        } else {
            difference
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(text: &str) -> f64 {
        Literal::parse(text).unwrap().allowed(Rule::Printed)
    }

    #[test]
    fn the_allowance_follows_from_the_printed_decimals() {
        assert!((allowed("0.2996") - 6e-5).abs() < 1e-12);
        assert!((allowed("621.83") - (5e-3 + 6.2183e-3)).abs() < 1e-9);
        assert!((allowed("-9.1476e-02") - (5e-5 + 9.1476e-5) * 1e-2).abs() < 1e-12);
        assert!((allowed("2.") - 2e-5).abs() < 1e-12);
        assert!((allowed("0") - 1e-5).abs() < 1e-12);
    }

    #[test]
    fn infinities_must_be_equal_and_nan_never_passes() {
        let literal = Literal::parse("-inf").unwrap();
        assert_eq!(literal.difference(f64::NEG_INFINITY), 0.0);
        assert_eq!(literal.difference(1.0), f64::INFINITY);
        assert_eq!(
            Literal::parse("1.0").unwrap().difference(f64::NAN),
            f64::INFINITY
        );
        assert_eq!(literal.allowed(Rule::Printed), 0.0);
    }

    #[test]
    fn text_that_is_no_number_is_an_error() {
        for text in ["", "abc", "nan", "1.2.3", "e5"] {
            assert!(Literal::parse(text).is_err(), "{text}");
        }
    }
}
