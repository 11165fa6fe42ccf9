//! Gradient clipping, which is equivalent to `torch.nn.utils.clip_grad_norm_` (appendix D.3 of the
//! book).
//!
//! The norm of the gradient is `sqrt(sum g^2)`, where the sum is over all elements of all
//! gradients. Clipping multiplies each element by `min(1, max_norm / (norm + 1e-6))`. The sum is
//! computed in `f64` and in a fixed order, so the result is bit for bit the same regardless of the
//! number of threads.

use tensor_ops::Parameters;
use tensor_ops::engine::{row_major, sum_of_squares};

/// Returns the Euclidean norm of all gradients together, as if they were a single vector.
///
/// # Panics
///
/// Panics if an array isn't in row-major order.
#[must_use]
pub fn grad_norm(grads: &(impl Parameters + ?Sized)) -> f64 {
    let mut total = 0.0;
    grads.visit("", &mut |name, view| {
        total += sum_of_squares(row_major(&name, view));
    });
    total.sqrt()
}

/// Scales the gradients down if their norm is greater than `max_norm`, so that the new norm is at
/// most `max_norm`. Returns the norm before scaling.
///
/// If an element of a gradient is NaN or infinite, the returned norm is also NaN or infinite, and
/// clipping can't repair the gradients. An optimizer step would then ruin the model, because it
/// makes weights NaN. Therefore, check the returned norm with [`f64::is_finite`] before you call
/// [`AdamW::step`](crate::AdamW::step).
///
/// [`Trainer`](crate::Trainer) doesn't call this function. Instead, it passes the scaling factor to
/// the optimizer, which avoids an additional pass over the gradients.
///
/// ```
/// use tensor_ops::Linear;
/// use train::torch_rng::TorchRng;
/// let mut grads = Linear::new(3, 2, false, &mut TorchRng::manual_seed(123));
/// grads.weight.fill(2.0);
/// let norm = train::clip_grad_norm(&mut grads, 1.0); // the square root of 6 * 4
/// assert!((norm - 24f64.sqrt()).abs() < 1e-6);
/// assert!((train::grad_norm(&grads) - 1.0).abs() < 1e-5);
///
/// grads.weight[[0, 0]] = f32::INFINITY;
/// assert!(!train::clip_grad_norm(&mut grads, 1.0).is_finite()); // no step is possible
/// ```
///
/// # Panics
///
/// Panics if an array isn't in row-major order.
pub fn clip_grad_norm(grads: &mut (impl Parameters + ?Sized), max_norm: f64) -> f64 {
    let norm = grad_norm(grads);
    let scale = clip_scale(norm, max_norm);
    if scale < 1.0 {
        grads.visit_mut("", &mut |_, mut view| view *= scale);
    }
    norm
}

/// Returns the factor by which all gradients must be multiplied to clip their norm from `norm` to
/// at most `max_norm`. The factor is 1 if no clipping is necessary, and less than 1 otherwise.
pub(crate) fn clip_scale(norm: f64, max_norm: f64) -> f32 {
    (max_norm / (norm + 1e-6)).min(1.0) as f32
}
