//! Tests model folders that other programs could have written: with prefixed, missing or additional
//! tensors, or with an incomplete configuration. The configuration of a model must be known before
//! its weights are loaded.

use std::fs;
use std::path::Path;

use checkpoint::{Dtype, ModelFolder, load_config, load_model};
use checkpoint::{load_tensors_into, save_book, save_tensors};
use gpt::{GptConfig, GptModel};
use ndarray::array;
use tensor_ops::{LayerNorm, Parameters};

use crate::support::{Broken, SMALL, UNTIED, join, save_as, small_model, tensors_of};

/// Rewrites a safetensors file so that its tensors have other names, as in a file that another
/// program has written. The function `name` receives the name of each tensor and returns its new
/// name, or `None` to remove the tensor.
fn rename(path: &Path, name: impl Fn(&str) -> Option<String>) {
    let tensors = tensors_of(path);
    let kept = tensors
        .iter()
        .filter_map(|(old, array)| Some((name(old)?, array.view())));
    save_tensors(path, kept).unwrap();
}

/// Opens a model folder and loads the model. Returns the model together with the note that
/// [`ModelFolder`] has for the user, for example about tensors that were ignored. Also checks that
/// the configurations of the folder and the model are equal.
fn opened(folder: &Broken) -> (GptModel, Option<String>) {
    let found = ModelFolder::open(folder.path()).unwrap();
    let model = found.load().unwrap();
    assert_eq!(model.config(), found.config());
    assert_eq!(
        model.num_parameters(),
        found.config().size().unwrap().total()
    );
    (model, found.note().map(str::to_owned))
}

/// Tests models in the book's layout. For models in Hugging Face's layout, see `transformers.rs`.
#[test]
fn a_model_is_tied_as_its_weights_say() {
    let folder = Broken::book();
    let say_tied =
        || _ = folder.change_config(|text| text.replace("\"tied\": false", "\"tied\": true"));
    // The configuration file claims that the output layer is tied to the token embedding, but the
    // two weights in the folder differ. The loaded model must therefore have an output layer of its
    // own.
    let mut model = small_model(UNTIED);
    save_book(&model, folder.path()).unwrap();
    say_tied();
    assert!(load_config(folder.path()).unwrap().tied);
    assert_eq!(opened(&folder).0, model);
    // The output layer now has the same weights as the token embedding. The loaded model must be
    // tied if and only if the configuration says that it is.
    let head = model.out_head.as_mut().unwrap();
    head.weight.assign(&model.tok_emb.weight);
    save_book(&model, folder.path()).unwrap();
    assert_eq!(opened(&folder).0, model); // The configuration says that it isn't tied.
    say_tied();
    let tied = opened(&folder).0;
    assert!(tied.out_head.is_none() && tied.tok_emb == model.tok_emb);
    // A tied model can be loaded even if the file contains only one of the two tensors whose
    // weights are the same. However, at least one of the two is required.
    let without = |left_out: &str| {
        rename(&folder.weights(), |name| {
            (name != left_out).then(|| name.to_owned())
        });
    };
    without("tok_emb.weight");
    assert_eq!(opened(&folder).0, tied);
    without("out_head.weight");
    folder.is_refused("model.safetensors", &["missing"]);
    save_book(&tied, folder.path()).unwrap();
    without("out_head.weight");
    assert_eq!(opened(&folder).0, tied);
}

#[test]
fn wrappers_prefixes_are_left_out() {
    for prefix in ["_orig_mod.", "module.", "module._orig_mod."] {
        for folder in [Broken::hugging_face(), Broken::book()] {
            rename(&folder.weights(), |name| Some(format!("{prefix}{name}")));
            assert_eq!(opened(&folder), (small_model(SMALL), None));
        }
    }
}

#[test]
fn tensors_of_other_heads_are_left_alone_and_told_in_hugging_faces_layout() {
    let folder = Broken::hugging_face();
    let more = r#"{"v_head.summary.\u001b[31m":{"dtype":"I64","shape":[0],"data_offsets":[0,0]},"#;
    folder.change_header(|header| header.replacen('{', more, 1));
    let (model, note) = opened(&folder);
    assert_eq!(model, small_model(SMALL));
    let note = note.unwrap();
    assert!(
        note.contains("1 tensors") && note.contains("v_head") && !note.contains('\u{1b}'),
        "{note}"
    );
    // Checks that a model can be loaded if its weight file contains more layers than its
    // configuration requires (here, three instead of two). The loader only notes for the user that
    // the additional layers are ignored.
    let config = fs::read(folder.config()).unwrap();
    let deeper = GptConfig {
        n_layers: 3,
        ..SMALL
    };
    save_as(&small_model(deeper), folder.path(), Dtype::Float32).unwrap();
    fs::write(folder.config(), config).unwrap();
    assert!(opened(&folder).1.unwrap().contains("12 tensors"));
}

#[test]
fn doubles_are_rounded_and_too_large_ones_refused() {
    let header = br#"{"scale":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"shift":{"dtype":"F64","shape":[1],"data_offsets":[8,16]}}"#;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("norm.safetensors");
    let mut norm = LayerNorm::new(1);
    let mut load = |shift: f64| {
        let numbers = [0.1f64.to_le_bytes(), shift.to_le_bytes()].concat();
        fs::write(&path, join(header, &numbers)).unwrap();
        load_tensors_into(&path, &mut norm, "").map(|()| norm.clone())
    };
    let loaded = load(-2.5).unwrap();
    assert_eq!((loaded.scale, loaded.shift), (array![0.1f32], array![-2.5]));
    let error = load(1e300).unwrap_err().to_string();
    assert!(error.contains("element 0 is inf"), "{error}");
}

#[test]
fn sizes_that_a_gpt2_does_not_say_are_transformers_defaults() {
    let folder = Broken::hugging_face();
    fs::write(folder.config(), r#"{"model_type": "gpt2"}"#).unwrap();
    let expected = GptConfig {
        tied: true,
        qkv_bias: true,
        ..GptConfig::GPT2_124M
    };
    assert_eq!(load_config(folder.path()).unwrap(), expected);
}

#[cfg(unix)]
#[test]
fn an_open_folder_can_be_loaded_though_its_files_are_gone() {
    let folder = Broken::book();
    let found = ModelFolder::open(folder.path()).unwrap();
    fs::remove_file(folder.weights()).unwrap();
    assert_eq!(found.load().unwrap(), small_model(SMALL));
    assert!(load_model(folder.path()).is_err());
}
