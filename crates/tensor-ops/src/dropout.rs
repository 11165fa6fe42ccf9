//! Dropout: sets each element to 0 with probability p, and divides the others by 1 - p
//! (`nn.Dropout`; book section 3.5.2).
//!
//! Which elements are kept is PyTorch's choice for the generator's seed and build. In evaluation,
//! and for p = 0, it does nothing and draws nothing.

use kernels::elementwise;
use ndarray::{Array, ArrayRef, Dimension};
use torch_rng::{KeepMask, TorchRng};

use crate::rows::{WIDTH, for_each_block, fresh_rows, into_contiguous, slice_mut};

/// The dropout of one place in a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// The probability of an element to be dropped, within [0, 1].
    pub p: f64,
}

/// Which elements were kept; nothing if there was nothing to drop.
#[derive(Clone, Debug)]
#[must_use]
pub struct DropoutCache(Option<KeepMask>);

impl Dropout {
    /// The factor of a kept element: `1 / (1 - p)`, rounded as PyTorch does; 0 for p = 1,
    /// where none is kept.
    pub fn scale(&self) -> f32 {
        if self.p >= 1.0 {
            0.0
        } else {
            1.0 / (1.0 - self.p) as f32
        }
    }

    /// Draws which of `n` elements are kept, in row-major order; `None` (and no draw) for p = 0.
    pub fn draw(&self, n: usize, rng: &mut TorchRng) -> Option<KeepMask> {
        (self.p > 0.0).then(|| rng.keep_mask(n, self.p))
    }

    /// The draws of [`draw`](Self::draw), without their result.
    pub fn skip(&self, n: usize, rng: &mut TorchRng) {
        rng.skip_mask(n, self.p);
    }

    /// `nn.Dropout`'s `forward`: with a generator it is in training and drops, without it is in
    /// evaluation and returns `x`.
    ///
    /// ```
    /// use tensor_ops::{Dropout, ndarray::Array2, torch_rng::TorchRng};
    /// let dropout = Dropout { p: 0.5 };
    /// let example = Array2::ones((6, 6));
    /// let dropped = dropout.forward(example.clone(), Some(&mut TorchRng::manual_seed(123)));
    /// assert!(dropped.iter().all(|&x| x == 0.0 || x == 2.0));
    /// assert_eq!(dropout.forward(example.clone(), None), example);
    /// ```
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

    /// In training: drops elements of `x` in row-major order, in place.
    pub fn forward_train<D: Dimension>(
        &self,
        x: Array<f32, D>,
        rng: &mut TorchRng,
    ) -> (Array<f32, D>, DropoutCache) {
        let mask = self.draw(x.len(), rng);
        self.forward_with(x, mask)
    }

    /// The rest of [`forward_train`](Self::forward_train) after [`draw`](Self::draw), so that
    /// drawing can overlap other work.
    ///
    /// # Panics
    /// If the mask is not as large as `x`.
    pub fn forward_with<D: Dimension>(
        &self,
        x: Array<f32, D>,
        mask: Option<KeepMask>,
    ) -> (Array<f32, D>, DropoutCache) {
        let out = self.apply_to(x, mask.as_ref());
        (out, DropoutCache(mask))
    }

    /// The gradient of the input: `d_out`, dropped and scaled as the forward pass did.
    ///
    /// # Panics
    /// If `d_out` is not as large as the input was.
    pub fn backward<D: Dimension>(
        &self,
        cache: DropoutCache,
        d_out: Array<f32, D>,
    ) -> Array<f32, D> {
        self.apply_to(d_out, cache.0.as_ref())
    }

    /// The form of [`backward`](Self::backward) for a gradient that is needed elsewhere too: copied
    /// and dropped in one pass.
    ///
    /// # Panics
    /// If `d_out` is not as large as the input was.
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

    /// Multiplies part of a tensor, whose first element is the mask's element `first`, by 0 or the
    /// scale.
    ///
    /// # Panics
    /// If the mask has fewer elements than that.
    pub fn apply(&self, mask: &KeepMask, first: usize, values: &mut [f32]) {
        assert!(
            first + values.len() <= mask.len(),
            "Dropout::apply: elements {first}..{} of a mask of {}",
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
        "Dropout: a mask of {} elements for an array of shape {:?}",
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
