//! A printed number, kept as its text, and how far a computed value may lie from it.
//!
//! The allowance follows from the digits that were printed, never from the cell:
//! a number with `d` decimals allows half a unit of the last one plus 1e-5 of its size,
//! `0.5 * 10^-d + 1e-5 * max(1, |printed|)`.
//! A scientific print follows the same rule on its mantissa; all digits of a float allow 1e-5 of
//! it; rounding noise below 1e-6 allows 1e-6.
//! It does not round: a value on a rounding edge would flip.

/// Slack for summation order and vector instructions, relative to `max(1, |printed|)`.
const SLACK: f64 = 1e-5;
/// A number printed with so many significant digits shows all that its float has.
const FULL_PRECISION: usize = 10;
/// A smaller printed number is the rounding error of a zero.
const NOISE: f64 = 1e-6;

/// One printed number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Literal {
    /// The printed text.
    pub(crate) text: String,
    pub(crate) value: f64,
    /// Decimals of the mantissa.
    decimals: i32,
    /// Power of ten of a scientific print.
    exponent: i32,
}

impl Literal {
    /// A number as Python or PyTorch prints it: `0.2996`, `2.`, `-1.2e-03`, `-inf`, `163,009,536`;
    /// `None` for a label.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end_matches([',', ';']).replace(',', "");
        let value: f64 = text.parse().ok().filter(|value: &f64| !value.is_nan())?;
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
            None => (text.as_str(), 0),
        };
        let decimals = mantissa.split_once('.').map_or(0, |(_, after)| after.len());
        let decimals = i32::try_from(decimals).ok()?;
        Some(Self {
            text,
            value,
            decimals,
            exponent,
        })
    }

    /// The largest difference from the printed value that its digits allow.
    pub(crate) fn allowed(&self) -> f64 {
        let size = self.value.abs();
        let digits = self.text.chars().filter(char::is_ascii_digit);
        let significant = digits.skip_while(|digit| *digit == '0').count();
        if self.value.is_infinite() {
            0.0
        } else if size > 0.0 && size < NOISE {
            NOISE
        } else if self.decimals > 0 && self.exponent == 0 && significant >= FULL_PRECISION {
            SLACK * size
        } else {
            let unit = 10f64.powi(self.exponent);
            // PyTorch prints `2.` only when every value is whole, so no half unit is hidden there.
            let half_unit = match self.decimals {
                0 => 0.0,
                decimals => 0.5 * 10f64.powi(-decimals),
            };
            (half_unit + SLACK * (size / unit).max(1.0)) * unit
        }
    }

    /// The distance of `computed` from the printed value: 0 for equal infinities, infinite for NaN.
    pub(crate) fn difference(&self, computed: f64) -> f64 {
        let difference = (computed - self.value).abs();
        match computed == self.value {
            true => 0.0,
            false if difference.is_nan() => f64::INFINITY,
            false => difference,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_follows_from_the_printed_digits() {
        for (text, allowed) in [
            ("0.2996", 6e-5),
            ("621.83", 5e-3 + 6.2183e-3),
            ("-9.1476e-02", (5e-5 + 9.1476e-5) * 1e-2),
            ("2.", 2e-5),
            ("10.98758347829183", 10.98758347829183e-5),
            ("-5.9605e-08", 1e-6),
            ("-inf", 0.0),
        ] {
            let given = Literal::parse(text).unwrap().allowed();
            assert!((given - allowed).abs() < 1e-12, "{text}: {given}");
        }
        assert_eq!(
            Literal::parse("1.0").unwrap().difference(f64::NAN),
            f64::INFINITY
        );
    }
}
