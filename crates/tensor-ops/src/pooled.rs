//! Arrays whose memory is reused by later operations.
//!
//! A training step or a forward pass creates many large arrays. If each array were allocated by the
//! operating system, a lot of time would be spent on mapping and clearing memory. Therefore, when a
//! [`Pooled`] array is dropped, its memory goes to a pool, and later operations take the memory for
//! their results from this pool. One or two seconds after it was last used, the pool returns all
//! memory to the allocator.
//!
//! The public functions of this crate accept and return plain arrays, so callers don't have to
//! return any memory to the pool. Only intermediate results and the caches for backward passes are
//! stored in [`Pooled`] arrays, whose memory is reused by later operations.

use std::ops::{Deref, DerefMut};

use ndarray::{Array, Dimension};

/// An array that doesn't free its memory when it is dropped, but returns it to a pool, from which
/// later operations take the memory for their results.
#[derive(Clone, Debug)]
pub struct Pooled<D: Dimension>(Array<f32, D>);

impl<D: Dimension> From<Array<f32, D>> for Pooled<D> {
    fn from(array: Array<f32, D>) -> Self {
        Self(array)
    }
}

impl<D: Dimension> Deref for Pooled<D> {
    type Target = Array<f32, D>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<D: Dimension> DerefMut for Pooled<D> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<D: Dimension> Drop for Pooled<D> {
    fn drop(&mut self) {
        kernels::recycle(std::mem::take(&mut self.0).into_raw_vec_and_offset().0);
    }
}
