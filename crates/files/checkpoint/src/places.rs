//! The places of a model's files: config.json, and model.safetensors or the index of its shards.

use std::path::{Path, PathBuf};

use atomic_file::{folder_of, is_file};

use crate::error::CheckpointError;

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const GENERATION_CONFIG: &str = "generation_config.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// The names of pickles, and how a folder is made of them that is read.
const PICKLES: [(&str, &str); 4] = [
    ("pytorch_model.bin", SAVE_AGAIN),
    ("pytorch_model.bin.index.json", SAVE_AGAIN),
    ("model.pth", BOOK_AGAIN),
    ("model_and_optimizer.pth", STATE_AGAIN),
];
const SAVE_AGAIN: &str = "a pickle, which is not read: in Python, AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW) makes a folder that is";
const BOOK_AGAIN: &str = "a pickle, which is not read: in Python, safetensors.torch.save_file(torch.load(\"model.pth\", weights_only=True), \"model.safetensors\") beside a config.json with GPT_CONFIG_124M makes a folder that is";
const STATE_AGAIN: &str = "a pickle, which is not read: in Python, safetensors.torch.save_file(torch.load(\"model_and_optimizer.pth\", weights_only=True)[\"model_state_dict\"], \"model.safetensors\") beside a config.json with GPT_CONFIG_124M makes a folder that is";

/// Returns the configuration of the model at `path`; for a file, existence is checked on reading.
pub(crate) fn config_of(path: &Path) -> Result<PathBuf, CheckpointError> {
    if !path.is_dir() {
        refuse_pickle(path)?;
        return Ok(path.with_file_name(CONFIG));
    }
    let config = path.join(CONFIG);
    if is_file(&config)? {
        return Ok(config);
    }
    refuse_pickle_in(path)?;
    Err(lacks(path, "no config.json in this folder"))
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
    refuse_pickle_in(folder)?;
    Err(lacks(folder, "no model.safetensors in this folder"))
}

/// True if weights are an index of shards.
pub(crate) fn is_index(weights: &Path) -> bool {
    weights.extension().is_some_and(|end| end == "json")
}

fn refuse_pickle_in(folder: &Path) -> Result<(), CheckpointError> {
    let mut files = PICKLES.into_iter().map(|(name, _)| folder.join(name));
    files
        .find(|file| file.exists())
        .map_or(Ok(()), |file| refuse_pickle(&file))
}

fn refuse_pickle(file: &Path) -> Result<(), CheckpointError> {
    let mut pickles = PICKLES.into_iter();
    let found = pickles.find(|(name, _)| file.ends_with(name));
    found.map_or(Ok(()), |(_, problem)| Err(lacks(file, problem)))
}

fn lacks(folder: &Path, problem: &'static str) -> CheckpointError {
    CheckpointError::Folder {
        path: folder.to_owned(),
        problem,
    }
}
