//! The book's deep network with or without shortcut connections (listing 4.5), and the book's
//! function `print_gradients`.

use ndarray::{Array2, ArrayRef2, ArrayViewD, ArrayViewMutD};
use tensor_ops::{Linear, Parameters, gelu, gelu_backward, mse_loss_backward};
use torch_rng::TorchRng;

use crate::GptError;

/// A deep network of linear layers, each of which is followed by GELU. It corresponds to the class
/// `ExampleDeepNeuralNetwork` of the book (listing 4.5). The gradients of its weights are stored in
/// another value of this type.
///
/// ```
/// use gpt::{ExampleDeepNeuralNetwork, torch_rng::TorchRng};
/// use ndarray::array;
/// let mut rng = TorchRng::manual_seed(123);
/// let network = ExampleDeepNeuralNetwork::new(&[3, 3, 3, 1], true, &mut rng)?;
/// let gradients = network.mean_absolute_gradients(&array![[1.0, 0.0, -1.0]], &array![[0.0]]);
/// assert_eq!(gradients[0].0, "layers.0.0.weight");
/// # Ok::<(), gpt::GptError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ExampleDeepNeuralNetwork {
    /// Linear layers of the network. There is one for each pair of consecutive layer sizes.
    pub layers: Vec<Linear>,
    /// Whether the input of a layer is added to its output if both have the same size.
    pub use_shortcut: bool,
}

/// The values that [`ExampleDeepNeuralNetwork::forward_train`] stores for
/// [`ExampleDeepNeuralNetwork::backward`]. For each layer, they are the input and the output of the
/// linear layer before GELU is applied.
#[derive(Clone, Debug)]
#[must_use]
pub struct ShortcutCache(Vec<(Array2<f32>, Array2<f32>)>);

impl ExampleDeepNeuralNetwork {
    /// Creates a network with random weights, which are drawn layer by layer. For example, the
    /// `layer_sizes` [3, 3, 1] create two layers: one with 3 inputs and 3 outputs, and one with 3
    /// inputs and 1 output.
    ///
    /// # Errors
    ///
    /// Returns an error if `layer_sizes` has fewer than two elements or contains 0.
    pub fn new(
        layer_sizes: &[usize],
        use_shortcut: bool,
        rng: &mut TorchRng,
    ) -> Result<Self, GptError> {
        if layer_sizes.len() < 2 || layer_sizes.contains(&0) {
            return Err(GptError::LayerSizes(layer_sizes.to_vec()));
        }
        let layers = layer_sizes
            .windows(2)
            .map(|sizes| Linear::new(sizes[0], sizes[1], true, rng))
            .collect();
        Ok(Self {
            layers,
            use_shortcut,
        })
    }

    /// Applies the network to an input of shape (batch, first layer size). The result has shape
    /// (batch, last layer size).
    ///
    /// # Panics
    ///
    /// Panics if the number of columns of `x` isn't equal to the first layer size.
    pub fn forward(&self, x: &ArrayRef2<f32>) -> Array2<f32> {
        self.forward_train(x).0
    }

    /// Applies the network like [`forward`](Self::forward), and also returns a cache for
    /// [`backward`](Self::backward).
    ///
    /// # Panics
    ///
    /// Panics if the number of columns of `x` isn't equal to the first layer size.
    pub fn forward_train(&self, x: &ArrayRef2<f32>) -> (Array2<f32>, ShortcutCache) {
        let mut x = x.to_owned();
        let mut cache = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let hidden = layer.forward(&x);
            let mut output = gelu(&hidden);
            if self.adds_shortcut(layer) {
                output += &x;
            }
            cache.push((x, hidden));
            x = output;
        }
        (x, ShortcutCache(cache))
    }

    /// Adds the gradients of all layers to `grads` and returns the gradient of the input.
    ///
    /// # Panics
    ///
    /// Panics if `d_out` doesn't have the shape of the network's output, or if the layer sizes of
    /// `grads` differ from those of the network.
    pub fn backward(
        &self,
        cache: ShortcutCache,
        d_out: Array2<f32>,
        grads: &mut ExampleDeepNeuralNetwork,
    ) -> Array2<f32> {
        assert!(
            grads.layers.len() == self.layers.len(),
            "ExampleDeepNeuralNetwork::backward: the network has {} layers, but the gradients have {}",
            self.layers.len(),
            grads.layers.len()
        );
        let mut d_x = d_out;
        for ((layer, (x, hidden)), grads) in
            self.layers.iter().zip(cache.0).zip(&mut grads.layers).rev()
        {
            // The forward pass computed x = gelu(layer(x)), or x + gelu(layer(x)) with a shortcut.
            let d_shortcut = self.adds_shortcut(layer).then(|| d_x.clone());
            let d_hidden = gelu_backward(&hidden, d_x);
            d_x = layer.backward(&x, &d_hidden, grads);
            if let Some(d_shortcut) = d_shortcut {
                d_x += &d_shortcut;
            }
        }
        d_x
    }

    /// Returns the name of each layer's weight matrix and the mean absolute value of its gradient,
    /// like the output of the book's `print_gradients`. The loss is the mean squared error between
    /// `target` and the network's output for `x`.
    ///
    /// # Panics
    ///
    /// Panics if the shape of `x` or `target` doesn't match the layer sizes.
    pub fn mean_absolute_gradients(
        &self,
        x: &ArrayRef2<f32>,
        target: &ArrayRef2<f32>,
    ) -> Vec<(String, f32)> {
        let (output, cache) = self.forward_train(x);
        let mut grads = self.clone();
        grads.fill_zero();
        self.backward(cache, mse_loss_backward(&output, target, 1.0), &mut grads);
        let mean = |d: ArrayViewD<f32>| d.iter().map(|d| d.abs()).sum::<f32>() / d.len() as f32;
        let of_weights = grads.named_parameters().into_iter();
        let of_weights = of_weights.filter(|(name, _)| name.ends_with("weight"));
        of_weights.map(|(name, d)| (name, mean(d))).collect()
    }

    fn adds_shortcut(&self, layer: &Linear) -> bool {
        self.use_shortcut && layer.in_features() == layer.out_features()
    }
}

impl Parameters for ExampleDeepNeuralNetwork {
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>)) {
        for (i, layer) in self.layers.iter().enumerate() {
            layer.visit(&format!("{prefix}layers.{i}.0."), visit);
        }
    }

    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    ) {
        for (i, layer) in self.layers.iter_mut().enumerate() {
            layer.visit_mut(&format!("{prefix}layers.{i}.0."), visit);
        }
    }
}
