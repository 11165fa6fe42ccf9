//! Tests that models saved by transformers have the same logits, loss and greedy continuation in
//! this crate as in transformers. The script fixtures/make_fixtures.py created the models and the
//! expected results.

use std::fs;
use std::path::{Path, PathBuf};

use checkpoint::{ModelFolder, load_config, load_model};
use gpt::{Activation, DropRates, GptModel};
use ndarray::{Array2, Axis, s};
use serde::Deserialize;
use tensor_ops::Parameters;

/// Largest difference that is allowed between a logit and the expected logit, in units of 1e-5 *
/// max(1, |expected logit|).
const FACTOR: f32 = 2.0;

#[derive(Deserialize)]
struct Expected {
    ids: Vec<Vec<u32>>,
    /// Logits at the last position, of shape (batch, vocab_size).
    last_logits: Vec<Vec<f32>>,
    /// First four logits at each position, of shape (batch, num_tokens, 4).
    first_logits: Vec<Vec<Vec<f32>>>,
    loss: f32,
    greedy: Vec<u32>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Loads the model of a fixture and checks that its logits, loss and greedy continuation match
/// those that transformers computed.
fn computes_the_same(name: &str) -> GptModel {
    let folder = ModelFolder::open(fixture(name)).unwrap_or_else(|e| panic!("{e}"));
    let model = folder.load().unwrap_or_else(|e| panic!("{e}"));
    for (name, parameter) in model.named_parameters() {
        let count = parameter.len_of(Axis(0));
        for rows in [0..count, count / 2..count] {
            let expected = parameter.slice_axis(Axis(0), rows.clone().into());
            let mut numbers = vec![0.0; expected.len()];
            folder.read_rows(&name, rows, &mut numbers).unwrap();
            assert!(numbers.iter().eq(&expected), "{name}");
        }
    }
    let text = fs::read_to_string(fixture(name).join("expected.json")).unwrap();
    let expected: Expected = serde_json::from_str(&text).unwrap();
    let shape = (expected.ids.len(), expected.ids[0].len());
    let ids = Array2::from_shape_vec(shape, expected.ids.concat()).unwrap();
    let logits = model.forward(&ids).unwrap(); // (batch, num_tokens, vocab_size)

    let last = logits.index_axis(Axis(1), shape.1 - 1);
    assert_logits(name, last.iter(), expected.last_logits.concat());
    let first = logits.slice(s![.., .., ..4]);
    assert_logits(name, first.iter(), expected.first_logits.concat().concat());

    let (inputs, targets) = (ids.slice(s![.., ..-1]), ids.slice(s![.., 1..]));
    let loss = model.loss(&inputs, &targets).unwrap();
    assert!(
        (loss - expected.loss).abs() <= 1e-5 * expected.loss.max(1.0),
        "{name}: the loss is {loss}, transformers' is {}",
        expected.loss
    );

    let mut tokens = expected.ids[0][..4].to_vec();
    for _ in 0..expected.greedy.len() {
        let ids = Array2::from_shape_vec((1, tokens.len()), tokens.clone()).unwrap();
        let logits = model.forward(&ids).unwrap();
        let last = logits.slice(s![0, -1, ..]);
        let best = (0..last.len()).max_by(|&a, &b| last[a].total_cmp(&last[b]));
        tokens.push(best.unwrap() as u32);
    }
    assert_eq!(tokens[4..], expected.greedy, "{name}: greedy ids");
    model
}

fn assert_logits<'a>(name: &str, got: impl ExactSizeIterator<Item = &'a f32>, expected: Vec<f32>) {
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.zip(expected).enumerate() {
        assert!(
            (got - expected).abs() <= FACTOR * 1e-5 * expected.abs().max(1.0),
            "{name}: logit {i} is {got}, transformers' is {expected}"
        );
    }
}

#[test]
fn a_tied_model_computes_what_transformers_does() {
    let model = computes_the_same("tied");
    assert!(model.config().tied && model.config().qkv_bias);
}

#[test]
fn an_untied_model_has_its_own_head() {
    assert!(computes_the_same("untied").out_head.is_some());
}

#[test]
fn any_shape_hidden_size_and_epsilon_is_honoured() {
    let config = computes_the_same("odd").config();
    assert_eq!(config.hidden_dim, Some(29));
    assert_eq!(config.norm_eps, 1e-3);
    assert_eq!(
        config.drop_rates,
        DropRates {
            shortcut: 0.2,
            ..DropRates::all(0.1)
        }
    );
}

#[test]
fn other_activations_are_honoured_and_scales_of_scores_are_in_the_querys_weights() {
    assert_eq!(
        computes_the_same("relu").config().activation,
        Activation::Relu
    );
    // The model in the fixture "gelu" also tests a scale of the attention scores. The setting
    // `scale_attn_by_inverse_layer_idx` is true, so the attention scores of each block are also
    // divided by the number of the block, counted from 1.
    assert_eq!(
        computes_the_same("gelu").config().activation,
        Activation::Gelu
    );
    computes_the_same("unscaled");
    computes_the_same("unscaled_by_block");
}

#[test]
fn half_precisions_are_widened_exactly() {
    computes_the_same("bf16");
    computes_the_same("f16");
}

#[test]
fn shards_are_put_together() {
    computes_the_same("sharded");
    let by_index = fixture("sharded").join("model.safetensors.index.json");
    assert_eq!(
        load_model(by_index).unwrap(),
        load_model(fixture("sharded")).unwrap()
    );
}

#[test]
fn old_names_and_masks_are_accepted() {
    computes_the_same("masks");
}

#[test]
fn a_model_without_head_is_a_tied_one() {
    assert!(computes_the_same("headless").config().tied);
}

#[test]
fn a_head_equal_to_the_embedding_is_tied_and_another_is_kept() {
    assert!(computes_the_same("twin_head").out_head.is_none());
    assert!(computes_the_same("other_head").out_head.is_some());
    // The configuration of the fixture "other_head" says that the model is tied, although the
    // weights of its output layer differ from those of its token embedding. The model was
    // nevertheless loaded with a separate output layer, so the weights take precedence over the
    // configuration.
    assert!(load_config(fixture("other_head")).unwrap().tied);
}

#[test]
fn a_path_may_be_the_folder_its_weights_or_its_configuration() {
    let by_folder = load_model(fixture("tied")).unwrap();
    for file in ["model.safetensors", "config.json"] {
        let path = fixture("tied").join(file);
        assert_eq!(load_model(&path).unwrap(), by_folder);
        assert_eq!(load_config(&path).unwrap(), by_folder.config());
    }
}
