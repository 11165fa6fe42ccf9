//! Clipping the gradient's norm, as `torch.nn.utils.clip_grad_norm_` (book appendix D.3).
//!
//! `norm = sqrt(sum g^2)` over all weights, `scale = min(1, max_norm / (norm + 1e-6))`.
//! The sum runs in f64 in a fixed order, so its bits don't depend on the number of threads.

use tensor_ops::Parameters;
use tensor_ops::engine::sum_of_squares;

/// The Euclidean norm of all gradients together.
#[must_use]
pub fn grad_norm(grads: &(impl Parameters + ?Sized)) -> f64 {
    let mut total = 0.0;
    grads.visit("", &mut |_, view| {
        total += sum_of_squares(view.as_slice().expect("weights are row-major"));
    });
    total.sqrt()
}

/// Scales the gradients so that their norm is at most `max_norm`; returns the norm they had.
///
/// A training step gives the factor to the optimizer instead, which saves a pass over the memory.
///
/// ```
/// use tensor_ops::Linear;
/// use train::torch_rng::TorchRng;
/// let mut grads = Linear::new(3, 2, false, &mut TorchRng::manual_seed(123));
/// grads.weight.fill(2.0);
/// let norm = train::clip_grad_norm(&mut grads, 1.0); // the root of 6 x 4
/// assert!((norm - 24f64.sqrt()).abs() < 1e-6);
/// assert!((train::grad_norm(&grads) - 1.0).abs() < 1e-5);
/// ```
pub fn clip_grad_norm(grads: &mut (impl Parameters + ?Sized), max_norm: f64) -> f64 {
    let norm = grad_norm(grads);
    let scale = clip_scale(norm, max_norm);
    if scale < 1.0 {
        grads.visit_mut("", &mut |_, mut view| view *= scale);
    }
    norm
}

/// The factor for a gradient of this norm: at most 1.
pub(crate) fn clip_scale(norm: f64, max_norm: f64) -> f32 {
    (max_norm / (norm + 1e-6)).min(1.0) as f32
}
