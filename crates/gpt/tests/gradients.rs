//! Tests the gradients of a whole model. They are compared with finite differences and with
//! gradients that PyTorch computed, with and without dropout, and with a tied and a separate output
//! head.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gpt::{Activation, BatchParts, FeedForward, GptConfig, GptModel};
use ndarray::{Array2, Array3, ShapeBuilder, array};
use tensor_ops::{Parameters, cross_entropy_train};
use test_support::{GradientCheck, project, projection_weights};
use torch_rng::{Build, TorchRng};

/// The settings for comparing gradients with finite differences. The tolerance is larger than in
/// the tests of single operations, because the rounding errors of a whole model in `f32` affect the
/// finite differences.
const CHECK: GradientCheck = GradientCheck {
    tolerance: 1e-2,
    step: None,
    max_elements: 40,
};

fn small(tied: bool, qkv_bias: bool, drop_rate: f64) -> GptConfig {
    GptConfig {
        vocab_size: 31,
        context_length: 8,
        emb_dim: 12,
        n_heads: 3,
        n_layers: 2,
        drop_rates: gpt::DropRates::all(drop_rate),
        qkv_bias,
        tied,
        ..GptConfig::GPT2_124M
    }
}

fn batch() -> (Array2<u32>, Array2<u32>) {
    (
        array![[3, 1, 4, 1, 5, 9], [2, 6, 5, 30, 0, 8]],
        array![[1, 4, 1, 5, 9, 2], [6, 5, 30, 0, 8, 7]],
    )
}

/// Adds 0.1 times a random number from the standard normal distribution to each weight. The script
/// that computes the expected gradients with PyTorch does the same.
fn move_away_from_initial_values(model: &mut GptModel, rng: &mut TorchRng) {
    for (_, mut view) in model.named_parameters_mut() {
        let noise = rng.randn(view.len());
        view.iter_mut()
            .zip(noise)
            .for_each(|(x, noise)| *x += 0.1 * noise);
    }
}

#[test]
fn every_gradient_equals_pytorchs() {
    let fixture: serde_json::Value =
        serde_json::from_str(include_str!("fixtures/gradients.json")).unwrap();
    for case in fixture["cases"].as_array().unwrap() {
        let name = &case["name"];
        let flag = |key: &str| case[key].as_bool().unwrap();
        let config = small(
            flag("tied"),
            flag("qkv_bias"),
            case["dropout"].as_f64().unwrap(),
        );
        let mut rng = TorchRng::manual_seed(123).with_build(Build::Mkl);
        let mut model = GptModel::new(config, &mut rng).unwrap();
        move_away_from_initial_values(&mut model, &mut rng);
        let (ids, targets) = batch();
        let mut grads = GptModel::zeros(config).unwrap();
        let loss = model
            .loss_and_grads(&ids, &targets, 1.0, &mut rng, &mut grads)
            .unwrap();
        let expected = case["loss"].as_f64().unwrap();
        assert!(
            (f64::from(loss) - expected).abs() < 1e-5,
            "{name}: loss {loss}, PyTorch's {expected}"
        );
        let torch = case["gradients"].as_object().unwrap();
        let ours = grads.named_parameters();
        assert_eq!(ours.len(), torch.len(), "{name}: the same parameters");
        for (key, gradient) in ours {
            let values: Vec<f32> = torch[&key]
                .as_array()
                .unwrap()
                .iter()
                .map(|x| x.as_f64().unwrap() as f32)
                .collect();
            let expected = ndarray::ArrayD::from_shape_vec(gradient.raw_dim(), values).unwrap();
            test_support::assert_close_named(&format!("{name}: {key}"), &gradient, &expected, 2e-6);
        }
    }
}

