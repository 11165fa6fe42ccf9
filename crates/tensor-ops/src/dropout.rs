//! Dropout, which sets each element to 0 with the probability `p` and divides all remaining
//! elements by `1 - p` (`nn.Dropout`; book section 3.5.2).
//!
//! For the same seed, the masks are the same as in the [`Build`](torch_rng::Build) of PyTorch that
//! the random number generator emulates. In evaluation mode, or if `p` is 0, the elements stay
//! unchanged and no random numbers are drawn.

use kernels::elementwise;
use ndarray::{Array, ArrayRef, Dimension};
use torch_rng::{KeepMask, TorchRng};

use crate::rows::{WIDTH, for_each_block, fresh_rows, into_contiguous, slice_mut};

/// A dropout layer, like `nn.Dropout`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Probability that an element is set to 0, in the range from 0 to 1.
    pub p: f64,
}

/// The dropout mask of a forward pass, which [`Dropout::backward`] needs.
#[derive(Clone, Debug)]
#[must_use]
pub struct DropoutCache(Option<KeepMask>);

impl Dropout {
    /// Returns the factor by which the remaining elements are multiplied, `1 / (1 - p)`, rounded in
    /// the same way as in PyTorch. If `p` is 1, no elements remain, and this method returns 0.
    pub fn scale(&self) -> f32 {
        if self.p >= 1.0 {
            0.0
        } else {
            1.0 / (1.0 - self.p) as f32
        }
    }

    /// Draws a dropout mask, which determines for each of `n` elements, in row-major order, whether
    /// the element is kept or set to 0. If `p` is 0, returns `None` without drawing any random
    /// numbers.
    ///
    /// # Panics
    ///
    /// Panics if `p` is greater than 1.
    pub fn draw(&self, n: usize, rng: &mut TorchRng) -> Option<KeepMask> {
        (self.p > 0.0).then(|| rng.keep_mask(n, self.p))
    }

    /// Advances the generator as [`draw`](Self::draw) does, but doesn't compute a mask.
    pub fn skip(&self, n: usize, rng: &mut TorchRng) {
        rng.skip_mask(n, self.p);
    }

    /// Applies dropout, like the method `forward` of `nn.Dropout`. The argument `training`
    /// determines the mode. In training mode, it contains the random number generator. In
    /// evaluation mode, it is `None`, and the method returns `x` unchanged.
    ///
    /// ```
    /// use tensor_ops::{Dropout, ndarray::Array2, torch_rng::TorchRng};
    /// let dropout = Dropout { p: 0.5 };
    /// let example = Array2::ones((6, 6));
    /// let dropped = dropout.forward(example.clone(), Some(&mut TorchRng::manual_seed(123)));
    /// assert!(dropped.iter().all(|&x| x == 0.0 || x == 2.0));
    /// assert_eq!(dropout.forward(example.clone(), None), example);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `training` contains a generator and `p` is greater than 1.
    pub fn forward<D: Dimension>(
        &self,
        x: Array<f32, D>,
        training: Option<&mut TorchRng>,
    ) -> Array<f32, D> {
        match training {
            Some(rng) => self.forward_train(x, rng).0,
            None => x,
        }
    }

    /// Applies dropout in training mode, and returns the result together with a cache for
    /// [`backward`](Self::backward). The mask is drawn in row-major order. The result reuses the
    /// memory of `x`.
    ///
    /// # Panics
    ///
    /// Panics if `p` is greater than 1.
    pub fn forward_train<D: Dimension>(
        &self,
        x: Array<f32, D>,
        rng: &mut TorchRng,
    ) -> (Array<f32, D>, DropoutCache) {
        let mask = self.draw(x.len(), rng);
        self.forward_with(x, mask)
    }

