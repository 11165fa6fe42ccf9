//! Measures how fast text is converted to token IDs, both with GPT-2's vocabulary and with a
//! vocabulary that is trained on the beginning of the text. The text consists of the source code
//! and documentation of this workspace and its dependencies, up to a length of 60 MB.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use atomic_file::names_in;
use model_tokenizer::ModelTokenizer;

use crate::peer::TOKENIZERS;
use crate::turns::{Bench, Ours};

/// Length of the text to tokenize, in bytes.
const TEXT_BYTES: usize = 60_000_000;
/// Number of bytes at the beginning of the benchmark's text on which a vocabulary is trained.
/// Tokenization is measured both with GPT-2's vocabulary and with this one.
const TRAINING_BYTES: usize = 4_000_000;
/// Number of tokens in the second vocabulary.
const OWN_VOCABULARY_SIZE: usize = 10_000;

/// Measures how many megabytes of text per second this project and other tokenizers encode, and
/// adds the results to the benchmark's table.
pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let works = ["tokenize 60 MB", "tokenize 60 MB, own vocabulary"].map(String::from);
    if !bench.wants_any(&works) {
        return Ok(());
    }
    let text = text()?;
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(text.as_bytes())?;
    let own =
        ModelTokenizer::train_bpe_at_most(beginning(&text, TRAINING_BYTES), OWN_VOCABULARY_SIZE)?;
    let tokenizers = [
        (ModelTokenizer::gpt2(), TOKENIZERS),
        (own, &TOKENIZERS[1..]),
    ];
    for (work, (tokenizer, peers)) in works.into_iter().zip(tokenizers) {
        let folder = tempfile::tempdir()?;
        tokenizer.save(folder.path())?;
        let ours = Ours {
            work,
            precision: "text",
            step: Box::new(|| {
                std::hint::black_box(tokenizer.encode(&text).expect("it has all bytes"));
            }),
            floor: None,
            peers,
        };
        let [file, folder] = [file.path(), folder.path()].map(Path::display);
        let command = format!("tokenize {file} {folder}");
        bench.turns(&command, (text.len() as f64 / 1e6, "MB/s"), vec![ours]);
    }
    Ok(())
}

/// Returns the beginning of a text, which is at most `bytes` bytes long and never ends in the
/// middle of a character.
fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev();
    let end = end.into_iter().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

/// Returns the contents of the text files in this workspace and its dependencies, up to
/// [`TEXT_BYTES`] bytes. The files are concatenated in an order that depends only on their paths.
fn text() -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut command = Command::new(cargo);
    let output = command
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let manifests = packages
        .iter()
        .filter_map(|package| package["manifest_path"].as_str());
    let mut folders: Vec<PathBuf> = manifests
        .filter_map(|path| Some(Path::new(path).parent()?.to_owned()))
        .collect();
    folders.sort();
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for name in names_in(&folder).unwrap_or_default() {
            let path = folder.join(name);
            let is = |extension: &str| path.extension().is_some_and(|it| it == extension);
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if ["rs", "md", "txt", "py"]
                .iter()
                .any(|extension| is(extension))
            {
                // Files that aren't valid UTF-8 are skipped.
                text += &std::fs::read_to_string(&path).unwrap_or_default();
            }
            if text.len() >= TEXT_BYTES {
                return Ok(beginning(&text, TEXT_BYTES).to_owned());
            }
        }
    }
    Ok(text)
}
