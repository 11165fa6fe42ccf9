//! Shows how to train an attention module on your own data. The following command runs this
//! example:
//!
//! ```sh
//! cargo run --release -p attention --example own_data
//! ```
//!
//! The training data consists of random vectors. The module learns to output, for each token, the
//! mean of the input vectors from the first token up to and including that token. The weights are
//! updated by plain gradient descent.

use std::error::Error;

use attention::ndarray::{Array3, Axis};
use attention::torch_rng::TorchRng;
use attention::{AttentionConfig, MultiHeadAttention, Parameters};

fn main() -> Result<(), Box<dyn Error>> {
    let config = AttentionConfig {
        d_in: 4,
        d_out: 4,
        context_length: 6,
        ..AttentionConfig::default()
    };
    let rng = &mut TorchRng::manual_seed(123);
    let mut attention = MultiHeadAttention::new(config, rng)?;
    println!("{} parameters", attention.num_parameters());

    let x = Array3::from_shape_vec((2, 6, 4), rng.randn(48))?; // shape: (batch, num_tokens, d_in)
    let mut means = x.clone();
    means.accumulate_axis_inplace(Axis(1), |&before, sum| *sum += before);
    for (i, mut token) in means.axis_iter_mut(Axis(1)).enumerate() {
        token /= (i + 1) as f32;
    }

    for step in 0..=400 {
        let (out, cache) = attention.forward_train(x.clone(), rng)?;
        let off = &out - &means; // half of the gradient of the squared error
        if step % 100 == 0 {
            println!(
                "step {step}: error {:.4}",
                (&off * &off).mean().unwrap_or(0.0)
            );
        }
        let mut grads = MultiHeadAttention::zeros(config)?;
        attention.backward(cache, &off, &mut grads);
        for ((_, mut weight), (_, grad)) in
            (attention.named_parameters_mut().into_iter()).zip(grads.named_parameters())
        {
            weight.scaled_add(-0.05, &grad);
        }
    }
    Ok(())
}
