//! The places of a model's files: config.json, and model.safetensors or the index of its shards.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use atomic_file::{folder_of, is_file, names_in};

use crate::error::CheckpointError;

/// The name of a model's configuration in its folder.
pub const CONFIG: &str = "config.json";
/// The name of the settings for generating text, in Hugging Face's layout.
pub const GENERATION_CONFIG: &str = "generation_config.json";
/// The name of a model's weights in one file.
pub const WEIGHTS: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// The names of pickles, as transformers, the book and nanoGPT write them.
const PICKLES: [&str; 5] = [
    "ckpt.pt",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "model.pth",
    "model_and_optimizer.pth",
];

/// A way to make a folder that is read.
const PICKLE: &str = "a pickle, which is not read: in Python, load it and save_pretrained(NEW), or save its state_dict by safetensors.torch.save_file(..., \"model.safetensors\") beside a config.json with GPT_CONFIG_124M";

/// Files of other kinds of models, and advice for each.
const OTHERS: [(&str, &str); 5] = [
    (
        "adapter_config.json",
        "an adapter (LoRA), not a model: merge it into its model with peft's merge_and_unload, then save_pretrained(NEW)",
    ),
    (
        "hparams.json",
        "OpenAI's TensorFlow checkpoint, which is not read: use the same model in Hugging Face's layout",
    ),
    (
        "tf_model.h5",
        "TensorFlow weights, which are not read: load them in Python with from_tf=True, then save_pretrained(NEW)",
    ),
    (
        "flax_model.msgpack",
        "Flax weights, which are not read: load them in Python with from_flax=True, then save_pretrained(NEW)",
    ),
    (
        "model.gguf",
        "a GGUF file, which is written but not read: use the folder that it was made from",
    ),
];

/// Returns the configuration of the model at `path`; for a file, existence is checked on reading.
pub(crate) fn config_of(path: &Path) -> Result<PathBuf, CheckpointError> {
    if PICKLES.iter().any(|name| path.ends_with(name)) {
        return Err(lacks(path.to_owned(), PICKLE));
    }
    if !path.is_dir() {
        return Ok(path.with_file_name(CONFIG));
    }
    let config = path.join(CONFIG);
    match is_file(&config)? {
        true => Ok(config),
        false => Err(incomplete(path, "no config.json in this folder")),
    }
}

/// The weights of the model at `path`, a safetensors file or the index of shards.
pub(crate) fn weights_of(path: &Path) -> Result<PathBuf, CheckpointError> {
    let folder = match path.is_dir() {
        true => path,
        false if path.file_name().is_some_and(|name| name == CONFIG) => folder_of(path),
        false => return Ok(path.to_owned()),
    };
    for name in [WEIGHTS, INDEX] {
        let path = folder.join(name);
        if is_file(&path)? {
            return Ok(path);
        }
    }
    Err(incomplete(folder, "no model.safetensors in this folder"))
}

/// The error of a folder that lacks a file, which names the pickle that it has instead.
fn incomplete(folder: &Path, problem: &'static str) -> CheckpointError {
    let mut pickles = PICKLES.iter().map(|name| folder.join(name));
    if let Some(pickle) = pickles.find(|file| file.exists() || file.is_symlink()) {
        return lacks(pickle, PICKLE);
    }
    let names = names_in(folder).unwrap_or_default();
    let gguf = names.iter().map(Path::new);
    let gguf = gguf
        .into_iter()
        .find(|name| name.extension() == Some(OsStr::new("gguf")));
    let found = |other: &str| match (other, gguf) {
        ("model.gguf", Some(name)) => Some(folder.join(name)),
        _ => Some(folder.join(other)).filter(|file| file.exists()),
    };
    let mut others = OTHERS.iter();
    match others.find_map(|(name, kind)| Some((found(name)?, *kind))) {
        Some((file, kind)) => lacks(file, kind),
        None => lacks(folder.to_owned(), problem),
    }
}

fn lacks(path: PathBuf, problem: &'static str) -> CheckpointError {
    CheckpointError::Folder { path, problem }
}
