//! Parses the numbers in the output of one of the book's Python notebooks. Each number is compared
//! with a value that the Rust port of the notebook computes, and this module determines the
//! tolerance for the comparison.
//!
//! The tolerance for a printed number depends only on its printed digits, not on the cell that
//! prints it. It follows these rules:
//!
//! - A number with `d` printed decimals has the tolerance `0.5 * 10^-d + 1e-5 * max(1, |printed|)`.
//!   The first term is half a unit of the last decimal, and is left out if no decimals are printed.
//!   The second term allows for floating-point rounding errors.
//! - For a number in scientific notation, such as `-1.2e-03`, this rule gives the tolerance of the
//!   mantissa, which is then multiplied by the power of ten.
//! - A number that is printed with all digits of its floating-point value, such as
//!   `10.98758347829183`, has a relative tolerance of 1e-5.
//! - A nonzero printed number whose absolute value is below 1e-6 is treated as a zero with a
//!   rounding error, so its tolerance is 1e-6.
//! - A printed infinity has the tolerance 0, so the computed value must be the same infinity.
//!
//! The computed value isn't rounded to the number of printed digits before the comparison. If the
//! exact value were close to halfway between two numbers with this many digits, a tiny error could
//! change the last digit of the rounded value.

/// Tolerance for rounding errors when a computed value is compared with a number in the output of a
/// Python notebook. It is relative to `max(1, |printed|)`. Rounding errors arise because the result
/// of a floating-point sum depends on the order of its terms and on the vector instructions that
/// compute it.
const SLACK: f64 = 1e-5;
/// Minimum number of significant digits for a printed number with decimals to be treated as printed
/// in full floating-point precision, such as `10.98758347829183`.
const FULL_PRECISION: usize = 10;
/// Upper limit for the rounding errors of results that should be zero. A nonzero number in the
/// output of a Python notebook, such as `-5.9605e-08`, is treated as a rounding error if its
/// absolute value is below this limit.
const NOISE: f64 = 1e-6;

/// A number in the output of a Python notebook, such as `0.2996`, together with the details of its
/// printed digits that determine the tolerance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Literal {
    /// Digits of the number as the original Python notebook prints it, but without the commas
    /// between groups of digits. For example, `163,009,536` is stored as `163009536`.
    pub(crate) text: String,
    pub(crate) value: f64,
    /// Number of printed decimals, such as 4 for `0.2996`. In scientific notation, these are the
    /// decimals of the mantissa.
    decimals: i32,
    /// Power of ten if the number is printed in scientific notation, such as -3 for `-1.2e-03`. In
    /// any other notation, this is 0.
    exponent: i32,
}

impl Literal {
    /// Parses a number in the output of a Python notebook, in one of the forms that Python or
    /// PyTorch prints, such as `0.2996`, `2.`, `-1.2e-03`, `-inf` or `163,009,536`. Returns `None`
    /// if the text isn't a number.
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

    /// Returns the tolerance for this printed number. This is the largest absolute difference
    /// between a computed value and the printed number that still counts as agreement.
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
            // PyTorch prints the numbers of a tensor without decimals, such as `2.`, only if all of
            // them are whole numbers. Such a number wasn't rounded when it was printed, so the
            // tolerance doesn't include half a unit of the last decimal.
            let half_unit = match self.decimals {
                0 => 0.0,
                decimals => 0.5 * 10f64.powi(-decimals),
            };
            (half_unit + SLACK * (size / unit).max(1.0)) * unit
        }
    }

    /// Returns the absolute difference between `computed`, a value that the Rust port of a notebook
    /// computes, and this number in the output of the Python notebook. If both are the same
    /// infinity, the difference is 0. If `computed` is NaN, the difference is infinite.
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
