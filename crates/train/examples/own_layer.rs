//! Implements and trains a custom layer. Run it with `cargo run --release -p train --example
//! own_layer`.
//!
//! The layer is a gated linear unit that computes `x + down(gate(x) * silu(up(x)))`. The example
//! implements the forward pass and the backward pass of the layer, compares the gradients with
//! finite differences, and trains the layer with AdamW. It then saves the weights and the
//! optimizer's moments, loads them again, and continues the training.
//!
//! For simplicity, the layer uses neither attention nor dropout.

use std::error::Error;

use checkpoint::{load_tensors_into, save_tensors};
use ndarray::{Array2, ArrayRef2};
use tensor_ops::{Linear, Parameters, mse_loss, mse_loss_backward, parameters};
use test_support::check_gradient;
use torch_rng::TorchRng;
use train::{AdamW, AdamWConfig};

/// A layer that computes `x + down(gate(x) * silu(up(x)))`. The gradients of its weights are stored
/// in a second `GatedUnit`.
#[derive(Clone, Debug, PartialEq)]
struct GatedUnit {
    gate: Linear,
    up: Linear,
    down: Linear,
}

// This macro implements the trait [`Parameters`], which provides access to the names and the values
// of the weights. The optimizer and the functions that clip gradients, save weights and load
// weights work with any type that implements this trait.
parameters!(GatedUnit { "gate." gate, "up." up, "down." down });

/// The intermediate results of the forward pass that the backward pass needs. All arrays except `x`
/// have the shape (rows, hidden).
struct Cache {
    /// Input of the layer, of shape (rows, features).
    x: Array2<f32>,
    gate: Array2<f32>,
    up: Array2<f32>,
    gated: Array2<f32>,
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

impl GatedUnit {
    fn new(features: usize, hidden: usize, rng: &mut TorchRng) -> Self {
        Self {
            gate: Linear::new(features, hidden, false, rng),
            up: Linear::new(features, hidden, false, rng),
            down: Linear::new(hidden, features, true, rng),
        }
    }

    /// Applies the layer to `x`. Returns the output and the intermediate results for the backward
    /// pass. Both the input and the output have the shape (rows, features).
    fn forward_train(&self, x: &ArrayRef2<f32>) -> (Array2<f32>, Cache) {
        let (gate, up) = (self.gate.forward(x), self.up.forward(x));
        let gated = &gate * &up.mapv(|x| x * sigmoid(x));
        let out = x.to_owned() + self.down.forward(&gated);
        let x = x.to_owned();
        (out, Cache { x, gate, up, gated })
    }

    /// Adds the gradients of the weights to `grads`, and returns the gradient of the input. `d_out`
    /// is the gradient of the output.
    fn backward(&self, cache: &Cache, d_out: &ArrayRef2<f32>, grads: &mut Self) -> Array2<f32> {
        // The forward pass computed out = x + down(gated).
        let mut d_x = d_out.to_owned();
        let d_gated = self.down.backward(&cache.gated, d_out, &mut grads.down);
        // The forward pass computed gated = gate * silu(up), where silu(z) = z sigmoid(z). With s =
        // sigmoid(z), the derivative of silu(z) is s + z s (1 - s).
        let d_gate = &d_gated * &cache.up.mapv(|x| x * sigmoid(x));
        let slope = cache.up.mapv(|x| {
            let s = sigmoid(x);
            s + x * s * (1.0 - s)
        });
        let d_up = &d_gated * &cache.gate * slope;
        // The forward pass computed gate = gate(x) and up = up(x).
        d_x += &self.gate.backward(&cache.x, &d_gate, &mut grads.gate);
        d_x += &self.up.backward(&cache.x, &d_up, &mut grads.up);
        d_x
    }
}

/// Trains the layer for `steps` steps, each of which uses all rows of the inputs `x` and of the
/// expected outputs `target`. Returns the loss of the last step.
fn train(
    layer: &mut GatedUnit,
    optimizer: &mut AdamW,
    x: &Array2<f32>,
    target: &Array2<f32>,
    steps: usize,
) -> f32 {
    let mut grads = layer.clone();
    grads.fill_zero();
    let mut loss = f32::NAN;
    for _ in 0..steps {
        let (out, cache) = layer.forward_train(x);
        loss = mse_loss(&out, target);
        layer.backward(&cache, &mse_loss_backward(&out, target, 1.0), &mut grads);
        optimizer.step(layer, &mut grads); // also sets the gradients to 0
    }
    loss
}

fn main() -> Result<(), Box<dyn Error>> {
    let rng = &mut TorchRng::manual_seed(123);
    let mut layer = GatedUnit::new(6, 16, rng);
    let x = Array2::from_shape_vec((32, 6), rng.randn(32 * 6))?;
    let target = x.mapv(f32::abs);

    // Compare the gradients of the loss with finite differences.
    let loss = |layer: &GatedUnit, x: &Array2<f32>| mse_loss(&layer.forward_train(x).0, &target);
    let (out, cache) = layer.forward_train(&x);
    let mut grads = layer.clone();
    grads.fill_zero();
    let d_x = layer.backward(&cache, &mse_loss_backward(&out, &target, 1.0), &mut grads);
    check_gradient("input", &x, &d_x, |x| f64::from(loss(&layer, x)));
    for (i, (name, d)) in grads.named_parameters().into_iter().enumerate() {
        let values = layer.named_parameters()[i].1.to_owned();
        let report = check_gradient(&name, &values, &d, |values| {
            let mut moved = layer.clone();
            moved.named_parameters_mut()[i].1.assign(values);
            f64::from(loss(&moved, &x))
        });
        println!("{name}: relative error {:.1e}", report.max_rel_error);
    }

    let settings = AdamWConfig {
        lr: 1e-2,
        ..AdamWConfig::default()
    };
    let mut optimizer = AdamW::new(settings, &layer)?;
    println!(
        "loss {:.4}",
        train(&mut layer, &mut optimizer, &x, &target, 200)
    );

    // Save the weights and the moments to files, and load them into a new layer and a new
    // optimizer. Then train both the original layer and the new layer. The assertion below checks
    // that their losses and weights are the same.
    let folder = std::env::temp_dir().join(format!("own-layer-{}", std::process::id()));
    atomic_file::create_folder(&folder)?;
    let [weights, moments] = ["weights", "moments"].map(|name| folder.join(name));
    save_tensors(&weights, layer.named_parameters())?;
    save_tensors(&moments, optimizer.named_parameters())?;

    let mut resumed = GatedUnit::new(6, 16, rng);
    load_tensors_into(&weights, &mut resumed, "")?;
    let mut resumed_optimizer = AdamW::new(settings, &resumed)?;
    load_tensors_into(&moments, &mut resumed_optimizer, "")?;
    resumed_optimizer.steps = optimizer.steps;
    std::fs::remove_dir_all(&folder)?;

    let went_on = train(&mut layer, &mut optimizer, &x, &target, 100);
    let after_loading = train(&mut resumed, &mut resumed_optimizer, &x, &target, 100);
    assert_eq!((went_on, &layer), (after_loading, &resumed));
    println!(
        "after 100 more steps, the original layer and the loaded one have the same loss {went_on:.4}"
    );
    Ok(())
}