/// Tests that `loss_and_grads` produces the same loss and gradients as the forward pass, the loss
/// and the backward pass called one after the other. The batch is so large that `loss_and_grads`
/// doesn't compute all rows of logits at once, but in groups of at most [`gpt::engine::LOGIT_ROWS`]
/// rows.
#[test]
fn the_training_step_of_a_long_batch_equals_logits_loss_and_backward_one_after_the_other() {
    for (tied, drop_rate) in [(false, 0.0), (true, 0.2)] {
        let config = GptConfig {
            context_length: 200,
            ..small(tied, true, drop_rate)
        };
        let ids = Array2::from_shape_fn((6, 200), |(i, j)| ((i * 7 + j * 5) % 31) as u32);
        let targets = Array2::from_shape_fn((6, 200), |(i, j)| ((i * 3 + j * 11) % 31) as u32);
        let model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
        let mut plain = GptModel::zeros(config).unwrap();
        let mut fused = plain.clone();
        let rng = TorchRng::manual_seed(2);

        let (logits, cache) = model.forward_train(&ids, &mut rng.clone()).unwrap();
        let shape = logits.raw_dim();
        let rows = logits.into_shape_with_order((ids.len(), 31)).unwrap();
        let of_rows: Vec<u32> = targets.iter().copied().collect();
        let (loss, d_logits) = cross_entropy_train(rows, &of_rows, 0.5);
        let d_logits = d_logits.into_shape_with_order(shape).unwrap();
        model.backward(cache, &d_logits, &mut plain);

        let fused_loss = model.loss_and_grads(&ids, &targets, 0.5, &mut rng.clone(), &mut fused);
        assert!((loss - fused_loss.unwrap()).abs() < 1e-5);
        let (plain, fused) = (plain.named_parameters(), fused.named_parameters());
        for ((name, a), (_, b)) in plain.into_iter().zip(fused) {
            test_support::assert_close_named(&name, &b, &a, 1e-5);
        }
    }
}

/// Prepares a feed-forward network for a comparison of its gradients with finite differences. If
/// the activation function is ReLU, sets the biases to 3 and -3 in turn, so that no input of ReLU
/// is close to 0. At 0, ReLU has a kink, and a finite difference would be wrong if its two points
/// were on different sides of the kink.
fn away_from_kinks(ff: &mut FeedForward) {
    if ff.activation == Activation::Relu {
        let bias = ff.expand.bias.as_mut().expect("the layers have biases");
        bias.iter_mut()
            .enumerate()
            .for_each(|(i, bias)| *bias = if i % 2 == 0 { 3.0 } else { -3.0 });
    }
}

#[test]
fn the_models_gradients_agree_with_finite_differences() {
    let other = GptConfig {
        activation: Activation::Gelu,
        ..small(false, true, 0.1)
    };
    let relu = GptConfig {
        activation: Activation::Relu,
        ..small(false, false, 0.1)
    };
    for config in [small(false, true, 0.1), small(true, true, 0.1), other, relu] {
        let mut model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
        for block in &mut model.trf_blocks {
            away_from_kinks(&mut block.ff);
        }
        let (ids, _) = batch();
        let w: Array3<f32> = projection_weights((2, 6, 31), 3);
        let rng = TorchRng::manual_seed(2);
        let mut grads = GptModel::zeros(config).unwrap();
        let (_, cache) = model.forward_train(&ids, &mut rng.clone()).unwrap();
        model.backward(cache, &w, &mut grads);
        for (i, (name, d)) in grads.named_parameters().into_iter().enumerate() {
            let parameter = model.named_parameters()[i].1.to_owned();
            // The weights of the query and key layers hardly affect the model's output. If such a
            // weight were changed by only a small step, the finite difference would consist mostly
            // of rounding errors, so a large step is used for the attention layers.
            let step = name.contains("att.W_").then_some(0.06);
            let check = GradientCheck { step, ..CHECK };
            check.check(&name, &parameter, &d, |p| {
                let mut moved = model.clone();
                moved.named_parameters_mut()[i].1.assign(p);
                project(&moved.forward_train(&ids, &mut rng.clone()).unwrap().0, &w)
            });
        }
    }
}

