//! Tests the model's shapes, sizes, parameter names and errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gpt::engine::{LOGIT_ROWS, move_gradients};
use gpt::{
    BadLm, BadLmConfig, BatchParts, DropRates, DummyGptModel, ExampleDeepNeuralNetwork,
    FeedForward, GptConfig, GptError, GptModel, TransformerBlock,
};
use ndarray::{Array2, Array3, array};
use proptest::prelude::*;
use tensor_ops::Parameters;
use torch_rng::{Build, TorchRng};

const SMALL: GptConfig = GptConfig {
    vocab_size: 17,
    context_length: 6,
    emb_dim: 8,
    n_heads: 2,
    n_layers: 2,
    drop_rates: DropRates::all(0.0),
    ..GptConfig::GPT2_124M
};

const BAD: BadLmConfig = BadLmConfig {
    context_length: 4,
    vocab_size: 11,
    emb_dim: 6,
    att_dim: 5,
};

proptest! {
    #![proptest_config(test_support::proptest_config(64))]

    #[test]
    fn counted_sizes_names_and_shapes_are_those_of_the_model(
        (vocab_size, context_length, heads, head_dim, n_layers) in (1usize..20, 1usize..9, 1usize..4, 1usize..5, 1usize..4),
        qkv_bias: bool, tied: bool, hidden_dim in prop::option::of(1usize..9),
    ) {
        let config = GptConfig {
            vocab_size, context_length, emb_dim: heads * head_dim, n_heads: heads, n_layers, qkv_bias, tied, hidden_dim, ..SMALL
        };
        let model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
        prop_assert_eq!(config.size().unwrap().total(), model.num_parameters());
        let shapes = |model: &GptModel| -> Vec<_> {
            let named = model.named_parameters().into_iter();
            named.map(|(name, view)| (name, view.shape().to_vec())).collect()
        };
        prop_assert_eq!(config.parameters().collect::<Vec<_>>(), shapes(&model));
        prop_assert_eq!(shapes(&GptModel::zeros(config).unwrap()), shapes(&model));
    }

    #[test]
    fn no_configuration_panics(
        vocab_size: usize, context_length: usize, emb_dim: usize, n_heads: usize, n_layers: usize, rate: f64,
    ) {
        let config = GptConfig {
            vocab_size, context_length, emb_dim, n_heads, n_layers, drop_rates: DropRates::all(rate), ..SMALL
        };
        prop_assert!(config.validate().is_err() || n_heads <= emb_dim);
    }
}

#[test]
fn parameters_have_the_books_names_in_the_books_order() {
    let model = GptModel::zeros(GptConfig {
        n_layers: 1,
        ..SMALL
    })
    .unwrap();
    let names = model.named_parameters().into_iter().map(|(name, _)| name);
    let expected = "tok_emb.weight pos_emb.weight \
        trf_blocks.0.att.W_query.weight trf_blocks.0.att.W_key.weight \
        trf_blocks.0.att.W_value.weight \
        trf_blocks.0.att.out_proj.weight trf_blocks.0.att.out_proj.bias \
        trf_blocks.0.ff.layers.0.weight trf_blocks.0.ff.layers.0.bias \
        trf_blocks.0.ff.layers.2.weight trf_blocks.0.ff.layers.2.bias \
        trf_blocks.0.norm1.scale trf_blocks.0.norm1.shift \
        trf_blocks.0.norm2.scale trf_blocks.0.norm2.shift \
        final_norm.scale final_norm.shift out_head.weight";
    assert_eq!(names.collect::<Vec<_>>().join(" "), expected);
}

#[test]
fn a_tied_head_is_the_token_embedding() {
    let config = GptConfig {
        tied: true,
        ..SMALL
    };
    let tied = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
    let mut untied = GptModel::new(SMALL, &mut TorchRng::manual_seed(1)).unwrap();
    untied.out_head.as_mut().unwrap().weight = tied.tok_emb.weight.clone();
    let ids = array![[1u32, 2, 3]];
    assert_eq!(tied.forward(&ids).unwrap(), untied.forward(&ids).unwrap());
}

