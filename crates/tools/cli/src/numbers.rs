//! Numbers as flags take them, parsed and checked once, so that a refusal names the flag and the
//! value; and numbers as people read them.

/// A count.
pub(crate) fn at_least_1(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

/// A seed as PyTorch takes it: below 0, it counts down from 2^64.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    let negative = || text.parse::<i64>().map(i64::cast_unsigned);
    let expected = format!("expected a whole number from {} to {}", i64::MIN, u64::MAX);
    text.parse().or_else(|_| negative()).map_err(|_| expected)
}

/// A rate or a limit.
pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    let fits = |x: f64| x >= 0.0 && x.is_finite();
    within(text, fits, "a finite number of at least 0")
}

/// A probability that is not certain.
pub(crate) fn below_1(text: &str) -> Result<f64, String> {
    within(text, |x| (0.0..1.0).contains(&x), "at least 0 and below 1")
}

/// A part of a whole that is not empty.
pub(crate) fn part(text: &str) -> Result<f64, String> {
    within(text, |x| x > 0.0 && x <= 1.0, "over 0 and at most 1")
}

/// `124.4M`
pub(crate) fn count(n: f64) -> String {
    scaled(n, &["", "K", "M", "B", "T"])
}

/// `497.6 MB`, a megabyte being a million bytes.
pub(crate) fn bytes(n: f64) -> String {
    scaled(n, &[" bytes", " kB", " MB", " GB", " TB", " PB", " EB"])
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

fn within(text: &str, fits: impl Fn(f64) -> bool, expected: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(x) if fits(x) => Ok(x),
        _ => Err(format!("expected {expected}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_a_unit() {
        assert_eq!(count(124_412_160.0), "124.4M");
        assert_eq!(bytes(12.0), "12 bytes");
        assert_eq!(bytes(497_648_640.0), "497.6 MB");
    }

    #[test]
    fn numbers_outside_their_range_are_refused() {
        assert_eq!(at_least_1("7"), Ok(7));
        for text in ["0", "-1", "1.5", "18446744073709551616"] {
            assert!(at_least_1(text).is_err(), "{text}");
        }
        assert_eq!(seed("-1"), Ok(u64::MAX));
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(seed("-9223372036854775808"), Ok(1 << 63));
        for text in ["-9223372036854775809", "1.5", ""] {
            assert!(seed(text).is_err(), "{text}");
        }
        assert_eq!(not_negative("1e-3"), Ok(1e-3));
        for text in ["-1", "nan", "inf", "x"] {
            assert!(not_negative(text).is_err(), "{text}");
        }
        assert!(below_1("0").is_ok() && below_1("1").is_err());
        assert!(part("0").is_err() && part("1").is_ok());
    }
}
