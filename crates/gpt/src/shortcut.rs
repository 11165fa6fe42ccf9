//! The book's example of a deep network with or without shortcut connections (listing 4.5), and an
//! equivalent of the book's function `print_gradients`.

use ndarray::{Array2, ArrayRef2, ArrayViewD, ArrayViewMutD};
use tensor_ops::{Linear, Parameters, gelu, gelu_backward, mse_loss_backward};
use torch_rng::TorchRng;

use crate::GptError;

/// A deep network of linear layers, each of which is followed by GELU. It corresponds to the class
/// `ExampleDeepNeuralNetwork` of the book (listing 4.5). Values of this type are also used to store
/// the gradients of a network's weights.
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
    /// Linear layers of the network, one for each pair of consecutive layer sizes.
    pub layers: Vec<Linear>,
    /// Whether shortcut connections are used. If so, the input of each layer is added to its output
    /// after GELU, provided that both have the same size.
    pub use_shortcut: bool,
}

/// The intermediate results that [`ExampleDeepNeuralNetwork::forward_train`] stores for
/// [`ExampleDeepNeuralNetwork::backward`]. They consist of each linear layer's input and output.
/// The output is stored as it is before GELU.
#[derive(Clone, Debug)]
#[must_use]
pub struct ShortcutCache(Vec<(Array2<f32>, Array2<f32>)>);

impl ExampleDeepNeuralNetwork {
    /// Creates a network with random weights, which are drawn one layer after the other. For
    /// example, if `layer_sizes` is [3, 3, 1], the network has two layers: the first layer has 3
    /// inputs and 3 outputs, and the second layer has 3 inputs and 1 output.
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

    /// Applies the network to `x`, which has one row per sample and as many columns as the first
    /// layer has inputs. The result has as many columns as the last layer has outputs.
    ///
    /// # Panics
    ///
    /// Panics if the number of columns of `x` isn't equal to the number of inputs of the first
    /// layer.
    pub fn forward(&self, x: &ArrayRef2<f32>) -> Array2<f32> {
        self.forward_train(x).0
    }

    /// Applies the network like [`forward`](Self::forward), and also returns the intermediate
    /// results that [`backward`](Self::backward) needs.
    ///
    /// # Panics
    ///
    /// Panics if the number of columns of `x` isn't equal to the number of inputs of the first
    /// layer.
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

    /// Performs the network's backward pass: adds the gradients of the weights and biases of all
    /// layers to `grads`, and returns the gradient of the network's input. `d_out` is the gradient
    /// of its output.
    ///
    /// # Panics
    ///
    /// Panics if `d_out` doesn't have the same shape as the network's output, or if `grads` was
    /// created with different layer sizes.
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
            // Backpropagate through `x = gelu(layer(x))`, or through `x = x + gelu(layer(x))` if
            // the layer has a shortcut connection.
            let d_shortcut = self.adds_shortcut(layer).then(|| d_x.clone());
            let d_hidden = gelu_backward(&hidden, d_x);
            d_x = layer.backward(&x, &d_hidden, grads);
            if let Some(d_shortcut) = d_shortcut {
                d_x += &d_shortcut;
            }
        }
        d_x
    }

    /// Returns the name of each layer's weight matrix together with the mean absolute value of its
    /// gradient, which is what the book's function `print_gradients` prints. The loss is the mean
    /// squared error between `target` and the network's output for the input `x`.
    ///
    /// # Panics
    ///
    /// Panics if the number of columns of `x` isn't equal to the number of inputs of the first
    /// layer, or if `target` doesn't have the same shape as the network's output.
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