#[test]
fn what_does_not_fit_is_a_typed_error_with_its_numbers() {
    let rng = &mut TorchRng::manual_seed(1);
    let model = GptModel::new(SMALL, rng).unwrap();
    for (ids, message) in [
        (
            array![[1, 2], [3, 17]],
            "the token ID at (1, 1) is 17, but it must be less than the vocabulary size, 17",
        ),
        (
            Array2::zeros((1, 7)),
            "the input has 7 tokens, but the context length is 6; use shorter sequences",
        ),
    ] {
        assert_eq!(model.forward(&ids).unwrap_err().to_string(), message);
    }
    let empty = model.forward(&Array2::zeros((1, 0)));
    assert!(matches!(empty, Err(GptError::Empty { batch: 1, .. })));
    let mut grads = GptModel::zeros(SMALL).unwrap();
    let mut refused = |targets: Array2<u32>| {
        let step = model.loss_and_grads(&array![[1, 2]], &targets, 1.0, rng, &mut grads);
        step.unwrap_err()
    };
    assert!(matches!(
        refused(array![[1, 2, 3]]),
        GptError::Targets { .. }
    ));
    assert!(matches!(
        refused(array![[1, 99]]),
        GptError::TokenOutOfRange { id: 99, .. }
    ));
    type Change = fn(&mut GptConfig);
    let changes: [(Change, &str); 5] = [
        (|c| c.n_layers = 0, "n_layers must be at least 1, got 0"),
        (|c| c.vocab_size = 0, "vocab_size must be at least 1, got 0"),
        (
            |c| c.n_heads = 3,
            "emb_dim must be divisible by n_heads, but emb_dim is 8 and n_heads is 3",
        ),
        (
            |c| c.drop_rates.shortcut = 1.5,
            "drop_rates.shortcut must be from 0 to 1, got 1.5",
        ),
        (
            |c| c.norm_eps = f32::NAN,
            "norm_eps must be a finite number and at least 0, got NaN",
        ),
    ];
    for (change, message) in changes {
        let mut config = SMALL;
        change(&mut config);
        for error in [
            GptModel::new(config, rng).err(),
            GptModel::zeros(config).err(),
            TransformerBlock::new(config, rng).err(),
            DummyGptModel::new(config, rng).err(),
        ] {
            assert_eq!(error.unwrap().to_string(), message);
        }
    }
    let huge = GptConfig {
        n_layers: 1 << 60,
        ..SMALL
    };
    assert_eq!(huge.validate().unwrap_err(), GptError::TooLarge);
    assert!(ExampleDeepNeuralNetwork::new(&[3], true, rng).is_err());
}

#[test]
fn the_bad_language_model_takes_sequences_shorter_than_its_context() {
    let model = BadLm::new(BAD, &mut TorchRng::manual_seed(1)).unwrap();
    assert_eq!(
        model.pos_embs.weight.nrows(),
        4,
        "one row a position, not one a word"
    );
    assert_eq!(
        model.forward(&array![[1, 2], [3, 4]]).unwrap().shape(),
        [2, 2, 11]
    );
    assert!(matches!(
        model.forward(&array![[1, 2, 3, 4, 5]]),
        Err(GptError::TooLong { .. })
    ));
}

#[test]
fn the_bad_language_model_sees_the_future_and_the_gpt_does_not() {
    let (a, b) = (array![[1u32, 2, 3]], array![[1u32, 2, 9]]);
    let bad = BadLm::new(BAD, &mut TorchRng::manual_seed(1)).unwrap();
    let first = |logits: Array3<f32>| logits.index_axis_move(ndarray::Axis(1), 0);
    assert_ne!(
        first(bad.forward(&a).unwrap()),
        first(bad.forward(&b).unwrap())
    );
    let gpt = GptModel::new(SMALL, &mut TorchRng::manual_seed(1)).unwrap();
    assert_eq!(
        first(gpt.forward(&a).unwrap()),
        first(gpt.forward(&b).unwrap())
    );
}

/// Returns the message of the panic that `f` causes.
fn panic_of(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("no panic");
    *panic.downcast().expect("a message with numbers")
}

#[test]
fn gradients_of_another_configuration_are_refused_before_any_is_added() {
    let plain = GptConfig {
        qkv_bias: true,
        ..SMALL
    };
    let one_layer = GptConfig {
        n_layers: 1,
        ..plain
    };
    let tied = GptConfig {
        tied: true,
        ..plain
    };
    let ids = Array2::from_shape_fn((4, 6), |(i, j)| ((i * 7 + j * 5) % 17) as u32);
    for (config, other, parameter) in [
        (plain, one_layer, "trf_blocks.1.att.W_query.weight"),
        (plain, SMALL, "W_query.bias"),
        (plain, tied, "out_head.weight"),
        (tied, plain, "out_head.weight"),
    ] {
        let mut rng = TorchRng::manual_seed(1);
        let model = GptModel::new(config, &mut rng).unwrap();
        let (_, cache) = model.forward_train(&ids, &mut rng).unwrap();
        let [mut own, mut grads] = [config, other].map(|config| GptModel::zeros(config).unwrap());
        let mut parts_of = |first: &GptModel, grads: &mut GptModel| {
            panic_of(|| {
                let mut parts = BatchParts::new(first);
                drop(parts.loss_and_grads(&model, &ids, &ids, 1.0, &mut rng, grads));
            })
        };
        let of_parts = parts_of(&grads.clone(), &mut own);
        let of_sum = parts_of(&model, &mut grads);
        let of_moved = panic_of(|| move_gradients(std::slice::from_mut(&mut own), &mut grads));
        let of_step =
            panic_of(|| drop(model.loss_and_grads(&ids, &ids, 1.0, &mut rng, &mut grads)));
        let d_logits = Array3::ones((4, 6, 17));
        let of_backward = panic_of(|| model.backward(cache, &d_logits, &mut grads));
        for (op, message) in [
            ("BatchParts::loss_and_grads", of_parts),
            ("BatchParts::loss_and_grads", of_sum),
            ("move_gradients", of_moved),
            ("GptModel::loss_and_grads", of_step),
            ("GptModel::backward", of_backward),
        ] {
            assert!(
                message.starts_with(op) && message.contains(parameter),
                "{message}"
            );
        }
        assert!(grads == GptModel::zeros(other).unwrap());
    }
}

