//! The names and views of all weights, for the optimizer, clipping, counting and checkpoints.
//!
//! This is the only trait that all modules share. It doesn't prescribe how a module computes.

use ndarray::{Array, ArrayViewD, ArrayViewMutD, Dimension};

/// A value that owns weights or the gradients of weights. A gradient is another value of the same
/// struct.
///
/// Names and order match PyTorch's `named_parameters()` for the book's modules, so a name is a
/// `state_dict` key.
///
/// Arrays, modules, and `Option`, `Vec`, arrays, `Box` and `&mut` of them have parameters. The
/// macro [`parameters!`](crate::parameters) implements the trait for a struct. Functions that take
/// `&(impl Parameters + ?Sized)` also take `&dyn Parameters`.
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no parameters",
    note = "a field in `parameters!` must be an f32 array, a module, or an `Option`, `Vec`, array or `Box` of modules"
)]
pub trait Parameters {
    /// Calls `visit(name, view)` for each weight. Each name begins with `prefix`, which is `""` or
    /// ends with a dot, such as `"att."`.
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>));

    /// The mutable form of [`visit`](Self::visit).
    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    );

    /// Returns all `(name, view)` pairs, as `named_parameters()` lists them.
    fn named_parameters(&self) -> Vec<(String, ArrayViewD<'_, f32>)> {
        let mut all = Vec::new();
        self.visit("", &mut |name, view| all.push((name, view)));
        all
    }

    /// Returns all `(name, view)` pairs with views that can be written to.
    fn named_parameters_mut(&mut self) -> Vec<(String, ArrayViewMutD<'_, f32>)> {
        let mut all = Vec::new();
        self.visit_mut("", &mut |name, view| all.push((name, view)));
        all
    }

    /// Returns the number of parameters, like `sum(p.numel() for p in model.parameters())`.
    fn num_parameters(&self) -> usize {
        let mut total = 0;
        self.visit("", &mut |_, view| total += view.len());
        total
    }

    /// Sets every number to zero, like `zero_grad()` on a gradient.
    fn fill_zero(&mut self) {
        self.visit_mut("", &mut |_, mut view| view.fill(0.0));
    }

    /// Returns the parameters for whose name and shape `keep` returns true: a parameter group, or
    /// the layers that aren't frozen.
    ///
    /// The selection has parameters itself, so it can be given to an optimizer, to a function that
    /// computes a norm, or to one that saves tensors. Make the same selection of the weights and of
    /// the gradients. What isn't selected doesn't change, so frozen layers don't decay either.
    ///
    /// ```
    /// use tensor_ops::torch_rng::TorchRng;
    /// use tensor_ops::{Linear, Parameters};
    /// let mut linear = Linear::new(3, 2, true, &mut TorchRng::manual_seed(123));
    /// // As is usual, only matrices decay, and biases and the norms' scales don't.
    /// let decays = |_: &str, shape: &[usize]| shape.len() > 1;
    /// assert_eq!(linear.select_mut(&decays).num_parameters(), 6);
    /// assert_eq!(linear.select_mut(&|name, _| name == "bias").num_parameters(), 2);
    /// ```
    fn select_mut(&mut self, keep: &dyn Fn(&str, &[usize]) -> bool) -> Selection<'_> {
        let mut all = self.named_parameters_mut();
        all.retain(|(name, view)| keep(name, view.shape()));
        Selection(all)
    }
}

/// Some of a module's parameters, from [`Parameters::select_mut`], with their names in the module.
#[derive(Debug)]
pub struct Selection<'m>(Vec<(String, ArrayViewMutD<'m, f32>)>);

impl Parameters for Selection<'_> {
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>)) {
        for (name, view) in &self.0 {
            visit(format!("{prefix}{name}"), view.view());
        }
    }

    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    ) {
        for (name, view) in &mut self.0 {
            visit(format!("{prefix}{name}"), view.view_mut());
        }
    }
}

/// Implements [`Parameters`] for a struct by naming its fields in order: the twins `visit` and
/// `visit_mut` from one list.
///
/// A field is an array, whose name is the one given; or a module, whose names continue the one
/// given; or an `Option`, `Vec`, array or `Box` of modules. A `Vec` or array inserts `0.`, `1.` and
/// so on. A generic struct is preceded by its parameters in brackets.
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
///
/// struct Residual<M> {
///     inner: M,
/// }
/// parameters!([M: Parameters] Residual<M> { "inner." inner });
/// assert_eq!(Residual { inner: LayerNorm::new(4) }.num_parameters(), 8);
/// ```
#[macro_export]
macro_rules! parameters {
    ([$($generics:tt)*] $module:ty { $($name:literal $field:ident),+ $(,)? }) => {
        impl<$($generics)*> $crate::Parameters for $module {
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
    ($module:ty { $($fields:tt)+ }) => {
        $crate::parameters!([] $module { $($fields)+ });
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

/// Implements [`Parameters`] for lists of modules, whose names are numbers as in `nn.ModuleList`.
macro_rules! list_of_parameters {
    ($list:ty, $($generics:tt)+) => {
        impl<$($generics)+> Parameters for $list {
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
    };
}

list_of_parameters!(Vec<P>, P: Parameters);
list_of_parameters!([P; N], P: Parameters, const N: usize);

/// Implements [`Parameters`] for pointers, which have the parameters of what they point to.
macro_rules! pointer_to_parameters {
    ($pointer:ty) => {
        impl<P: Parameters + ?Sized> Parameters for $pointer {
            fn visit<'a>(
                &'a self,
                prefix: &str,
                visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>),
            ) {
                (**self).visit(prefix, visit);
            }

            fn visit_mut<'a>(
                &'a mut self,
                prefix: &str,
                visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
            ) {
                (**self).visit_mut(prefix, visit);
            }
        }
    };
}

pointer_to_parameters!(&mut P);
pointer_to_parameters!(Box<P>);

#[cfg(test)]
mod tests {
    use torch_rng::TorchRng;

    use super::*;
    use crate::Linear;

    #[test]
    fn lists_pointers_and_selections_name_the_parameters_of_what_they_hold() {
        let linear = || Linear::new(3, 2, true, &mut TorchRng::manual_seed(123));
        let names = |module: &dyn Parameters| -> Vec<String> {
            let names = module.named_parameters().into_iter();
            names.map(|(name, _)| name).collect()
        };
        let numbered = ["0.weight", "0.bias", "1.weight", "1.bias"];
        assert_eq!(names(&vec![linear(), linear()]), numbered);
        assert_eq!(names(&[linear(), linear()]), numbered);
        assert_eq!(names(&[Box::new(linear()), Box::new(linear())]), numbered);

        let mut boxed: Box<dyn Parameters> = Box::new(linear());
        assert_eq!(names(&boxed), ["weight", "bias"]);
        let mut matrices = boxed.select_mut(&|_, shape| shape.len() == 2);
        assert_eq!(names(&matrices), ["weight"]);
        matrices.fill_zero();
        let zeros = |view: ArrayViewD<'_, f32>| view.iter().all(|&x| x == 0.0);
        let parameters = boxed.named_parameters().into_iter();
        let are_zero: Vec<bool> = parameters.map(|(_, view)| zeros(view)).collect();
        assert_eq!(are_zero, [true, false]);
    }
}
