//! Compares each backward pass with numerical derivatives of the forward pass. Most tests use
//! inputs from three ranges: from -0.1 to 0.1, from -1 to 1, and from -3 to 3.
//!
//! The following command prints the largest relative error of each gradient:
//!
//! ```sh
//! cargo test -p tensor-ops --test gradients -- --nocapture
//! ```

use ndarray::{Array2, Array3, Array4, Axis, ShapeBuilder, array};
use tensor_ops::engine::{causal_softmax_rows, softmax_backward_row};
use tensor_ops::{
    Dropout, Embedding, LayerNorm, Linear, Parameters, cross_entropy, cross_entropy_train, gelu,
    gelu_backward, gelu_exact, gelu_exact_backward, matmul_batched, matmul_batched_backward,
    mse_loss, mse_loss_backward, relu, relu_backward, softmax, softmax_backward,
};
use test_support::{
    INPUT_SCALES, away_from_zero, check_gradient, project, projection_weights, test_array,
};
use torch_rng::{Build, TorchRng};

/// Checks the gradient of each weight of a layer. `objective` computes a number from the layer, and
/// `grads` contains the gradient of this number, which is compared with numerical derivatives.
fn check_parameters<L: Parameters + Clone>(
    name: &str,
    layer: &L,
    grads: &L,
    objective: impl Fn(&L) -> f64,
) {
    for (i, (parameter, d)) in grads.named_parameters().into_iter().enumerate() {
        let values = layer.named_parameters()[i].1.to_owned();
        check_gradient(&format!("{name} {parameter}"), &values, &d, |values| {
            let mut moved = layer.clone();
            moved.named_parameters_mut()[i].1.assign(values);
            objective(&moved)
        });
    }
}

#[test]
fn linear_gradients_are_right_for_input_weight_and_bias() {
    for scale in INPUT_SCALES {
        let layer = Linear {
            weight: test_array((5, 7), scale, 1),
            bias: Some(test_array(5, scale, 2)),
            ..Linear::zeros(7, 5, true)
        };
        let x: Array3<f32> = test_array((2, 3, 7), scale, 3);
        let w = projection_weights((2, 3, 5), 4);
        let mut grads = Linear::zeros(7, 5, true);
        let d_x = layer.backward(&x, &w, &mut grads);
        let of = |layer: &Linear, x: &Array3<f32>| project(&layer.forward(x), &w);
        check_gradient("linear input", &x, &d_x, |x| of(&layer, x));
        check_parameters("linear", &layer, &grads, |layer| of(layer, &x));
    }
}

#[test]
fn softmax_gradients_are_right_along_every_axis() {
    for scale in INPUT_SCALES {
        let x: Array3<f32> = test_array((3, 4, 5), scale, 1);
        let w: Array3<f32> = projection_weights((3, 4, 5), 2);
        for axis in [0, 1, 2].map(Axis) {
            let d_x = softmax_backward(&softmax(&x, axis), &w, axis);
            check_gradient("softmax", &x, &d_x, |x| project(&softmax(x, axis), &w));
        }
    }
}

#[test]
fn gradients_of_batched_products_are_right_for_both_factors() {
    for scale in INPUT_SCALES {
        let a: Array4<f32> = test_array((2, 3, 4, 5), scale, 1);
        let b: Array4<f32> = test_array((2, 3, 5, 2), scale, 2);
        let w: Array4<f32> = projection_weights((2, 3, 4, 2), 3);
        let (d_a, d_b) = matmul_batched_backward(&a, &b, &w);
        let of = |a: &Array4<f32>, b: &Array4<f32>| project(&matmul_batched(a, b), &w);
        check_gradient("left factor", &a, &d_a, |a| of(a, &b));
        check_gradient("right factor", &b, &d_b, |b| of(&a, b));
    }
}

#[test]
fn linear_gradients_accumulate_instead_of_replacing() {
    let layer = Linear {
        weight: test_array((4, 3), 1.0, 1),
        bias: Some(test_array(4, 1.0, 2)),
        ..Linear::zeros(3, 4, true)
    };
    let x: Array2<f32> = test_array((6, 3), 1.0, 3);
    let d_out: Array2<f32> = test_array((6, 4), 1.0, 4);
    let mut once = Linear::zeros(3, 4, true);
    let d_x = layer.backward(&x, &d_out, &mut once);
    let mut twice = once.clone();
    let mut d_x_twice = d_x.clone();
    layer.backward_adding_to(&x, &d_out, &mut twice, &mut d_x_twice);
    test_support::assert_close(&twice.weight, &(&once.weight * 2.0), 1e-5);
    test_support::assert_close(&twice.bias.unwrap(), &(once.bias.unwrap() * 2.0), 1e-5);
    test_support::assert_close(&d_x_twice, &(d_x * 2.0), 1e-5);
}

