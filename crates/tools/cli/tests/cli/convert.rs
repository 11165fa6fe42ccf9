//! Tests that `gpt convert` writes a model to a new or empty folder, or to a new GGUF file, and
//! leaves everything else unchanged. The tests in `tests/torture` also check that a conversion that
//! fails leaves either a complete model or no model at all.

use std::fs;

use crate::support::{TINY, folder};

#[test]
fn a_new_or_empty_folder_is_filled_and_no_other() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 1 --out-dir run"));
    let output = folder.ok("convert run above/model").stdout;
    assert!(
        output.contains("above/model in Hugging Face's layout, float32, without a tokenizer"),
        "{output}"
    );
    fs::create_dir(folder.join("empty")).unwrap();
    folder.ok("convert above/model empty");
    assert!(folder.files("empty") == folder.files("above/model"));
    let before = folder.tensors("run");
    for (to, reason) in [
        ("run", "the folder contains"),
        ("empty/config.json --layout gguf", "already exists"),
    ] {
        folder.refused(&format!("convert empty {to}"), &[reason]);
    }
    folder.refused("convert empty new/..", &["new/.."]);
    assert!(!folder.join("new").exists());
    assert!(folder.tensors("run") == before);
    folder.ok("train --resume run --max-steps 3");
}

#[test]
fn a_gguf_file_is_known_by_its_ending() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 1 --out-dir run"));
    let output = folder.ok("convert run m.gguf --dtype float16").stdout;
    assert!(
        output.contains("m.gguf in GGUF, float16, without a tokenizer"),
        "{output}"
    );
    assert!(
        fs::read(folder.join("m.gguf"))
            .unwrap()
            .starts_with(b"GGUF")
    );
    folder.misused("convert run m.gguf --layout book", &["m.gguf", "--layout"]);
}
