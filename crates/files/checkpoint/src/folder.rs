//! Where a model's files are: config.json, and model.safetensors or the index of its shards.

use std::path::{Path, PathBuf};

use crate::ConfigProblem;
use crate::book_config;
use crate::error::{CheckpointError, in_config};
use crate::file::{folder_of, is_file};
use crate::hugging_face_config;
use crate::json::Fields;
use crate::layout::Layout;
use gpt::GptConfig;

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const GENERATION_CONFIG: &str = "generation_config.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// What pickles are called, and how a folder is made of them that is read.
const PICKLES: [(&str, &str); 4] = [
    ("pytorch_model.bin", SAVE_AGAIN),
    ("pytorch_model.bin.index.json", SAVE_AGAIN),
    ("model.pth", BOOK_AGAIN),
    ("model_and_optimizer.pth", STATE_AGAIN),
];
const SAVE_AGAIN: &str = "a pickle, which is not read: in Python, AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW) makes a folder that is";
const BOOK_AGAIN: &str = "a pickle, which is not read: in Python, safetensors.torch.save_file(torch.load(\"model.pth\", weights_only=True), \"model.safetensors\") beside a config.json with GPT_CONFIG_124M makes a folder that is";
const STATE_AGAIN: &str = "a pickle, which is not read: in Python, safetensors.torch.save_file(torch.load(\"model_and_optimizer.pth\", weights_only=True)[\"model_state_dict\"], \"model.safetensors\") beside a config.json with GPT_CONFIG_124M makes a folder that is";

/// The files of a model.
pub(crate) struct Folder {
    pub(crate) config: PathBuf,
    /// A safetensors file or an index.
    pub(crate) weights: PathBuf,
}

impl Folder {
    /// The model at `path`: a folder, its config.json, its weights or the index of its shards.
    pub(crate) fn find(path: &Path) -> Result<Self, CheckpointError> {
        let config = config_of(path)?;
        let weights = if path.is_dir() {
            weights_in(path)?
        } else if path == config {
            weights_in(folder_of(path))?
        } else {
            path.to_owned()
        };
        Ok(Self { config, weights })
    }

    /// Whether the weights are said to be in shards.
    pub(crate) fn is_sharded(&self) -> bool {
        self.weights.extension().is_some_and(|e| e == "json")
    }
}

/// The configuration of the model at `path`; of a file's, whether it is there shows when it is read.
fn config_of(path: &Path) -> Result<PathBuf, CheckpointError> {
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

fn weights_in(folder: &Path) -> Result<PathBuf, CheckpointError> {
    for name in [WEIGHTS, INDEX] {
        let path = folder.join(name);
        if is_file(&path)? {
            return Ok(path);
        }
    }
    refuse_pickle_in(folder)?;
    Err(lacks(folder, "no model.safetensors in this folder"))
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

/// Reads a configuration of either kind and checks it.
pub(crate) fn read_config(file: &Path) -> Result<(Layout, GptConfig), CheckpointError> {
    let fields = Fields::read(file)?;
    let (layout, config) = if book_config::is_book(&fields) {
        (Layout::Book, book_config::read(&fields)?)
    } else {
        (Layout::HuggingFace, hugging_face_config::read(&fields)?)
    };
    config
        .validate()
        .map_err(|e| in_config(file)(ConfigProblem::Model(e)))?;
    Ok((layout, config))
}

/// Reads the configuration of the model at `path`: a folder, its config.json or its weights.
///
/// Whether a Hugging Face model is `tied` can depend on its weights too: [`load_model`](crate::load_model) looks.
///
/// # Errors
/// If there is no config.json, or it describes no model, or one that this crate would compute wrongly.
pub fn load_config(path: impl AsRef<Path>) -> Result<GptConfig, CheckpointError> {
    Ok(read_config(&config_of(path.as_ref())?)?.1)
}
