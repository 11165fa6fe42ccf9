//! The names and views of all weights, for the optimizer, clipping, counting and checkpoints.
//!
//! It is the only shared trait of the workspace. It doesn't prescribe how a module computes.

use ndarray::{Array, ArrayViewD, ArrayViewMutD, Dimension};

/// A value that owns weights, or the gradients of weights: a gradient is another value of the same
/// struct.
///
/// Names and order match PyTorch's `named_parameters()` for the book's modules, so a name is a
/// `state_dict` key.
///
/// ```
/// use tensor_ops::torch_rng::TorchRng;
/// use tensor_ops::{Linear, Parameters};
/// let mut linear = Linear::new(3, 2, true, &mut TorchRng::manual_seed(123));
/// let names: Vec<String> = linear.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["weight", "bias"]);
/// linear.fill_zero(); // as gradients before a step
/// assert_eq!(linear.num_parameters(), 8);
/// ```
pub trait Parameters {
    /// Calls `visit(name, view)` for each weight, each name beginning with `prefix` (`""` or
    /// `"att."`).
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>));

    /// The mutable form of [`visit`](Self::visit).
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

    /// The number of parameters: `sum(p.numel() for p in model.parameters())`.
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

/// Implements [`Parameters`] for a struct by naming its fields in order: the twins `visit` and
/// `visit_mut` from one list.
///
/// A field is an array, a module whose names continue the one given, or an `Option` or `Vec` of
/// such; a `Vec` puts `0.`, `1.`, ... between.
///
/// ```
/// use tensor_ops::{LayerNorm, Linear, Parameters, parameters};
///
/// struct Norms {
///     norms: Vec<LayerNorm>,
///     head: Option<Linear>,
/// }
/// parameters!(Norms { "norms." norms, "head." head });
///
/// let module = Norms { norms: vec![LayerNorm::new(4)], head: None };
/// let names: Vec<_> = module.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["norms.0.scale", "norms.0.shift"]);
/// ```
#[macro_export]
macro_rules! parameters {
    ($module:ty { $($name:literal $field:ident),+ $(,)? }) => {
        impl $crate::Parameters for $module {
            fn visit<'a>(
                &'a self,
                prefix: &str,
                visit: &mut dyn FnMut(String, $crate::ndarray::ArrayViewD<'a, f32>),
            ) {
                $($crate::Parameters::visit(&self.$field, &format!("{prefix}{}", $name), visit);)+
            }

            fn visit_mut<'a>(
                &'a mut self,
                prefix: &str,
                visit: &mut dyn FnMut(String, $crate::ndarray::ArrayViewMutD<'a, f32>),
            ) {
                $($crate::Parameters::visit_mut(&mut self.$field, &format!("{prefix}{}", $name), visit);)+
            }
        }
    };
}

/// One weight: its name is the prefix.
impl<D: Dimension> Parameters for Array<f32, D> {
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>)) {
        visit(prefix.to_owned(), self.view().into_dyn());
    }

    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    ) {
        visit(prefix.to_owned(), self.view_mut().into_dyn());
    }
}

/// Weights that may be absent, such as a bias.
impl<P: Parameters> Parameters for Option<P> {
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>)) {
        if let Some(module) = self {
            module.visit(prefix, visit);
        }
    }

    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    ) {
        if let Some(module) = self {
            module.visit_mut(prefix, visit);
        }
    }
}

/// `nn.ModuleList`: the names are numbers.
impl<P: Parameters> Parameters for Vec<P> {
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>)) {
        for (i, module) in self.iter().enumerate() {
            module.visit(&format!("{prefix}{i}."), visit);
        }
    }

    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    ) {
        for (i, module) in self.iter_mut().enumerate() {
            module.visit_mut(&format!("{prefix}{i}."), visit);
        }
    }
}
