//! Compares the gradients of multi-head attention with numerical derivatives, with and without
//! dropout. The comparison is repeated for inputs from -0.1 to 0.1, from -1 to 1, and from -3 to 3.

use attention::{AttentionConfig, MultiHeadAttention};
use ndarray::Array3;
use tensor_ops::Parameters;
use test_support::{GradientCheck, INPUT_SCALES, project, projection_weights, test_array};
use torch_rng::{Build, TorchRng};

/// The settings for comparing gradients with numerical derivatives. The tolerance is larger than
/// the default because attention consists of several operations in `f32`, whose rounding errors add
/// up in the numerical derivatives.
const CHECK: GradientCheck = GradientCheck {
    tolerance: 5e-3,
    step: None,
    max_elements: usize::MAX,
};

fn check(num_tokens: usize, dropout: f64, build: Build) {
    let config = AttentionConfig {
        d_in: 5,
        d_out: 6,
        context_length: num_tokens,
        dropout,
        num_heads: 2,
        qkv_bias: true,
    };
    let mut mha = MultiHeadAttention::new(config, &mut TorchRng::manual_seed(1))
        .expect("a valid configuration and input");
    for (i, (_, mut view)) in mha.named_parameters_mut().into_iter().enumerate() {
        let values = test_array(view.raw_dim(), 1.0, i as u64);
        view.assign(&values);
    }
    let rng = TorchRng::manual_seed(9).with_build(build);
    for scale in INPUT_SCALES {
        let x: Array3<f32> = test_array((2, num_tokens, 5), scale, 30);
        let w = projection_weights((2, num_tokens, 6), 31);
        let objective = |mha: &MultiHeadAttention, x: &Array3<f32>| {
            project(
                &mha.forward_train(x.clone(), &mut rng.clone())
                    .expect("a valid configuration and input")
                    .0,
                &w,
            )
        };
        let mut grads = MultiHeadAttention::zeros(config).expect("a valid configuration and input");
        let (_, cache) = mha
            .forward_train(x.clone(), &mut rng.clone())
            .expect("a valid configuration and input");
        let d_x = mha.backward(cache, &w, &mut grads);
        CHECK.check("attention input", &x, &d_x, |x| objective(&mha, x));
        for (i, (name, d)) in grads.named_parameters().into_iter().enumerate() {
            if name == "W_key.bias" {
                // The bias of the key layer adds the same number to all scores of a query. This
                // doesn't change the softmax of the scores, so the gradient of the bias must be 0.
                assert!(
                    d.iter().all(|d| d.abs() < 1e-4),
                    "{name} has no influence, but a gradient of {d}"
                );
                continue;
            }
            let parameter = mha.named_parameters()[i].1.to_owned();
            // If the inputs are small, changing a weight hardly affects the attention scores. The
            // step of the numerical derivative must therefore be large enough to change the output
            // by more than the rounding errors.
            let check = GradientCheck {
                step: Some(0.15 / f64::from(scale)),
                ..CHECK
            };
            check.check(&format!("attention {name}"), &parameter, &d, |p| {
                let mut moved = mha.clone();
                moved.named_parameters_mut()[i].1.assign(p);
                objective(&moved, &x)
            });
        }
    }
}

#[test]
fn all_gradients_are_right_without_dropout() {
    check(7, 0.0, Build::Portable);
}

#[test]
fn all_gradients_are_right_with_portable_dropout() {
    check(5, 0.3, Build::Portable);
}

#[test]
fn all_gradients_are_right_with_mkl_dropout() {
    check(5, 0.3, Build::Mkl);
}
