//! Sampling of categories in the same way as `torch.multinomial(p, num_samples=1)`
//! (`aten/src/ATen/native/Distributions.cpp`).
//!
//! PyTorch doesn't search the cumulative probabilities. For each category `i`, it draws a number
//! `e[i]` from the exponential distribution, and it returns the category with the largest
//! `p[i] / e[i]`. This algorithm is sometimes called an exponential race. Its idea is that
//! `e[i] / p[i]` is the time at which an event with rate `p[i]` first happens, and the probability
//! that this event happens before all others is proportional to its rate.
//!
//! How `e[i]` is drawn depends on the PyTorch build:
//!
//! - [`Build::Portable`] computes `-ln(1 - u)` from a number `u` with 53 random bits, which takes
//!   two draws per category.
//! - [`Build::Mkl`] takes one draw per call, which seeds an MCG31m1 generator, and computes
//!   `-ln(u)`, where `u` is the generator's output divided by 2^31 - 1 and rounded to `f32`.
//!
//! As in PyTorch, a number is drawn even for a category whose probability is 0, although such a
//! category is never returned. Only one sample per row can be drawn (`num_samples=1` in PyTorch).

use crate::mcg31m1::{Mcg31m1, unit_f32};
use crate::{Build, ProbabilityError, TorchRng};

impl TorchRng {
    /// Samples a category in proportion to the probabilities and returns its index, like
    /// `torch.multinomial(probabilities, num_samples=1)` for a one-dimensional tensor. The
    /// probabilities don't have to add up to 1.
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
    /// Panics if [`try_multinomial`](Self::try_multinomial) would return an error.
    pub fn multinomial(&mut self, probabilities: &[f32]) -> usize {
        self.try_multinomial(probabilities)
            .unwrap_or_else(|error| panic!("multinomial: {error}"))
    }

    /// Samples a category like [`multinomial`](Self::multinomial), but returns an error instead of
    /// panicking.
    ///
    /// # Errors
    ///
    /// Returns an error if the list is empty, if a probability is negative, infinite or NaN, or if
    /// all probabilities are 0. In these cases, nothing is drawn.
    pub fn try_multinomial(&mut self, probabilities: &[f32]) -> Result<usize, ProbabilityError> {
        let rows = self.multinomial_rows(probabilities, probabilities.len())?;
        Ok(rows[0])
    }

    /// Samples one category per row, like `torch.multinomial(probabilities, num_samples=1)` for a
    /// tensor of shape (rows, `n_categories`). The probabilities are in row-major order.
    ///
    /// The rows are sampled in order. With [`Build::Mkl`], each call uses a single MCG31m1 sequence
    /// for all rows.
    ///
    /// # Errors
    ///
    /// Returns an error if `n_categories` is 0, if the number of probabilities isn't a multiple of
    /// `n_categories`, if a probability is negative, infinite or NaN, or if all probabilities of a
    /// row are 0. In these cases, nothing is drawn.
    pub fn multinomial_rows(
        &mut self,
        probabilities: &[f32],
        n_categories: usize,
    ) -> Result<Vec<usize>, ProbabilityError> {
        check(probabilities, n_categories)?;
        let rows = probabilities.chunks_exact(n_categories);
        Ok(match self.build {
            // Compute `-ln(1 - u)` with `log1p`, as PyTorch does, because `log1p` is accurate even
            // if `u` is small.
            Build::Portable => rows
                .map(|row| exponential_race(row, || self.next_f64(), |u| -(-u).ln_1p()))
                .collect(),
            Build::Mkl => {
                let mut generator = Mcg31m1::new(self.engine.next_u32());
                rows.map(|row| {
                    exponential_race(row, || generator.next(), |x| -f64::from(unit_f32(x)).ln())
                })
                .collect()
            }
        })
    }
}

/// Draws a number for each category in `row` and returns the index of the category with the largest
/// `p / exponential(draw)`. If several categories share the largest value, the first of them is
/// returned. At least one probability must be greater than 0.
fn exponential_race<T>(
    row: &[f32],
    mut draw: impl FnMut() -> T,
    exponential: impl Fn(T) -> f64,
) -> usize {
    let (mut winner, mut best) = (0, 0.0);
    for (category, &p) in row.iter().enumerate() {
        let draw = draw();
        // After top-k filtering, nearly all probabilities are 0. Skipping the logarithms of these
        // categories saves most of the time.
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
    fn invalid_probabilities_are_rejected_and_nothing_is_drawn() {
        let fresh = TorchRng::manual_seed(1);
        let mut rng = fresh.clone();
        for (p, n, message) in [
            (
                &[][..],
                0,
                "there must be at least one category to sample from, but there are none",
            ),
            (
                &[0.5; 5],
                2,
                "the number of probabilities must be a multiple of the number of categories, 2, got 5",
            ),
            (
                &[0.5, -0.5],
                2,
                "the probability at index 1 is -0.5, but it must be finite and at least 0",
            ),
            (
                &[0.5, f32::NAN],
                2,
                "the probability at index 1 is NaN, but it must be finite and at least 0",
            ),
            (
                &[f32::INFINITY],
                1,
                "the probability at index 0 is inf, but it must be finite and at least 0",
            ),
            (
                &[0.5, 0.5, 0.0, 0.0],
                2,
                "all probabilities in row 1 are 0, so no category can be sampled",
            ),
        ] {
            let error = rng.multinomial_rows(p, n).expect_err("wrong probabilities");
            assert_eq!(error.to_string(), message);
        }
        assert_eq!(rng, fresh);
    }
}
