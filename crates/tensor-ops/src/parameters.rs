//! The trait [`Parameters`], which provides the names and values of all weights of a module.
//! Optimizers, gradient clipping, parameter counts and checkpoints are based on it.
//!
//! [`Parameters`] is the only trait that all modules implement. It doesn't prescribe how a module
//! computes its output.

use ndarray::{Array, ArrayViewD, ArrayViewMutD, Dimension};

/// A type that contains weights or their gradients. To store the gradients of a module, use a
/// second value of the same type.
///
/// For the modules of the book, the names are the same as in PyTorch's `named_parameters()` and in
/// the same order. Each name is therefore also a key of the module's `state_dict`.
///
/// Arrays of `f32` implement this trait. If a type `T` implements it, so do `Option<T>`, `Vec<T>`,
/// `[T; N]`, `Box<T>` and `&mut T`. To implement it for a struct, use the macro
/// [`parameters!`](crate::parameters). If your function has a parameter of the type `&(impl
/// Parameters + ?Sized)`, it also accepts a `&dyn Parameters`.
///
/// ```
/// use tensor_ops::torch_rng::TorchRng;
/// use tensor_ops::{Linear, Parameters};
/// let mut linear = Linear::new(3, 2, true, &mut TorchRng::manual_seed(123));
/// let names: Vec<String> = linear.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["weight", "bias"]);
/// linear.fill_zero(); // gradients are reset like this before each step
/// assert_eq!(linear.num_parameters(), 8);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no parameters",
    note = "a field in `parameters!` must be an f32 array, a module, or an `Option`, `Vec`, array or `Box` of modules"
)]
pub trait Parameters {
    /// Calls `visit(name, view)` for each weight. Each name begins with `prefix`, which must either
    /// be empty or end with a dot, such as `"att."`.
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>));

    /// Does the same as [`visit`](Self::visit), but passes mutable views.
    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    );

    /// Returns the name and a view of each weight, like PyTorch's `named_parameters()`.
    fn named_parameters(&self) -> Vec<(String, ArrayViewD<'_, f32>)> {
        let mut all = Vec::new();
        self.visit("", &mut |name, view| all.push((name, view)));
        all
    }

    /// Returns the name and a mutable view of each weight.
    fn named_parameters_mut(&mut self) -> Vec<(String, ArrayViewMutD<'_, f32>)> {
        let mut all = Vec::new();
        self.visit_mut("", &mut |name, view| all.push((name, view)));
        all
    }

    /// Returns the total number of elements in all weights, like `sum(p.numel() for p in
    /// model.parameters())` in PyTorch.
    fn num_parameters(&self) -> usize {
        let mut total = 0;
        self.visit("", &mut |_, view| total += view.len());
        total
    }

    /// Sets all elements to 0. If this value contains gradients, this is equivalent to
    /// `zero_grad()` in PyTorch.
    fn fill_zero(&mut self) {
        self.visit_mut("", &mut |_, mut view| view.fill(0.0));
    }

    /// Selects the weights for which `keep(name, shape)` returns true. Use this method to define
    /// parameter groups or to freeze layers.
    ///
    /// Because the selection also implements [`Parameters`], you can pass it to an optimizer, to a
    /// function that computes a norm, or to a function that saves tensors. If you pass a selection
    /// of the weights to an optimizer, select their gradients in the same way. The optimizer then
    /// leaves all other weights unchanged, so frozen layers aren't affected even by weight decay.
    ///
    /// ```
    /// use tensor_ops::torch_rng::TorchRng;
    /// use tensor_ops::{Linear, Parameters};
    /// let mut linear = Linear::new(3, 2, true, &mut TorchRng::manual_seed(123));
    /// // Usually, weight decay applies to matrices, but not to biases or the scale of LayerNorm.
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

/// A selection of weights, returned by [`Parameters::select_mut`]. Each weight keeps the name that
/// it has in the module.
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

/// Implements [`Parameters`] for a struct. The arguments of the macro are the type of the struct
/// and all fields with weights, in order. Each field is preceded by its name as a string.
///
/// Each field must be an array or a module that implements [`Parameters`] itself. If the field is
/// an array, the string is the complete name of a weight. If the field is a module, the string is a
/// prefix for the names of its weights and must end with a dot. For a `Vec` or an array of modules,
/// the index of each module is added to the prefix (`0.`, `1.` and so on). If the struct is
/// generic, the generic parameters come first, in brackets.
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

/// An array is a single weight, whose name is `prefix`.
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

/// Implements [`Parameters`] for optional weights, such as the bias of a linear layer. `None`
/// contains no weights.
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

/// Implements [`Parameters`] for a list of modules. As in `nn.ModuleList`, the names of the weights
/// contain the index of their module.
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

/// Implements [`Parameters`] for a pointer type, such as `Box<P>`. The weights of a pointer are
/// those of the value that it points to.
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

/// Returns the elements of a weight as a slice in row-major order.
///
/// # Panics
///
/// Panics if the elements of `weight` aren't stored in row-major order. The panic message contains
/// the weight's `name`.
pub fn row_major<'a>(name: &str, weight: ArrayViewD<'a, f32>) -> &'a [f32] {
    weight.to_slice().unwrap_or_else(|| not_row_major(name))
}

/// Returns the elements of a weight as a mutable slice in row-major order.
///
/// # Panics
///
/// Panics if the weight isn't in row-major order. The message contains `name`.
pub fn row_major_mut<'a>(name: &str, weight: ArrayViewMutD<'a, f32>) -> &'a mut [f32] {
    weight.into_slice().unwrap_or_else(|| not_row_major(name))
}

fn not_row_major(name: &str) -> ! {
    panic!(
        "the array {name} isn't in row-major order; assign array.as_standard_layout().into_owned() to this field"
    )
}

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
