//! The names and views of all weights: what the optimizer, clipping, counting and checkpoints walk.
//!
//! It is the one shared trait of the workspace. It does not say how a module computes.

use ndarray::{ArrayViewD, ArrayViewMutD};

/// A value that owns weights, or the gradients of weights: a gradient is another value of the same struct.
///
/// Names and order are those of PyTorch's `named_parameters()` for the book's modules, so a name is a `state_dict` key.
pub trait Parameters {
    /// Calls `visit(name, view)` for each weight, each name beginning with `prefix` (`""` or `"att."`).
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>));

    /// As [`visit`](Self::visit), to be written.
    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    );

    /// All `(name, view)` pairs, as `named_parameters()` lists them.
    fn named_parameters(&self) -> Vec<(String, ArrayViewD<'_, f32>)> {
        let mut all = Vec::new();
        self.visit("", &mut |name, view| all.push((name, view)));
        all
    }

    /// All `(name, view)` pairs, to be written.
    fn named_parameters_mut(&mut self) -> Vec<(String, ArrayViewMutD<'_, f32>)> {
        let mut all = Vec::new();
        self.visit_mut("", &mut |name, view| all.push((name, view)));
        all
    }

    /// How many numbers there are: `sum(p.numel() for p in model.parameters())`.
    fn num_parameters(&self) -> usize {
        let mut total = 0;
        self.visit("", &mut |_, view| total += view.len());
        total
    }

    /// Sets every number to zero: `zero_grad()` on a gradient.
    fn fill_zero(&mut self) {
        self.visit_mut("", &mut |_, mut view| view.fill(0.0));
    }
}