#[test]
fn gradients_of_logits_in_another_order_are_refused() {
    let mut rng = TorchRng::manual_seed(1);
    let model = GptModel::new(SMALL, &mut rng).unwrap();
    let mut grads = GptModel::zeros(SMALL).unwrap();
    for shape in [(6, 2, 17), (17, 6, 2)] {
        let ids = Array2::ones((2, 6));
        let (_, cache) = model.forward_train(&ids, &mut rng).unwrap();
        let message = panic_of(|| model.backward(cache, &Array3::ones(shape), &mut grads));
        let expected = format!(
            "GptModel::backward: d_logits has shape {shape:?}, but the logits have shape (2, 6, 17)"
        );
        assert!(message.contains(&expected), "{message}");
    }
    let ff = FeedForward::new(SMALL, &mut rng).unwrap();
    let (_, cache) = ff.forward_train(Array3::ones((2, 6, 8)));
    let turned = Array3::ones((6, 2, 8));
    let mut grads = FeedForward::zeros(SMALL).unwrap();
    let message = panic_of(|| drop(ff.backward(cache, &turned, &mut grads)));
    assert!(
        message.contains("[2, 6, 32], but d_out has shape [6, 2, 8]"),
        "{message}"
    );
}

#[test]
fn gradients_of_fewer_layers_are_refused_by_the_deep_network() {
    let rng = &mut TorchRng::manual_seed(1);
    let [deep, mut shallow] = [&[3, 3, 1][..], &[3, 3]]
        .map(|sizes| ExampleDeepNeuralNetwork::new(sizes, true, rng).unwrap());
    let (out, cache) = deep.forward_train(&array![[1.0, 0.0, -1.0]]);
    let message = panic_of(|| drop(deep.backward(cache, out, &mut shallow)));
    assert!(
        message.contains("2 layers, but the gradients have 1"),
        "{message}"
    );
}

#[test]
fn the_loss_is_that_of_all_logits_at_once() {
    let config = GptConfig {
        context_length: 150,
        ..SMALL
    };
    let model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
    let shape = (LOGIT_ROWS / 150 + 1, 150);
    let ids = Array2::from_shape_fn(shape, |(i, j)| ((7 * i + 3 * j) % 17) as u32);
    let targets = ids.mapv(|id| (id + 1) % 17);
    let logits = model.forward(&ids).unwrap();
    let logits = logits.into_shape_with_order((ids.len(), 17)).unwrap();
    let all: Vec<u32> = targets.iter().copied().collect();
    let expected = tensor_ops::cross_entropy(&logits, &all);
    let loss = model.loss(&ids, &targets).unwrap();
    assert!((loss - expected).abs() < 1e-6, "{loss}, not {expected}");
}

#[test]
fn skipping_a_batch_leaves_the_generator_that_the_batch_leaves() {
    let rates = [
        (0.0, 0.0, 0.0),
        (0.1, 0.1, 0.1),
        (0.0, 0.1, 0.1),
        (0.1, 0.0, 0.1),
        (0.1, 0.1, 0.0),
    ];
    for ((emb, attention, shortcut), build) in rates
        .iter()
        .flat_map(|&rates| [(rates, Build::Portable), (rates, Build::Mkl)])
    {
        let drop_rates = DropRates {
            emb,
            attention,
            shortcut,
        };
        let config = GptConfig {
            drop_rates,
            ..SMALL
        };
        let mut rng = TorchRng::manual_seed(3).with_build(build);
        let model = GptModel::new(config, &mut rng).unwrap();
        let mut skipped = rng.clone();
        let ids = Array2::zeros((2, 5));
        drop(model.forward_train(&ids, &mut rng).unwrap());
        model.skip_draws(&ids, &mut skipped);
        assert_eq!(skipped, rng, "{drop_rates:?}, {build}");
    }
}
