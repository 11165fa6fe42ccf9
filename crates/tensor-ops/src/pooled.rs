//! Arrays whose memory the next operations find again, in this pass or the next; a second or two
//! after the last pass the allocator has it back.
//!
//! Signatures use plain arrays. Internal values and the caches of a backward pass are [`Pooled`],
//! so that no caller has to return memory.

use std::ops::{Deref, DerefMut};

use ndarray::{Array, Dimension};

/// An array that gives its memory to the next operations when it is dropped.
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
