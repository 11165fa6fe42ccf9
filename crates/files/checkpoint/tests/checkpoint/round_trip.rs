//! Tests that a saved model can be loaded again in both layouts and at every precision, and that
//! the files of an existing model remain unchanged if a new model can't be saved.

use std::fs;

use checkpoint::{
    Dtype, SpecialTokens, load_config, load_model, load_tensors_into, save_book, save_gguf,
    save_tensors,
};
use gpt::{Activation, DropRates, GptConfig, GptModel};
use ndarray::{Array1, array, s};
use proptest::prelude::*;
use tensor_ops::{LayerNorm, Parameters};

use crate::support::{SMALL, UNTIED, save_as, small_model, tensors_of};

fn configs() -> impl Strategy<Value = GptConfig> {
    let sizes = (1..20usize, 1..9usize, 1..4usize, 1..4usize, 1..4usize);
    let flags = (any::<bool>(), any::<bool>(), prop::option::of(1..30usize));
    let eps = prop_oneof![0.0..0.1f32, 0.0..f32::MAX];
    (sizes, flags, 0.0..0.9f64, eps).prop_map(
        |((vocab, context, heads, head_dim, layers), (qkv_bias, tied, hidden_dim), p, eps)| {
            GptConfig {
                vocab_size: vocab,
                context_length: context,
                emb_dim: heads * head_dim,
                n_heads: heads,
                n_layers: layers,
                qkv_bias,
                tied,
                hidden_dim,
                norm_eps: eps,
                activation: [Activation::GeluTanh, Activation::Gelu, Activation::Relu][layers % 3],
                drop_rates: DropRates {
                    emb: p,
                    ..SMALL.drop_rates
                },
            }
        },
    )
}

/// Checks that a matrix can be loaded even if each of its rows is longer than the blocks in which a
/// file is read. In this test, the matrix is a weight of the feed-forward network, which has
/// 300,000 hidden features.
#[test]
fn a_wide_feed_forward_network_keeps_every_bit() {
    let config = GptConfig {
        emb_dim: 1,
        n_heads: 1,
        n_layers: 1,
        hidden_dim: Some(300_000),
        ..SMALL
    };
    let folder = tempfile::tempdir().unwrap();
    let model = small_model(config);
    save_as(&model, folder.path(), Dtype::Float32).unwrap();
    assert!(load_model(folder.path()).unwrap() == model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_books_layout_keeps_every_bit(config in configs()) {
        let folder = tempfile::tempdir().unwrap();
        let model = small_model(config);
        save_book(&model, folder.path()).unwrap();
        prop_assert_eq!(load_config(folder.path()).unwrap(), config);
        prop_assert_eq!(load_model(folder.path()).unwrap(), model);
    }

    #[test]
    fn hugging_faces_layout_keeps_every_bit(config in configs()) {
        let folder = tempfile::tempdir().unwrap();
        let model = small_model(config);
        save_as(&model, folder.path(), Dtype::Float32).unwrap();
        prop_assert_eq!(load_model(folder.path()).unwrap(), model);
    }
}

/// Checks that biases are loaded if they are nonzero, even if config.json contains `"qkv_bias":
/// false`. Such a folder is written by transformers if it trains a model whose configuration
/// contains this key: the key is kept, although the biases are no longer zero.
#[test]
fn biases_that_the_configuration_denies_count_if_they_are_not_zero() {
    let folder = tempfile::tempdir().unwrap();
    let model = small_model(SMALL);
    assert!(model.config().qkv_bias);
    save_as(&model, folder.path(), Dtype::Float32).unwrap();
    let config = folder.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(config, text.replacen('{', "{\"qkv_bias\": false,", 1)).unwrap();
    assert_eq!(load_model(folder.path()).unwrap(), model);
}

#[test]
fn precisions_round_to_the_nearest() {
    let model = small_model(SMALL);
    for (precision, bits) in [
        (Dtype::Float32, 24),
        (Dtype::Float16, 11),
        (Dtype::BFloat16, 8),
    ] {
        let folder = tempfile::tempdir().unwrap();
        save_as(&model, folder.path(), precision).unwrap();
        let loaded = load_model(folder.path()).unwrap();
        let loaded_parameters = loaded.named_parameters();
        assert_eq!(model.named_parameters().len(), loaded_parameters.len());
        for ((name, x), (_, y)) in model.named_parameters().iter().zip(loaded_parameters) {
            for (x, y) in x.iter().zip(&y) {
                let half_a_step = x.abs().max(1e-4) * 0.5f32.powi(bits);
                assert!(
                    (x - y).abs() <= half_a_step,
                    "{precision} {name}: {x} became {y}"
                );
            }
        }
        // Checks that saving the loaded model at the same precision again writes identical bytes,
        // because weights that have already been rounded don't change.
        let again = tempfile::tempdir().unwrap();
        save_as(&loaded, again.path(), precision).unwrap();
        let bytes = |folder: &tempfile::TempDir| fs::read(folder.path().join("model.safetensors"));
        assert_eq!(bytes(&folder).unwrap(), bytes(&again).unwrap());
    }
}

#[test]
fn equal_tensors_make_equal_bytes_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (array![1.0f32, 2.0].into_dyn(), array![[3.0f32]].into_dyn());
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let mut tensors = [("a".to_owned(), a.view()), ("b".to_owned(), b.view())];
    save_tensors(&one, tensors.clone()).unwrap();
    tensors.reverse();
    save_tensors(&two, tensors).unwrap();
    assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
    let loaded = tensors_of(&one);
    assert_eq!((&loaded["a"], &loaded["b"]), (&a, &b));
}

