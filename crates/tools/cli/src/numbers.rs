//! Numbers as flags take them: parsed and checked once, so that a refusal names the flag and the value.

/// A count.
pub(crate) fn at_least_1(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
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
    fn numbers_outside_their_range_are_refused() {
        assert_eq!(at_least_1("7"), Ok(7));
        assert!(
            ["0", "-1", "1.5", "18446744073709551616"]
                .map(at_least_1)
                .iter()
                .all(Result::is_err)
        );
        assert_eq!(not_negative("1e-3"), Ok(1e-3));
        assert!(
            ["-1", "nan", "inf", "x"]
                .map(not_negative)
                .iter()
                .all(Result::is_err)
        );
        assert!(below_1("0").is_ok() && below_1("1").is_err());
        assert!(part("0").is_err() && part("1").is_ok());
    }
}
