//! Parses numbers in options and formats numbers in messages. There is a type for each kind of
//! number that an option can have. The type checks the number's range, so the message about an
//! invalid number contains the option, the number, and the range.

use std::fmt;
use std::str::FromStr;

use generate::{GenerateError, Sampling};
use tensor_ops::{Dtype, UnsupportedDtype};

use serde::Serialize;

/// Declares number types that can be parsed from text and that accept only numbers in a given
/// range. All of these numbers can be represented as an `i64` or `f64`, because a training run
/// saves its options in a TOML file, which has no other number types.
macro_rules! ranges {
    ($($(#[$doc:meta])* $name:ident($number:ty) of $read:ty: $fits:expr, $expected:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Serialize)]
        pub(crate) struct $name(pub(crate) $number);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = &'static str;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let fits: fn(&$read) -> bool = $fits;
                let read = text.parse().ok().filter(fits);
                let number = read.and_then(|read| <$number>::try_from(read).ok());
                number.map(Self).ok_or(concat!("expected ", $expected))
            }
        }
    )*};
}

ranges! {
    /// A nonnegative number of items.
    Count(usize) of i64: |&n| n >= 0, "a whole number that is at least 0 and less than 2^63";
    /// A positive number of items.
    AtLeast1(usize) of i64: |&n| n >= 1, "a whole number that is at least 1 and less than 2^63";
    /// A number of threads, at most 1024. This is more than the number of cores of most machines.
    Threads(usize) of i64: |n| (1..=1024).contains(n), "a whole number from 1 to 1024";
    /// A rate or a limit, which must not be negative.
    NotNegative(f64) of f64: |&x| x >= 0.0 && x.is_finite(), "a finite number that is at least 0";
    /// A probability that is less than 1.
    Below1(f64) of f64: |x| (0.0..1.0).contains(x), "a number that is at least 0 and less than 1";
    /// A fraction that is greater than 0 and at most 1.
    Part(f64) of f64: |&x| x > 0.0 && x <= 1.0, "a number greater than 0 and at most 1";
}

/// Returns a parser of number formats that accepts only `supported` formats.
pub(crate) fn dtype_among(
    supported: &'static [Dtype],
) -> impl Fn(&str) -> Result<Dtype, UnsupportedDtype> + Clone {
    move |name| {
        let parsed = name.parse::<Dtype>();
        let unsupported = |_| UnsupportedDtype {
            name: name.to_owned(),
            supported,
        };
        parsed
            .and_then(|dtype| dtype.one_of(supported))
            .map_err(unsupported)
    }
}

/// Returns a clap value parser for a sampling setting, such as the temperature. `set` stores the
/// parsed number in a [`Sampling`], so that [`Sampling::check`] can check whether it is in the
/// valid range of this setting.
pub(crate) fn sampling(
    set: fn(&mut Sampling, f32),
) -> impl Fn(&str) -> Result<f32, String> + Clone {
    move |text| {
        // Text that isn't a number, such as `hot`, is treated as NaN, which isn't a valid value of
        // any sampling setting. The user therefore gets the same error message as for a number that
        // is out of range.
        let number = text.parse().unwrap_or(f32::NAN);
        let mut sampling = Sampling::GREEDY;
        set(&mut sampling, number);
        sampling
            .check()
            .map(|()| number)
            .map_err(|error| match error {
                GenerateError::Setting { expected, .. } => format!("expected {expected}"),
                error => error.to_string(),
            })
    }
}

/// Parses a seed. As in PyTorch, a negative seed is equivalent to the seed plus 2^64.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    let negative = || text.parse::<i64>().map(i64::cast_unsigned);
    let expected = format!("expected a whole number from {} to {}", i64::MIN, u64::MAX);
    text.parse().or_else(|_| negative()).map_err(|_| expected)
}

/// Parses a seed and converts it to a signed number, so that it can be saved in a TOML file. A seed
/// of 2^63 or more is too large for TOML, so it is converted to the equivalent negative seed.
pub(crate) fn signed_seed(text: &str) -> Result<i64, String> {
    seed(text).map(u64::cast_signed)
}

/// Formats a number with a suffix such as K or M, for example `124.4M`.
pub(crate) fn count(n: f64) -> String {
    scaled(n, &["", "K", "M", "B", "T"])
}

/// Formats a number of bytes, for example `497.6 MB`. One megabyte is one million bytes.
pub(crate) fn bytes(n: f64) -> String {
    scaled(n, &[" bytes", " kB", " MB", " GB", " TB", " PB", " EB"])
}

/// Formats a number with at most six significant digits. For example, the result of `0.003 / 10.0`
/// is formatted as `0.0003` instead of `0.00030000000000000003`.
pub(crate) fn short(x: f64) -> String {
    let rounded: f64 = format!("{x:.5e}").parse().unwrap_or(x);
    rounded.to_string()
}

fn scaled(mut n: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while n >= 1000.0 && unit + 1 < units.len() {
        n /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0);
    format!("{n:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_a_unit_or_in_few_digits() {
        assert_eq!(count(124_412_160.0), "124.4M");
        assert_eq!(bytes(12.0), "12 bytes");
        assert_eq!(bytes(497_648_640.0), "497.6 MB");
        assert_eq!(short(0.003 / 10.0), "0.0003");
    }

    #[test]
    fn numbers_outside_their_range_are_refused() {
        assert_eq!("7".parse(), Ok(AtLeast1(7)));
        for text in ["0", "-1", "1.5", "9223372036854775808"] {
            assert!(text.parse::<AtLeast1>().is_err(), "{text}");
        }
        let top_p = sampling(|s, x| s.top_p = x);
        assert_eq!(top_p("0.5"), Ok(0.5));
        for text in ["0", "1.5", "nan", "x", ""] {
            let expected = "expected a number greater than 0 and at most 1";
            assert_eq!(top_p(text), Err(expected.to_owned()), "{text}");
        }
        assert_eq!(seed("-1"), Ok(u64::MAX));
        assert_eq!(signed_seed("18446744073709551615"), Ok(-1));
        assert_eq!(seed("-9223372036854775808"), Ok(1 << 63));
        for text in ["-9223372036854775809", "1.5", ""] {
            assert!(seed(text).is_err(), "{text}");
        }
        assert_eq!("1e-3".parse(), Ok(NotNegative(1e-3)));
        for text in ["-1", "nan", "inf", "x"] {
            assert!(text.parse::<NotNegative>().is_err(), "{text}");
        }
        assert!("0".parse::<Below1>().is_ok() && "1".parse::<Below1>().is_err());
        assert!("0".parse::<Part>().is_err() && "1".parse::<Part>().is_ok());
    }
}
