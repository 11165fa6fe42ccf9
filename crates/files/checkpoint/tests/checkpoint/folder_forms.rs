//! Folders that others write in forms of their own: which model they are, told before it is loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use checkpoint::{ModelFolder, Precision, load_config, load_model, load_tensors, save_book};
use checkpoint::{SpecialTokens, save_hugging_face, save_tensors};
use gpt::{GptConfig, GptModel};
use ndarray::ArrayD;
use tensor_ops::Parameters;

use crate::support::{Broken, SMALL, join, small_model};

const UNTIED: GptConfig = GptConfig {
    tied: false,
    ..SMALL
};

/// Writes a file again with other names of its tensors, or without those that have none.
fn rename(path: &Path, name: impl Fn(&str) -> Option<String>) {
    let tensors = load_tensors(path).unwrap();
    let kept = tensors
        .iter()
        .filter_map(|(old, array)| Some((name(old)?, array.view())));
    save_tensors(path, kept).unwrap();
}

fn said_tied(folder: &Broken) {
    let text = fs::read_to_string(folder.config()).unwrap();
    let tied = |key: &str| {
        let key = format!("\"{key}\": ");
        text.replace(&format!("{key}false"), &format!("{key}true"))
    };
    let text = if text.contains("tie_word") {
        tied("tie_word_embeddings")
    } else {
        tied("tied")
    };
    fs::write(folder.config(), text).unwrap();
}

/// The model, and what opening its folder said of it.
fn opened(folder: &Broken) -> (GptModel, Vec<String>) {
    let found = ModelFolder::open(folder.path()).unwrap();
    let model = found.load().unwrap();
    assert_eq!(model.config(), found.config());
    assert_eq!(
        model.num_parameters(),
        found.config().size().unwrap().total()
    );
    (model, found.notes().to_vec())
}

/// A folder of either layout, and the names of its embedding and head.
fn layouts() -> [(Broken, &'static str, &'static str); 2] {
    [
        (
            Broken::hugging_face(),
            "transformer.wte.weight",
            "lm_head.weight",
        ),
        (Broken::book(), "tok_emb.weight", "out_head.weight"),
    ]
}

fn save(model: &GptModel, folder: &Broken) {
    match fs::read_to_string(folder.config())
        .unwrap()
        .contains("book")
    {
        true => save_book(model, folder.path()).unwrap(),
        false => save_hugging_face(
            model,
            folder.path(),
            Precision::F32,
            &SpecialTokens::default(),
        )
        .unwrap(),
    }
}

#[test]
fn a_model_is_tied_as_its_weights_say_in_both_layouts() {
    let tied = small_model(SMALL);
    for (folder, embedding, head) in layouts() {
        // A head of other numbers, whatever the configuration says.
        let untied = small_model(UNTIED);
        save(&untied, &folder);
        said_tied(&folder);
        assert!(load_config(folder.path()).unwrap().tied);
        assert_eq!(opened(&folder).0, untied);
        // A head with the embedding's numbers is no head.
        let mut twin = small_model(UNTIED);
        let weights: BTreeMap<_, _> = tied.named_parameters().into_iter().collect();
        for (name, mut place) in twin.named_parameters_mut() {
            if let Some(weight) = weights.get(&name) {
                place.assign(weight);
            }
        }
        twin.out_head
            .as_mut()
            .unwrap()
            .weight
            .assign(&tied.tok_emb.weight);
        save(&twin, &folder);
        assert_eq!(opened(&folder).0, twin); // as it is said to have one
        said_tied(&folder);
        assert_eq!(opened(&folder).0, tied);
        // Either of the two is enough.
        let whole = fs::read(folder.weights()).unwrap();
        for left_out in [embedding, head] {
            fs::write(folder.weights(), &whole).unwrap();
            rename(&folder.weights(), |name| {
                (name != left_out).then(|| name.to_owned())
            });
            assert_eq!(opened(&folder).0, tied, "without {left_out}");
        }
        rename(&folder.weights(), |name| {
            (![embedding, head].contains(&name)).then(|| name.to_owned())
        });
        folder.is_refused("model.safetensors", &["missing"]);
    }
}

#[test]
fn wrappers_prefixes_are_left_out_and_told() {
    for prefix in ["_orig_mod.", "module.", "module._orig_mod."] {
        for (folder, ..) in layouts() {
            rename(&folder.weights(), |name| Some(format!("{prefix}{name}")));
            let (model, notes) = opened(&folder);
            assert_eq!(model, small_model(SMALL));
            assert!(
                notes.len() == 1 && notes[0].contains(&prefix[..7]),
                "{notes:?}"
            );
        }
    }
}

#[test]
fn tensors_of_other_heads_are_left_alone_and_told_in_hugging_faces_layout() {
    for (folder, ..) in layouts() {
        let more =
            r#"{"v_head.summary.\u001b[31m":{"dtype":"I64","shape":[0],"data_offsets":[0,0]},"#;
        folder.change_header(|header| header.replacen('{', more, 1));
        if folder.path().join("generation_config.json").exists() {
            let (model, notes) = opened(&folder);
            assert_eq!(model, small_model(SMALL));
            let note = &notes[0];
            assert!(
                note.contains("v_head") && !note.contains('\u{1b}'),
                "{note}"
            );
        } else {
            folder.is_refused("model.safetensors", &["v_head", "unexpected"]);
        }
    }
    // More layers than the configuration counts.
    let folder = Broken::hugging_face();
    let config = fs::read(folder.config()).unwrap();
    let deeper = GptConfig {
        n_layers: 3,
        ..SMALL
    };
    save(&small_model(deeper), &folder);
    fs::write(folder.config(), config).unwrap();
    assert!(opened(&folder).1[0].contains("h.2."));
}

#[test]
fn doubles_are_rounded_and_too_large_ones_refused() {
    let (header, numbers) = (
        br#"{"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}"#,
        |second: f64| [0.1f64.to_le_bytes(), second.to_le_bytes()].concat(),
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.safetensors");
    fs::write(&path, join(header, &numbers(-2.5))).unwrap();
    let expected = ArrayD::from_shape_vec(vec![2], vec![0.1f32, -2.5]).unwrap();
    assert_eq!(load_tensors(&path).unwrap()["a"], expected);
    fs::write(&path, join(header, &numbers(1e300))).unwrap();
    let error = load_tensors(&path).unwrap_err().to_string();
    assert!(error.contains("element 1 is inf"), "{error}");
}

#[test]
fn the_precision_is_that_of_all_weights() {
    for precision in [Precision::F32, Precision::F16, Precision::Bf16] {
        let folder = tempfile::tempdir().unwrap();
        save_hugging_face(
            &small_model(SMALL),
            folder.path(),
            precision,
            &SpecialTokens::default(),
        )
        .unwrap();
        let found = ModelFolder::open(folder.path()).unwrap();
        assert_eq!(found.precision(), Some(precision));
    }
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

/// PyTorch has them: nothing is kept in training, and evaluation is as ever.
#[test]
fn dropout_rates_of_one_are_read() {
    let folder = Broken::hugging_face();
    folder.change_config(|text| {
        let text = text.replace("\"attn_pdrop\": 0.3", "\"attn_pdrop\": 1.0");
        text.replace("\"embd_pdrop\": 0.1", "\"embd_pdrop\": 1")
    });
    let rates = load_config(folder.path()).unwrap().drop_rates;
    assert_eq!((rates.attention, rates.emb), (1.0, 1.0));
}