#[test]
fn embedding_gradients_add_up_over_repeated_ids() {
    for scale in INPUT_SCALES {
        let table = Embedding {
            weight: test_array((6, 300), scale, 1),
        };
        let ids = array![[3u32, 1, 3], [0, 3, 5]];
        let w = projection_weights((2, 3, 300), 2);
        let mut grads = Embedding::zeros(6, 300);
        table.backward(&ids, &w, &mut grads);
        check_parameters("embedding", &table, &grads, |table| {
            project(&table.forward(&ids), &w)
        });
    }
}

#[test]
fn layer_norm_gradients_are_right_for_input_scale_and_shift() {
    for scale in INPUT_SCALES {
        let layer = LayerNorm {
            scale: test_array(19, 1.0, 1),
            shift: test_array(19, 1.0, 2),
            eps: 1e-5,
        };
        let x: Array2<f32> = test_array((4, 19), scale, 3);
        let w = projection_weights((4, 19), 4);
        let mut grads = LayerNorm::zeros(19);
        let (_, cache) = layer.forward_train(&x);
        let d_x = layer.backward(cache, &w, &mut grads);
        let of = |layer: &LayerNorm, x: &Array2<f32>| project(&layer.forward(x), &w);
        check_gradient("layer_norm input", &x, &d_x, |x| of(&layer, x));
        check_parameters("layer_norm", &layer, &grads, |layer| of(layer, &x));
    }
}

/// Checks the gradient of an elementwise function with inputs from each range in [`INPUT_SCALES`].
/// The absolute value of each input is at least `margin * scale`.
fn check_elementwise(
    name: &str,
    margin: f32,
    forward: fn(&Array2<f32>) -> Array2<f32>,
    backward: fn(&Array2<f32>, Array2<f32>) -> Array2<f32>,
) {
    for scale in INPUT_SCALES {
        let x: Array2<f32> = away_from_zero((9, 11), scale, margin * scale, 1);
        let w = projection_weights((9, 11), 2);
        let d_x = backward(&x, w.clone());
        check_gradient(name, &x, &d_x, |x| project(&forward(x), &w));
    }
}

#[test]
fn activations_gradients_are_right() {
    check_elementwise("gelu", 0.0, |x| gelu(x), |x, d| gelu_backward(x, d));
    check_elementwise(
        "exact gelu",
        0.0,
        |x| gelu_exact(x),
        |x, d| gelu_exact_backward(x, d),
    );
    // ReLU has a kink at 0, where numerical derivatives are wrong. Therefore, no input may be close
    // to 0.
    check_elementwise("relu", 0.3, |x| relu(x), |x, d| relu_backward(x, d));
}

#[test]
fn causal_softmax_gradient_is_right_and_zero_for_the_future() {
    for scale in INPUT_SCALES {
        let x: Array2<f32> = test_array((5, 8), scale, 1);
        let w: Array2<f32> = projection_weights((5, 8), 2);
        let softmax = |x: &Array2<f32>| {
            let mut p = x.clone();
            causal_softmax_rows(p.view_mut(), 0.7, 2, &mut [0.0; 5]);
            p
        };
        let p = softmax(&x);
        let mut d_x = w.clone();
        for (p, mut d) in p.rows().into_iter().zip(d_x.rows_mut()) {
            softmax_backward_row(p.to_slice().unwrap(), d.as_slice_mut().unwrap(), 0.7);
        }
        check_gradient("causal softmax", &x, &d_x, |x| project(&softmax(x), &w));
        assert_eq!(d_x[[0, 3]], 0.0, "row 0 sees keys 0 to 2 only");
    }
}

