//! Tests that the weights of another model and folders without a model are rejected with a
//! single-line error message that contains the file and, if possible, the tensor.

use std::fs;

use checkpoint::{Dtype, load_model, save_book, save_tensors};
use gpt::GptConfig;

use crate::support::{Broken, SMALL, header_refused, save_as, small_model, split, weights_refused};

const FILE: &str = "model.safetensors";

#[test]
fn tensors_of_another_model() {
    let (folder, other) = (Broken::hugging_face(), tempfile::tempdir().unwrap());
    let [mut larger, mut shallower] = [SMALL; 2];
    (larger.vocab_size, shallower.n_layers) = (12, 1);
    for (config, parts) in [
        (larger, &["wte.weight", "[12, 8]", "[11, 8]"][..]),
        (shallower, &["h.1.", "missing"]),
    ] {
        save_as(&small_model(config), other.path(), Dtype::Float32).unwrap();
        fs::copy(other.path().join(FILE), folder.weights()).unwrap();
        folder.is_refused(FILE, parts);
    }

    save_book(&small_model(SMALL), other.path()).unwrap();
    fs::copy(other.path().join(FILE), folder.weights()).unwrap();
    folder.is_refused(FILE, &["wte.weight", "missing"]);

    header_refused(
        |header| header.replacen("transformer.ln_f.bias", "transformer.ln_f.bios", 1),
        &["ln_f.bias", "missing"],
    );
}

#[test]
fn a_book_file_may_have_pytorchs_masks_but_nothing_else() {
    let folder = Broken::book();
    let (mask, other) = ("trf_blocks.0.att.mask", "trf_blocks.0.att.musk");
    let with = |name: &str| {
        let entry = format!(r#"{{"{name}":{{"dtype":"BOOL","shape":[0],"data_offsets":[0,0]}},"#);
        move |header: String| header.replacen('{', &entry, 1)
    };
    folder.change_header(with(mask));
    load_model(folder.path()).unwrap();
    folder.change_header(with(other));
    folder.is_refused(FILE, &[other, "unexpected"]);
}

#[test]
fn weights_that_are_not_finite() {
    for value in [f32::NAN, f32::NEG_INFINITY] {
        weights_refused(
            |mut bytes| {
                let len = bytes.len();
                bytes[len - 4..].copy_from_slice(&value.to_le_bytes());
                bytes
            },
            &["transformer.wte.weight", "element 87", &value.to_string()],
        );
    }
}

#[test]
fn weights_of_other_types() {
    header_refused(
        |header| header.replace("F32", "I32"),
        &["\"transformer.", "I32", "F32, F16 or BF16"],
    );
}

#[test]
fn other_formats_are_called_by_their_names() {
    for (magic, name) in [
        (&b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0"[..], "GGUF"),
        (b"PK\x03\x04\0\0\x08\x08\0\0\0\0", "torch.save"),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "pickle"),
        (b"{\"vocab_size\": 50257}", "JSON"),
        (b"GGUF", "GGUF"),
    ] {
        weights_refused(|_| magic.to_vec(), &[name, "not a safetensors file"]);
        // Checks that the format of a weight file is recognized even if the folder has no
        // config.json. The error message must contain the name of the format, such as "GGUF".
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.bin");
        fs::write(&path, magic).unwrap();
        let message = load_model(&path).unwrap_err().to_string();
        assert!(message.contains(name), "{message}");
    }
}

#[test]
fn folders_without_weights_say_what_they_lack() {
    let folder = Broken::hugging_face();
    fs::remove_file(folder.weights()).unwrap();
    folder.is_refused("", &["no model.safetensors"]);
    for name in ["pytorch_model.bin.index.json", "model.pth"] {
        let pickle = folder.path().join(name);
        fs::write(&pickle, "PK").unwrap();
        folder.is_refused(
            name,
            &[
                "a pickle, which can't be read safely",
                "save_pretrained(NEW)",
            ],
        );
        let named = load_model(&pickle).unwrap_err().to_string();
        assert!(named.contains("a pickle"), "{named}");
        fs::remove_file(pickle).unwrap();
    }
    fs::create_dir(folder.weights()).unwrap();
    folder.is_refused(FILE, &["not a file"]);
    let missing = load_model(folder.path().join("nowhere")).unwrap_err();
    assert!(missing.to_string().contains("nowhere"), "{missing}");
}

#[test]
fn an_index_reaches_no_other_folder_and_its_shards_have_what_is_needed() {
    let folder = Broken::hugging_face();
    let index = folder.path().join("model.safetensors.index.json");
    let header = split(&fs::read(folder.weights()).unwrap()).0.to_owned();
    let json: serde_json::Value = serde_json::from_str(&header).unwrap();
    let names = json
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| *name != "__metadata__");
    let map: serde_json::Map<_, _> = names
        .map(|name| (name.clone(), "one.safetensors".into()))
        .collect();
    fs::rename(folder.weights(), folder.path().join("one.safetensors")).unwrap();
    let good = serde_json::json!({"metadata": {"total_size": 1}, "weight_map": map}).to_string();
    let write = |text: &str| fs::write(&index, text).unwrap();

    write(&good);
    load_model(folder.path()).unwrap();
    write(&good.replace("one.", "./one."));
    load_model(folder.path()).unwrap();
    let file = "model.safetensors.index.json";
    let last = "\"transformer.wte.weight\":\"one.safetensors\"";
    for shard in ["./../one.safetensors", "/etc/passwd", "..", "", "a/b"] {
        write(&good.replacen(last, &format!("\"transformer.wte.weight\":{shard:?}"), 1));
        folder.is_refused(file, &["transformer.wte.weight", "same folder"]);
    }
    write(&good.replacen(last, "\"transformer.wte.weight\":\"two.safetensors\"", 1));
    folder.is_refused("two.safetensors", &["can't read"]);
    // Checks that a wrong index is accepted if it lists all weight files. Here, it lists a tensor,
    // "ghost", that doesn't exist, and omits one that does. The index is used only to find the
    // files, and the tensors are taken from the files themselves.
    write(&good.replacen(last, "\"ghost\":\"one.safetensors\"", 1));
    assert_eq!(load_model(folder.path()).unwrap(), small_model(SMALL));
    // Checks that if two weight files contain the same tensor, the tensor in the last file is used.
    // Here, it is the bias of the final layer normalization.
    let other = small_model(GptConfig {
        n_layers: 1,
        ..SMALL
    });
    let changed = [(
        "transformer.ln_f.bias".to_owned(),
        other.final_norm.shift.view().into_dyn(),
    )];
    save_tensors(folder.path().join("three.safetensors"), changed).unwrap();
    write(&good.replacen(last, &format!("{last},\"ghost\":\"three.safetensors\""), 1));
    let model = load_model(folder.path()).unwrap();
    assert_eq!(model.final_norm.shift, other.final_norm.shift);
    for text in ["", r#"{"weight_map":{}}"#, r#"{"weight_map":{"a":1}}"#] {
        write(text);
        folder.is_refused(file, &[]);
    }
    write(&good.replace("one.", "gone."));
    folder.is_refused("gone.safetensors", &["can't read"]);
}
