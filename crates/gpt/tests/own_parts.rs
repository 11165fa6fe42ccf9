//! Tests models that differ from a newly created `GptModel`: models in which a field was replaced
//! by a value that contradicts the model's configuration, models from which blocks or the output
//! head were removed, and models whose hidden states are used without the output head. Also tests
//! targets that are ignored by the loss.

use gpt::tensor_ops::{IGNORE_INDEX, Linear, Parameters, cross_entropy_train};
use gpt::{Activation, BatchParts, DropRates, FeedForward, GptConfig, GptError, GptModel};
use ndarray::{Array1, Array2, Array3, array, s};
use tensor_ops::Dtype;
use test_support::{GradientCheck, assert_close, assert_close_named, project, projection_weights};
use torch_rng::TorchRng;

const SMALL: GptConfig = GptConfig {
    vocab_size: 17,
    context_length: 6,
    emb_dim: 8,
    n_heads: 2,
    n_layers: 2,
    drop_rates: DropRates::all(0.0),
    ..GptConfig::GPT2_124M
};

fn small() -> GptModel {
    GptModel::new(SMALL, &mut TorchRng::manual_seed(1)).expect("a valid configuration")
}

#[test]
fn every_replaced_field_is_named_by_every_pass() {
    type Change = fn(&mut GptModel);
    let changes: [(&str, &str, Change); 13] = [
        ("tok_emb.weight", "got (9, 8)", |m| {
            m.tok_emb.weight = Array2::zeros((9, 8))
        }),
        ("pos_emb.weight", "got (6, 4)", |m| {
            m.pos_emb.weight = Array2::zeros((6, 4))
        }),
        ("out_head", "got (2, 8)", |m| {
            m.out_head = Some(Linear::zeros(8, 2, false))
        }),
        ("out_head", "bias of 17 elements", |m| {
            m.out_head = Some(Linear::zeros(8, 17, true))
        }),
        ("out_head", "dtype", |m| {
            m.out_head.as_mut().unwrap().dtype = Dtype::Int8
        }),
        ("final_norm", "got ", |m| m.final_norm.eps = 1e-6),
        ("trf_blocks[1].norm2", "got ", |m| {
            m.trf_blocks[1].norm2.shift = Array1::zeros(7)
        }),
        ("trf_blocks[1].att.w_key", "weight", |m| {
            m.trf_blocks[1].att.w_key = Linear::zeros(8, 4, false);
        }),
        ("trf_blocks[0].att.w_query", "bias of 8 elements", |m| {
            m.trf_blocks[0].att.w_query = Linear::zeros(8, 8, true);
        }),
        ("trf_blocks[0].att.out_proj", "bias is missing", |m| {
            m.trf_blocks[0].att.out_proj.bias = None;
        }),
        ("trf_blocks[1].att.config()", "got ", |m| {
            let other = GptConfig {
                n_heads: 4,
                ..SMALL
            };
            m.trf_blocks[1] = GptModel::zeros(other).unwrap().trf_blocks.remove(0);
        }),
        ("trf_blocks[0].ff.expand", "weight", |m| {
            m.trf_blocks[0].ff.expand = Linear::zeros(8, 9, true);
        }),
        ("trf_blocks[0].ff.activation", "got Relu", |m| {
            m.trf_blocks[0].ff.activation = Activation::Relu;
        }),
    ];
    let ids = array![[1, 2, 3], [4, 5, 6]];
    for (name, problem, change) in changes {
        let mut model = small();
        change(&mut model);
        let (rng, mut grads) = (&mut TorchRng::manual_seed(1), small());
        let errors = [
            model.forward(&ids).err(),
            model.forward_plain(&ids, None).err(),
            model.hidden_states(&ids).err(),
            model.forward_train(&ids, rng).err(),
            model.loss(&ids, &ids).err(),
            BatchParts::new(&small())
                .loss_and_grads(&model, &ids, &ids, 1.0, rng, &mut grads)
                .err(),
        ];
        for error in errors {
            let error = error.expect(name).to_string();
            let beginning = format!("the field {name} doesn't match the model's configuration: ");
            assert!(
                error.starts_with(&beginning) && error.contains(problem),
                "{error}"
            );
        }
    }
}

#[test]
fn removed_blocks_and_heads_change_the_configuration() {
    let mut model = small();
    model.trf_blocks.remove(0);
    model.out_head = None;
    let config = model.config();
    assert_eq!((config.n_layers, config.tied), (1, true));
    let ids = array![[1, 2, 3], [4, 5, 6]];
    let mut grads = GptModel::zeros(config).unwrap();
    let rng = &mut TorchRng::manual_seed(1);
    let mut parts = BatchParts::new(&model);
    let loss = parts.loss_and_grads(&model, &ids, &ids, 1.0, rng, &mut grads);
    assert!((loss.unwrap() - model.loss(&ids, &ids).unwrap()).abs() < 1e-6);
    assert!(
        grads
            .named_parameters()
            .iter()
            .all(|(_, d)| d.iter().any(|&d| d != 0.0))
    );
    model.trf_blocks.clear();
    assert_eq!(
        model.forward(&ids).unwrap_err(),
        GptError::Zero { name: "trf_blocks" }
    );
}

#[test]
fn a_feed_forward_network_needs_features() {
    let config = GptConfig {
        emb_dim: 0,
        ..SMALL
    };
    let zero = GptError::Zero { name: "emb_dim" };
    assert_eq!(FeedForward::zeros(config).unwrap_err(), zero);
    assert_eq!(
        FeedForward::new(config, &mut TorchRng::manual_seed(1)).unwrap_err(),
        zero
    );
}

