//! Tokenizing: GPT-2's vocabulary on sources and documentation of this workspace and of the crates
//! that it depends on, 60 MB if there are as many.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use model_tokenizer::ModelTokenizer;

use crate::peer::TOKENIZERS;
use crate::turns::{Bench, Ours};

/// The length of the text, bytes.
const LENGTH: usize = 60_000_000;

/// The rows of tokenizing.
pub(crate) fn measure(bench: &mut Bench) -> Result<()> {
    let work = "tokenize 60 MB";
    if !bench.wants(work) {
        return Ok(());
    }
    let text = text()?;
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(text.as_bytes())?;
    let tokenizer = ModelTokenizer::gpt2();
    let ours = Ours {
        work: work.to_owned(),
        precision: "text",
        step: Box::new(|| {
            std::hint::black_box(tokenizer.encode(&text).expect("GPT-2 has all bytes"));
        }),
        floor: None,
        peers: TOKENIZERS,
    };
    let command = format!("tokenize {}", file.path().display());
    bench.turns(&command, (text.len() as f64 / 1e6, "MB/s"), vec![ours]);
    Ok(())
}

/// The texts of the packages that this workspace is built of, in the order of their paths.
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
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        paths.sort();
        for path in paths {
            let is = |extension: &str| path.extension().is_some_and(|it| it == extension);
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if ["rs", "md", "txt", "py"]
                .iter()
                .any(|extension| is(extension))
            {
                let mut lines = BufReader::new(File::open(&path)?).lines();
                while let Some(Ok(line)) = lines.next() {
                    text += &line;
                    text.push('\n');
                }
            }
            if text.len() >= LENGTH {
                let end = (0..=LENGTH).rev().find(|&at| text.is_char_boundary(at));
                text.truncate(end.unwrap_or(0));
                return Ok(text);
            }
        }
    }
    Ok(text)
}
