//! Tests training with matrix products in bf16. The gradients must be close to the gradients of
//! training in f32, and they must be bit-identical for any number of threads.

use gpt::{BatchParts, DropRates, GptConfig, GptModel};
use ndarray::Array2;
use tensor_ops::{Dtype, Parameters};
use torch_rng::TorchRng;

fn config(tied: bool) -> GptConfig {
    GptConfig {
        vocab_size: 211,
        context_length: 32,
        emb_dim: 96,
        n_heads: 4,
        n_layers: 3,
        drop_rates: DropRates::all(0.1),
        tied,
        ..GptConfig::GPT2_124M
    }
}

/// Returns the loss and the gradients of a batch. If `in_parts` is true, the batch is divided into
/// parts that are computed in parallel, as in the command `gpt train`. Otherwise, the whole batch
/// is computed at once.
fn gradients(config: GptConfig, dtype: Dtype, in_parts: bool) -> (f32, GptModel) {
    let mut rng = TorchRng::manual_seed(123);
    let mut model = GptModel::new(config, &mut rng).expect("a model");
    if config.tied {
        model.tok_emb.weight *= 0.02;
    }
    let ids = |step: u32| {
        Array2::from_shape_fn((6, 32), |(i, j)| (i as u32 * 37 + j as u32 * step) % 211)
    };
    let (inputs, targets) = (ids(11), ids(13));
    let mut grads = GptModel::zeros(config).expect("a model");
    let mut parts = BatchParts::new(&model);
    model.set_dtype(dtype).expect("a format of operands");
    let loss = match in_parts {
        true => parts.loss_and_grads(&model, &inputs, &targets, 1.0, &mut rng, &mut grads),
        false => model.loss_and_grads(&inputs, &targets, 1.0, &mut rng, &mut grads),
    };
    (loss.expect("a batch"), grads)
}

/// Compares the gradients of two models, such as those computed in f32 and in bf16. For each
/// parameter, returns its name, the norm of its gradient in `one`, and the norm of the difference
/// between its gradients in `one` and `other`.
fn norms(one: &GptModel, other: &GptModel) -> Vec<(String, f64, f64)> {
    let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
    let both = one
        .named_parameters()
        .into_iter()
        .zip(other.named_parameters());
    both.map(|((name, one), (_, other))| {
        let pairs = one.iter().zip(&other).map(|(x, y)| f64::from(x - y));
        let whole = norm(&mut one.iter().map(|&x| f64::from(x)));
        (name, whole, norm(&mut pairs.into_iter()))
    })
    .collect()
}

#[test]
fn gradients_differ_from_those_of_f32_by_at_most_2_percent_of_their_norm() {
    for tied in [false, true] {
        let (loss, exact) = gradients(config(tied), Dtype::Float32, false);
        let (rounded_loss, rounded) = gradients(config(tied), Dtype::BFloat16, false);
        assert!(
            (loss - rounded_loss).abs() < 0.01 * loss,
            "{loss} {rounded_loss}"
        );
        let norms = norms(&exact, &rounded);
        let sum = |of: fn(&(String, f64, f64)) -> f64| {
            norms.iter().map(|it| of(it).powi(2)).sum::<f64>().sqrt()
        };
        let (whole, difference) = (sum(|it| it.1), sum(|it| it.2));
        assert!(
            difference > 1e-5 * whole,
            "bf16 was not used: {difference} of {whole}"
        );
        assert!(difference <= 0.02 * whole, "{difference} of {whole}");
    }
}

#[test]
fn the_bits_are_those_of_any_number_of_threads() {
    let on = |threads: usize, in_parts: bool| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let gradients = || gradients(config(true), Dtype::BFloat16, in_parts);
        pool.expect("a pool").install(gradients)
    };
    for in_parts in [false, true] {
        let one = on(1, in_parts);
        for threads in [2, 3, 4] {
            assert!(on(threads, in_parts) == one, "{threads} threads");
        }
    }
    // Check that training in bf16 also computes matrix products in bf16 if the batch is divided
    // into parts. The loss and the gradients must therefore differ from those of training in f32.
    // Training in f32 afterwards must produce the same results as before.
    let (exact, in_f32) = gradients(config(true), Dtype::Float32, true);
    let (loss, in_bf16) = gradients(config(true), Dtype::BFloat16, true);
    assert!(loss != exact && in_f32 != in_bf16);
    assert!(gradients(config(true), Dtype::Float32, true) == (exact, in_f32));
}
