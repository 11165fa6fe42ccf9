//! One category drawn in proportion to its probability: `torch.multinomial(p, num_samples=1)`.
//!
//! An exponential race, not a walk along the cumulative probabilities: with `e_i` exponential, the
//! result is `argmax p_i / e_i`. Portable: `e_i = -ln(1 - u)`, u of 53 bits. MKL: `e_i = -ln(u)`, u
//! the f32 nearest to `x_i / (2^31 - 1)`, x of MCG31m1. Every category draws, including those of
//! probability 0. Only one sample per row is supported.

use crate::mcg31m1::{Mcg31m1, unit_f32};
use crate::{Build, ProbabilityError, TorchRng};

impl TorchRng {
    /// `torch.multinomial(probabilities, num_samples=1)` for a list; the sum need not be 1.
    ///
    /// ```
    /// use torch_rng::TorchRng;
    ///
    /// let mut rng = TorchRng::manual_seed(123);
    /// assert_eq!(rng.multinomial(&[0.0, 0.25, 0.0]), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// If [`try_multinomial`](Self::try_multinomial) would return an error.
    pub fn multinomial(&mut self, probabilities: &[f32]) -> usize {
        self.try_multinomial(probabilities)
            .unwrap_or_else(|error| panic!("multinomial: {error}"))
    }

    /// The same as [`multinomial`](Self::multinomial) for probabilities that may be wrong; an error
    /// draws nothing.
    ///
    /// # Errors
    ///
    /// If there are none, one is negative, infinite or not a number, or all are 0.
    pub fn try_multinomial(&mut self, probabilities: &[f32]) -> Result<usize, ProbabilityError> {
        let rows = self.multinomial_rows(probabilities, probabilities.len())?;
        Ok(rows[0])
    }

    /// `torch.multinomial(probabilities, num_samples=1)` for a tensor (n_rows, n_categories),
    /// row-major: one category per row.
    ///
    /// Rows draw one after the other; with MKL one sequence runs through all of them.
    ///
    /// # Errors
    ///
    /// As [`try_multinomial`](Self::try_multinomial), or if the length isn't a multiple of
    /// `n_categories`.
    pub fn multinomial_rows(
        &mut self,
        probabilities: &[f32],
        n_categories: usize,
    ) -> Result<Vec<usize>, ProbabilityError> {
        check(probabilities, n_categories)?;
        let rows = probabilities.chunks_exact(n_categories);
        Ok(match self.build {
            // -log1p(-u), as PyTorch writes it, keeps the bits of a small u.
            Build::Portable => rows
                .map(|row| race(row, || self.next_f64(), |u| -(-u).ln_1p()))
                .collect(),
            Build::Mkl => {
                let mut generator = Mcg31m1::new(self.engine.next_u32());
                rows.map(|row| race(row, || generator.next(), |x| -f64::from(unit_f32(x)).ln()))
                    .collect()
            }
        })
    }
}

/// The category of the largest `p / exponential(draw)`, the first of equals. At least one p is
/// above 0.
fn race<T>(row: &[f32], mut draw: impl FnMut() -> T, exponential: impl Fn(T) -> f64) -> usize {
    let (mut winner, mut best) = (0, 0.0);
    for (category, &p) in row.iter().enumerate() {
        let draw = draw();
        // After top-k nearly all are 0 and cannot win: their logarithm would be wasted.
        if p > 0.0 {
            let score = p / exponential(draw) as f32;
            if score > best {
                (winner, best) = (category, score);
            }
        }
    }
    winner
}

fn check(probabilities: &[f32], n_categories: usize) -> Result<(), ProbabilityError> {
    let len = probabilities.len();
    if len == 0 || n_categories == 0 {
        return Err(ProbabilityError::Empty);
    }
    if !len.is_multiple_of(n_categories) {
        return Err(ProbabilityError::Ragged { len, n_categories });
    }
    if let Some(index) = probabilities
        .iter()
        .position(|p| !(p.is_finite() && *p >= 0.0))
    {
        return Err(ProbabilityError::Value {
            index,
            value: probabilities[index],
        });
    }
    match probabilities
        .chunks_exact(n_categories)
        .position(|row| row.iter().all(|&p| p == 0.0))
    {
        Some(row) => Err(ProbabilityError::AllZero { row }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_that_make_no_sense_are_named_and_draw_nothing() {
        let fresh = TorchRng::manual_seed(1);
        let mut rng = fresh.clone();
        for (p, n, message) in [
            (&[][..], 0, "no category to draw from"),
            (
                &[0.5; 5],
                2,
                "5 probabilities aren't a whole number of rows of 2",
            ),
            (
                &[0.5, -0.5],
                2,
                "probability 1 is -0.5, expected a finite number of at least 0",
            ),
            (
                &[0.5, f32::NAN],
                2,
                "probability 1 is NaN, expected a finite number of at least 0",
            ),
            (
                &[f32::INFINITY],
                1,
                "probability 0 is inf, expected a finite number of at least 0",
            ),
            (
                &[0.5, 0.5, 0.0, 0.0],
                2,
                "all probabilities of row 1 are zero",
            ),
        ] {
            let error = rng.multinomial_rows(p, n).expect_err("wrong probabilities");
            assert_eq!(error.to_string(), message);
        }
        assert_eq!(rng, fresh);
    }
}