/// Compares a model's gradients with finite differences, after 30 and after 300 training steps. To
/// show that the comparison can fail, also checks that a gradient that is 10% too large is
/// detected. The loss of a well-trained model is a small difference between large logits, so its
/// rounding errors are larger than before training.
#[test]
fn a_trained_models_gradients_pass_the_default_check_and_a_wrong_factor_fails() {
    let config = small(false, true, 0.0);
    let mut model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
    let (ids, targets) = batch();
    let loss_and_grads = |model: &GptModel| {
        let (mut rng, mut grads) = (TorchRng::manual_seed(2), GptModel::zeros(config).unwrap());
        let loss = model.loss_and_grads(&ids, &targets, 1.0, &mut rng, &mut grads);
        (loss.unwrap(), grads)
    };
    for step in 0..=300 {
        let (loss, grads) = loss_and_grads(&model);
        if [30, 300].contains(&step) {
            let check = GradientCheck {
                max_elements: 20,
                ..Default::default()
            };
            for (i, (name, d)) in grads.named_parameters().into_iter().enumerate() {
                let parameter = model.named_parameters()[i].1.to_owned();
                let objective = |p: &ndarray::ArrayD<f32>| {
                    let mut moved = model.clone();
                    moved.named_parameters_mut()[i].1.assign(p);
                    f64::from(loss_and_grads(&moved).0)
                };
                check.check(&name, &parameter, &d, objective);
                if name == "final_norm.scale" {
                    let report = check.measure(&name, &parameter, &(&d * 1.1), objective);
                    assert!(
                        report.max_rel_error > check.tolerance,
                        "loss {loss}: {report}"
                    );
                }
            }
        }
        for ((_, mut p), (_, d)) in
            (model.named_parameters_mut().into_iter()).zip(grads.named_parameters())
        {
            p.scaled_add(-0.3, &d);
        }
    }
}

#[test]
fn a_step_in_parts_of_the_batch_equals_the_plain_one() {
    for (drop_rate, build) in [
        (0.0, Build::Portable),
        (0.2, Build::Portable),
        (0.2, Build::Mkl),
        (1.0, Build::Portable), // as in PyTorch, a rate of 1 drops everything
    ] {
        let config = small(true, true, drop_rate);
        let before = TorchRng::manual_seed(1).with_build(build);
        let model = GptModel::new(config, &mut before.clone()).unwrap();
        let mut parts = BatchParts::new(&model);
        for batch in [1, 2, 5, 9] {
            let ids = Array2::from_shape_fn((batch, 6), |(i, j)| ((i * 7 + j * 5) % 31) as u32);
            let targets = ids.mapv(|id| (id * 3 + 1) % 31);
            let (mut rng, mut plain) = (before.clone(), GptModel::zeros(config).unwrap());
            let expected = model
                .loss_and_grads(&ids, &targets, 0.5, &mut rng, &mut plain)
                .unwrap();
            let mut in_parts = |threads: usize| {
                let (mut rng, mut sum) = (before.clone(), GptModel::zeros(config).unwrap());
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let loss = pool.build().unwrap().install(|| {
                    parts.loss_and_grads(&model, &ids, &targets, 0.5, &mut rng, &mut sum)
                });
                (loss.unwrap(), sum, rng)
            };
            let (loss, sum, rng_of_parts) = in_parts(1);
            assert!(in_parts(3) == (loss, sum.clone(), rng_of_parts.clone()));
            assert!(
                (loss - expected).abs() < 1e-6,
                "{batch}: {loss}, plain {expected}"
            );
            assert_eq!(rng_of_parts, rng, "{batch}");
            let (plain, sum) = (plain.named_parameters(), sum.named_parameters());
            for ((name, a), (_, b)) in plain.into_iter().zip(sum) {
                test_support::assert_close_named(&name, &b, &a, 1e-6);
            }
        }
    }
}

#[test]
fn a_step_in_parts_that_panics_leaves_nothing_to_the_next() {
    let config = small(false, true, 0.0);
    let rng = TorchRng::manual_seed(1);
    let model = GptModel::new(config, &mut rng.clone()).unwrap();
    let ids = Array2::from_shape_fn((4, 6), |(i, j)| ((i * 7 + j * 5) % 31) as u32);
    let mut parts = BatchParts::new(&model);
    let mut step = |mut grads: GptModel| {
        parts
            .loss_and_grads(&model, &ids, &ids, 1.0, &mut rng.clone(), &mut grads)
            .unwrap();
        grads
    };
    let zeros = GptModel::zeros(config).unwrap();
    let expected = step(zeros.clone());
    // Make a training step panic, to test that the next step isn't affected. The last operation of
    // the backward pass adds to the gradient of the token embedding. It panics if this gradient is
    // stored in column-major order.
    let mut strided = zeros.clone();
    strided.tok_emb.weight = Array2::zeros((31, 12).f());
    assert!(catch_unwind(AssertUnwindSafe(|| step(strided))).is_err());
    assert!(step(zeros) == expected);
}