    /// Applies dropout with a mask that [`draw`](Self::draw) has returned, and returns the result
    /// together with a cache for [`backward`](Self::backward). Calling `draw` and then this method
    /// is equivalent to calling [`forward_train`](Self::forward_train), but you can draw the mask
    /// while other threads are still computing `x`.
    ///
    /// # Panics
    ///
    /// Panics if the mask and `x` don't have the same number of elements.
    pub fn forward_with<D: Dimension>(
        &self,
        x: Array<f32, D>,
        mask: Option<KeepMask>,
    ) -> (Array<f32, D>, DropoutCache) {
        let out = self.apply_to(x, mask.as_ref());
        (out, DropoutCache(mask))
    }

    /// Returns the gradient of the input. The elements of `d_out`, which is the gradient of the
    /// output, are set to 0 or scaled in the same way as the elements of the input in the forward
    /// pass.
    ///
    /// # Panics
    ///
    /// Panics if `d_out` doesn't have the same number of elements as the input.
    pub fn backward<D: Dimension>(
        &self,
        cache: DropoutCache,
        d_out: Array<f32, D>,
    ) -> Array<f32, D> {
        self.apply_to(d_out, cache.0.as_ref())
    }

    /// Does the same as [`backward`](Self::backward), but borrows `d_out`, so that the caller can
    /// still use this array afterwards. This method is faster than calling `backward` with a copy
    /// of `d_out`, because it copies the array and applies the mask at the same time.
    ///
    /// # Panics
    ///
    /// Panics if `d_out` doesn't have the same number of elements as the input.
    pub fn backward_of<D: Dimension>(
        &self,
        cache: DropoutCache,
        d_out: &ArrayRef<f32, D>,
    ) -> Array<f32, D> {
        let d_out = d_out.as_standard_layout();
        let values = d_out.as_slice().expect("made contiguous above");
        if let Some(mask) = &cache.0 {
            check_len(mask, &d_out);
        }
        let d_x = fresh_rows(values.len(), WIDTH, |block, out| {
            let first = block * WIDTH;
            out.copy_from_slice(&values[first..first + out.len()]);
            if let Some(mask) = &cache.0 {
                self.apply(mask, first, out);
            }
        });
        Array::from_shape_vec(d_out.raw_dim(), d_x).expect("as many numbers as `d_out`")
    }

    /// Applies a dropout mask to a part of an array: multiplies each element of `values` by
    /// [`scale`](Self::scale) if the mask keeps the element, and by 0 otherwise. The first value
    /// corresponds to the mask element with the index `first`.
    ///
    /// # Panics
    ///
    /// Panics if the mask has fewer than `first + values.len()` elements.
    pub fn apply(&self, mask: &KeepMask, first: usize, values: &mut [f32]) {
        assert!(
            first + values.len() <= mask.len(),
            "Dropout::apply: elements {first}..{} are needed, but the mask has only {} elements",
            first + values.len(),
            mask.len()
        );
        if !values.is_empty() {
            elementwise::apply_mask(values, mask.words(), first, self.scale());
        }
    }

    fn apply_to<D: Dimension>(&self, x: Array<f32, D>, mask: Option<&KeepMask>) -> Array<f32, D> {
        let Some(mask) = mask else { return x };
        check_len(mask, &x);
        let mut x = into_contiguous(x);
        for_each_block(slice_mut(&mut x), WIDTH, |block, values| {
            self.apply(mask, block * WIDTH, values);
        });
        x
    }
}

fn check_len<D: Dimension>(mask: &KeepMask, x: &ArrayRef<f32, D>) {
    assert!(
        mask.len() == x.len(),
        "Dropout: the mask has {} elements, but the array has the shape {:?}",
        mask.len(),
        x.shape()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;

    #[test]
    fn backward_of_a_borrowed_gradient_is_backward_of_its_copy() {
        for p in [0.0, 0.3] {
            let x = Array2::from_shape_fn((70, 90), |(i, j)| (i * 90 + j) as f32 / 100.0);
            let (_, cache) = Dropout { p }.forward_train(x.clone(), &mut TorchRng::manual_seed(5));
            let expected = Dropout { p }.backward(cache.clone(), x.clone());
            assert!(Dropout { p }.backward_of(cache, &x) == expected, "p = {p}");
        }
    }
}