/// Tests that targets equal to `IGNORE_INDEX` affect neither the loss nor the gradients. The batch
/// has so many tokens that the loss function processes the rows of logits in groups, and in some of
/// these groups, all targets are ignored.
#[test]
fn ignored_targets_change_neither_the_loss_nor_the_gradient_of_the_others() {
    let config = GptConfig {
        context_length: 300,
        ..SMALL
    };
    let model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
    let ids = Array2::from_shape_fn((8, 300), |(i, j)| ((i * 7 + j * 5) % 17) as u32);
    let mut targets = ids.mapv(|id| (id + 1) % 17);
    targets.slice_mut(s![..6, ..]).fill(IGNORE_INDEX); // more than 1024 rows
    targets.slice_mut(s![6, 100..]).fill(IGNORE_INDEX);

    let mut rng = TorchRng::manual_seed(2);
    let (logits, cache) = model.forward_train(&ids, &mut rng).unwrap();
    let logits = logits.into_shape_with_order((2400, 17)).unwrap();
    let all: Vec<u32> = targets.iter().copied().collect();
    let (expected, d_logits) = cross_entropy_train(logits, &all, 0.5);
    let d_logits = d_logits.into_shape_with_order((8, 300, 17)).unwrap();
    let mut of_logits = GptModel::zeros(config).unwrap();
    model.backward(cache, &d_logits, &mut of_logits);

    let loss = model.loss(&ids, &targets).unwrap();
    assert!((loss - expected).abs() < 1e-6, "{loss}, not {expected}");
    assert_eq!(model.token_losses(&ids, &targets).unwrap()[0], 0.0);
    let [mut whole, mut in_parts] = [0, 1].map(|_| GptModel::zeros(config).unwrap());
    let of_whole = model.loss_and_grads(&ids, &targets, 0.5, &mut rng, &mut whole);
    let mut parts = BatchParts::new(&model);
    let of_parts = parts.loss_and_grads(&model, &ids, &targets, 0.5, &mut rng, &mut in_parts);
    for (loss, grads) in [(of_whole, whole), (of_parts, in_parts)] {
        assert!((loss.unwrap() - expected).abs() < 1e-6);
        let expected = of_logits.named_parameters().into_iter();
        for ((name, d), (_, expected)) in grads.named_parameters().into_iter().zip(expected) {
            assert_close_named(&name, &d, &expected, 2e-6);
        }
    }

    targets.fill(IGNORE_INDEX);
    let mut grads = GptModel::zeros(config).unwrap();
    let none = GptError::NoTargets { targets: 2400 };
    assert_eq!(model.loss(&ids, &targets).unwrap_err(), none);
    let refused = model.loss_and_grads(&ids, &targets, 1.0, &mut rng, &mut grads);
    assert_eq!(refused.unwrap_err(), none);
    // `IGNORE_INDEX` marks a target that the loss ignores. It isn't a valid token ID, so the model
    // must reject it as an input.
    model.forward(&targets.slice(s![.., ..6])).unwrap_err();
}

#[test]
fn hidden_states_lead_to_the_logits() {
    let (model, ids) = (small(), array![[1, 2, 3], [4, 5, 6]]);
    let states = model.hidden_states(&ids).unwrap();
    assert_eq!((states.len(), &states[0]), (3, &model.embed(&ids).unwrap()));
    for (state, block) in states[1..].iter().zip(model.trace(&ids).unwrap()) {
        assert_eq!(state, block.unwrap().residual);
    }
    let hidden = model.final_norm.forward(&states[2]);
    assert_eq!(hidden, model.forward_hidden(&ids).unwrap());
    let logits = model.forward(&ids).unwrap();
    assert_eq!(model.logits(&hidden), logits);
    let rng = &mut TorchRng::manual_seed(1);
    assert_eq!(model.forward_hidden_train(&ids, rng).unwrap().0, hidden); // the dropout rates are 0
    for tied in [false, true] {
        let mut model = model.clone();
        model.out_head.take_if(|_| tied);
        let (all, last) = (model.logits(&hidden), hidden.slice(s![.., -1, ..]));
        assert_close(&model.logits(&last), &all.slice(s![.., -1, ..]), 1e-6);
    }
}

/// Tests the backward pass from the hidden states, which are the model's output before the output
/// head. The gradients are compared with finite differences in a model with dropout whose weights
/// are small, normal or large: the weights of the embeddings and of the feed-forward networks are
/// multiplied by 0.3, 1 or 3.
#[test]
fn gradients_of_the_hidden_states_agree_with_finite_differences() {
    let config = GptConfig {
        drop_rates: DropRates::all(0.1),
        ..SMALL
    };
    let ids = array![[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]];
    for scale in [0.3, 1.0, 3.0] {
        let mut model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
        for (name, mut weight) in model.named_parameters_mut() {
            if name.contains("ff.") || name.contains("emb.") {
                weight *= scale;
            }
        }
        let w: Array3<f32> = projection_weights((2, 5, 8), 3);
        let rng = TorchRng::manual_seed(2);
        let mut grads = GptModel::zeros(config).unwrap();
        let (_, cache) = model.forward_hidden_train(&ids, &mut rng.clone()).unwrap();
        model.backward_hidden(cache, &w, &mut grads);
        for (i, (name, d)) in grads.named_parameters().into_iter().enumerate() {
            let parameter = model.named_parameters()[i].1.to_owned();
            let step = name.contains("att.W_").then_some(0.06);
            let check = GradientCheck {
                tolerance: 2e-2,
                step,
                max_elements: 8,
            };
            check.check(&format!("{name} at {scale}"), &parameter, &d, |p| {
                let mut moved = model.clone();
                moved.named_parameters_mut()[i].1.assign(p);
                let hidden = moved.forward_hidden_train(&ids, &mut rng.clone());
                project(&hidden.unwrap().0, &w)
            });
        }
    }
}