#[test]
fn dropout_gradient_follows_the_mask_of_the_forward_pass_in_both_builds() {
    for build in [Build::Portable, Build::Mkl] {
        let dropout = Dropout { p: 0.3 };
        let rng = TorchRng::manual_seed(7).with_build(build);
        for scale in INPUT_SCALES {
            let x: Array2<f32> = test_array((13, 17), scale, 1);
            let w = projection_weights((13, 17), 2);
            let (_, cache) = dropout.forward_train(x.clone(), &mut rng.clone());
            let d_x = dropout.backward(cache, w.clone());
            check_gradient("dropout", &x, &d_x, |x| {
                project(&dropout.forward_train(x.clone(), &mut rng.clone()).0, &w)
            });
        }
    }
}

#[test]
fn cross_entropy_gradient_is_right() {
    for scale in INPUT_SCALES {
        let logits: Array2<f32> = test_array((5, 23), scale, 1);
        let targets = vec![3, 0, 22, 3, 11];
        let (_, d_logits) = cross_entropy_train(logits.clone(), &targets, 1.0);
        check_gradient("cross_entropy", &logits, &d_logits, |logits| {
            f64::from(cross_entropy(logits, &targets))
        });
    }
}

#[test]
fn mse_gradient_is_right() {
    for scale in INPUT_SCALES {
        let x: Array2<f32> = test_array((3, 4), scale, 1);
        let target: Array2<f32> = test_array((3, 4), scale, 2);
        check_gradient("mse", &x, &mse_loss_backward(&x, &target, 1.0), |x| {
            f64::from(mse_loss(x, &target))
        });
    }
}

#[test]
fn a_linear_gradient_is_added_in_any_order_of_memory_and_to_inputs_without_features() {
    for in_features in [3, 0] {
        let layer = Linear {
            weight: test_array((5, in_features), 1.0, 1),
            ..Linear::zeros(in_features, 5, false)
        };
        let x: Array2<f32> = test_array((4, in_features), 1.0, 2);
        let d_out = test_array((4, 5), 1.0, 3);
        let mut grads = Linear::zeros(in_features, 5, false);
        let d_x = layer.backward(&x, &d_out, &mut grads);
        let mut turned = Array2::zeros((4, in_features).f());
        layer.backward_adding_to(&x, &d_out, &mut grads, &mut turned);
        assert_eq!(turned, d_x);
    }
}

#[test]
#[should_panic(expected = "the input has shape [2, 3, 4], but d_out has shape [3, 2, 5]")]
fn a_linear_gradient_of_other_leading_dimensions_is_refused() {
    let x: Array3<f32> = test_array((2, 3, 4), 1.0, 1);
    let d_out = test_array((3, 2, 5), 1.0, 2);
    Linear::zeros(4, 5, true).backward(&x, &d_out, &mut Linear::zeros(4, 5, true));
}

#[test]
#[should_panic(
    expected = "shapes ((5, 4), Some(5)), but their gradients have the shapes ((5, 4), None)"
)]
fn a_linear_gradient_without_the_bias_is_refused() {
    let x: Array2<f32> = test_array((3, 4), 1.0, 1);
    let d_out = test_array((3, 5), 1.0, 2);
    Linear::zeros(4, 5, true).backward(&x, &d_out, &mut Linear::zeros(4, 5, false));
}

#[test]
#[should_panic(
    expected = "the gradients of scale and shift have 2 and 2 elements, but scale and shift have 4"
)]
fn a_norms_gradient_of_another_size_is_refused() {
    let x: Array2<f32> = test_array((3, 4), 1.0, 1);
    let norm = LayerNorm::new(4);
    let (_, cache) = norm.forward_train(&x);
    norm.backward(cache, &x, &mut LayerNorm::zeros(2));
}

#[test]
#[should_panic(expected = "the table has shape (5, 4), but its gradient has shape (5, 3)")]
fn an_embeddings_gradient_of_another_size_is_refused() {
    let d_out = test_array((2, 4), 1.0, 1);
    Embedding::zeros(5, 4).backward(&array![0u32, 1], &d_out, &mut Embedding::zeros(5, 3));
}

#[test]
#[should_panic(expected = "Embedding::backward: the ID 5 is out of range for a table with 5 rows")]
fn an_embeddings_backward_pass_names_the_id_out_of_range() {
    let d_out = test_array((2, 4), 1.0, 1);
    Embedding::zeros(5, 4).backward(&array![0u32, 5], &d_out, &mut Embedding::zeros(5, 4));
}
