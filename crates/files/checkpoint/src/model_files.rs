//! Finds the files of a model: config.json, and model.safetensors or the index of several weight
//! files (shards).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use atomic_file::{folder_of, is_file, names_in};

use crate::error::CheckpointError;

/// File name of a model's configuration.
pub const CONFIG: &str = "config.json";
/// Name of the file that contains a model's default generation settings in the Hugging Face layout.
pub const GENERATION_CONFIG: &str = "generation_config.json";
/// File name of a model's weights if they are in one file.
pub const WEIGHTS: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// Names of the pickle files that transformers, the book's code and nanoGPT write.
const PICKLES: [&str; 5] = [
    "ckpt.pt",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "model.pth",
    "model_and_optimizer.pth",
];

/// Error message for a pickle, which suggests how to convert it.
const PICKLE: &str = "this is a pickle, which can't be read safely; in Python, load it and call save_pretrained(NEW), or save its state_dict with safetensors.torch.save_file(..., \"model.safetensors\") next to a config.json that contains GPT_CONFIG_124M";

/// Names of files that are typical of unsupported kinds of models. The error message for each file
/// suggests how to convert the model.
const OTHERS: [(&str, &str); 5] = [
    (
        "adapter_config.json",
        "this is an adapter (LoRA) and not a model; merge it into its model with merge_and_unload of peft, and call save_pretrained(NEW)",
    ),
    (
        "hparams.json",
        "this is OpenAI's TensorFlow checkpoint, which isn't supported; use the same model in Hugging Face's layout",
    ),
    (
        "tf_model.h5",
        "TensorFlow weights aren't supported; in Python, load them with from_tf=True and call save_pretrained(NEW)",
    ),
    (
        "flax_model.msgpack",
        "Flax weights aren't supported; in Python, load them with from_flax=True and call save_pretrained(NEW)",
    ),
    (
        "model.gguf",
        "GGUF files can be written but not read; use the model folder from which this file was converted",
    ),
];

/// Returns the path to the config.json of the model at `path`. If `path` isn't a folder, the
/// function returns the path to a config.json in the same folder as `path`, without checking
/// whether this file exists.
///
/// # Errors
///
/// Returns an error if `path` is a folder without a config.json, or if the model is stored as a
/// pickle.
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
        false => Err(incomplete(
            path,
            "the folder contains no config.json, so it isn't a model",
        )),
    }
}

/// Returns the path to the weights of the model at `path`, which is the path to a safetensors file
/// or to the index of several weight files.
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
    Err(incomplete(
        folder,
        "the folder contains no model.safetensors, so it isn't a model",
    ))
}

/// Returns the error for a folder that lacks config.json or the weights. If the folder contains an
/// unsupported kind of model, the error message says how to convert this model. Otherwise, the
/// message is `problem`.
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
