//! Loads a model folder whose files consist of arbitrary bytes. Loading must succeed or return an
//! error. It must not panic or allocate more memory than the size of the files justifies.
//!
//! The input consists of a mode (1 byte), the length of config.json (2 bytes), config.json, and the
//! rest. The meaning of the rest depends on the mode:
//!
//! - Mode 0: the length of a safetensors header (2 bytes), the header, and the tensors. The target
//!   writes the header's length into the file, so the fuzzer doesn't have to guess it.
//! - Mode 1: the whole file model.safetensors.
//! - Mode 2: the index of a model with several weight files.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use checkpoint::{SpecialTokens, load_config, load_model};
use fuzz::take_block;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, bytes)) = bytes.split_first() else {
        return;
    };
    let (config, rest) = take_block(bytes);
    let folder = FOLDER.path();
    let (weights, index) = (
        folder.join("model.safetensors"),
        folder.join("model.safetensors.index.json"),
    );
    fs::write(folder.join("config.json"), config).expect("written");
    let _ = fs::remove_file(&index);
    match mode % 3 {
        0 => {
            let (header, data) = take_block(rest);
            let length = (header.len() as u64).to_le_bytes();
            fs::write(&weights, [&length, header, data].concat()).expect("written");
        }
        1 => fs::write(&weights, rest).expect("written"),
        _ => {
            let _ = fs::remove_file(&weights);
            fs::write(&index, rest).expect("written");
        }
    }
    let _ = load_config(folder);
    let _ = SpecialTokens::of_folder(folder, |_| None);
    match load_model(folder) {
        Ok(model) => {
            let id = ndarray::Array2::zeros((1, 1));
            model
                .forward(&id)
                .expect("a loaded model takes the first id");
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n') && message.len() < 2000, "{message}");
        }
    }
});