#[test]
fn names_that_a_file_cant_have_are_not_written_and_all_others_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tensors");
    let zero = array![0.0f32].into_dyn();
    let save = |names: &[&str]| {
        let named = names.iter().map(|&name| (name.to_owned(), zero.view()));
        save_tensors(&path, named)
    };
    let long = "x".repeat(2 << 20);
    for (names, problem) in [
        (&["a", "a"][..], "\"a\": two tensors have this name"),
        (
            &["a", "__metadata__"],
            "\"__metadata__\": this name is reserved",
        ),
        (&[&long], "the names and shapes of the tensors, has"),
    ] {
        let error = save(names).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        assert!(!path.exists());
    }
    let names = [
        "",
        "\0",
        "\"a\"",
        "a\nb",
        "__metadata__.x",
        "metadata",
        "\u{1f980}",
    ];
    save(&names).unwrap();
    let loaded = tensors_of(&path);
    assert!(names.iter().all(|name| loaded[*name] == zero));
}

#[test]
fn a_prefix_chooses_among_several_states_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let (m, mut v) = (small_model(SMALL), small_model(SMALL));
    v.visit_mut("", &mut |_, mut view| view.mapv_inplace(|x| x * x));
    let mut tensors = Vec::new();
    m.visit("m.", &mut |name, view| tensors.push((name, view)));
    v.visit("v.", &mut |name, view| tensors.push((name, view)));
    save_tensors(&path, tensors).unwrap();

    let mut loaded = GptModel::zeros(SMALL).unwrap();
    load_tensors_into(&path, &mut loaded, "v.").unwrap();
    assert_eq!(loaded, v);
    load_tensors_into(&path, &mut loaded, "m.").unwrap();
    assert_eq!(loaded, m);
    let mut norm = m.final_norm.clone();
    let error = load_tensors_into(&path, &mut norm, "x.").unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    let more = [("shift2".to_owned(), m.final_norm.shift.view().into_dyn())];
    save_tensors(&path, norm.named_parameters().into_iter().chain(more)).unwrap();
    let mut norm = LayerNorm::new(SMALL.emb_dim);
    let error = load_tensors_into(&path, &mut norm, "").unwrap_err();
    assert!(error.to_string().contains("unexpected"), "{error}");
}

/// Checks that the file also contains those tensors of the book's `state_dict` that aren't
/// parameters in this crate: the causal mask of each block and, for a tied model, the output layer.
/// The expected mask is the result of `torch.triu(torch.ones(3, 3), diagonal=1)` in torch 2.15.
#[test]
fn the_books_layout_has_all_that_the_books_model_loads_strictly() {
    let folder = tempfile::tempdir().unwrap();
    let model = small_model(GptConfig {
        context_length: 3,
        drop_rates: DropRates::all(0.1),
        ..SMALL
    });
    save_book(&model, folder.path()).unwrap();
    let tensors = tensors_of(&folder.path().join("model.safetensors"));
    let mask = array![[0.0f32, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]];
    for block in 0..SMALL.n_layers {
        assert_eq!(
            tensors[&format!("trf_blocks.{block}.att.mask")],
            mask.clone().into_dyn()
        );
    }
    assert_eq!(tensors["out_head.weight"], tensors["tok_emb.weight"]);
    let config = fs::read_to_string(folder.path().join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["drop_rate"], 0.1);
    assert_eq!(load_model(folder.path()).unwrap(), model);
}

#[test]
fn a_model_that_cannot_be_saved_leaves_the_old_one_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let good = small_model(SMALL);
    save_book(&good, folder.path()).unwrap();
    let mut not_finite = small_model(GptConfig {
        n_layers: 1,
        ..SMALL
    });
    not_finite.final_norm.shift[3] = f32::NAN;
    let mut large = small_model(SMALL);
    large.final_norm.shift[3] = 70000.0;
    let error = save_as(&large, folder.path(), Dtype::Float16).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("ln_f.bias") && message.contains("element 3 is 70000"),
        "{message}"
    );
    // This model has an output layer with two rows, like the classifier in chapter 6 of the book,
    // which assigns texts to two classes.
    let mut classes = small_model(UNTIED);
    let head = classes.out_head.as_mut().unwrap();
    head.weight = head.weight.slice(s![..2, ..]).to_owned();
    let mut biased = small_model(UNTIED);
    biased.out_head.as_mut().unwrap().bias = Some(Array1::ones(11));
    let mut dropping = small_model(SMALL);
    dropping.trf_blocks[1].drop_shortcut.p = 0.5;
    let gguf = folder.path().join("model.gguf");
    for (model, part) in [
        (not_finite, "element 3 is NaN"),
        (
            classes,
            "out_head doesn't match the model's configuration: the shape of the layer's weight must be (11, 8), got (2, 8)",
        ),
        (
            biased,
            "out_head doesn't match the model's configuration: the layer has a bias of 11 elements",
        ),
        (
            dropping,
            "trf_blocks[1].drop_shortcut.p doesn't match the model's configuration: the field must be 0.123456789012345, got 0.5",
        ),
    ] {
        for error in [
            save_book(&model, folder.path()),
            save_as(&model, folder.path(), Dtype::BFloat16),
        ] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let tokens = SpecialTokens::default();
        save_gguf(&model, &gguf, Dtype::Float32, None, &tokens).unwrap_err();
        assert_eq!(load_model(folder.path()).unwrap(), good);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
