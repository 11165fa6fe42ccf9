//! One checkpoint: a folder with the model, the optimizer, the state and a manifest.
//!
//! ```text
//! config.json              the model's configuration  \ together they are a model folder
//! model.safetensors        the weights                / that `checkpoint` loads
//! optimizer.safetensors    the moments, as m.<name> and v.<name>
//! gradients.safetensors    only within a step: the sum over its batches so far
//! state.json               settings, counters, random state, place in the data, losses
//! tokenizer.json, ...      copies of the run's tokenizer
//! manifest.json            step, validation loss, lengths and hashes of all others; written last
//! ```
//!
//! Which checkpoints a run has, and which is the newest, is in `kept.rs`.

use std::path::Path;

use atomic_file::is_file;
use checkpoint::{LazyTensor, load_config, load_tensors_into, save_compact, save_tensors};
use gpt::{GptConfig, GptModel};
use tensor_ops::Parameters;

use crate::fingerprint::Fingerprint;
use crate::manifest::{MANIFEST_FILE, Manifest, Save, read_json, write_json};
use crate::state::{TrainState, same};
use crate::{AdamW, TrainConfig, TrainError};

/// The state's name in a checkpoint's folder.
pub(crate) const STATE_FILE: &str = "state.json";

const CONFIG: &str = "config.json";
const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const GRADIENTS: &str = "gradients.safetensors";
const ALWAYS: [&str; 4] = [CONFIG, MODEL, OPTIMIZER, STATE_FILE];

/// All files that a checkpoint can have beside copies: an unfinished one with any other is not
/// deleted.
pub(crate) const FILES: [&str; 6] = [
    CONFIG,
    MODEL,
    OPTIMIZER,
    STATE_FILE,
    GRADIENTS,
    MANIFEST_FILE,
];

/// A checkpoint, read.
pub(crate) struct Checkpoint {
    pub(crate) model: GptModel,
    pub(crate) optimizer: AdamW,
    /// If it was saved among the batches of a step.
    pub(crate) grads: Option<GptModel>,
    pub(crate) state: TrainState,
}

/// The settings that a checkpoint was made with: see [`read_settings`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SavedSettings {
    /// The model's configuration.
    pub model: GptConfig,
    /// The run's settings.
    pub train: TrainConfig,
    /// Optimizer steps so far.
    pub steps_done: u64,
    /// The training data, by which a resumed run knows it again.
    pub train_data: Fingerprint,
    /// The validation data.
    pub val_data: Option<Fingerprint>,
}

/// Writes a checkpoint to a new folder, beside what is in it; it is one when this returns.
pub(crate) fn write(
    folder: &Path,
    save: Save,
    model: &GptModel,
    moments: Vec<LazyTensor<'_>>,
    grads: Option<&GptModel>,
    state: &TrainState,
) -> Result<(), TrainError> {
    save_compact(model, folder)?;
    save_tensors(folder.join(OPTIMIZER), moments)?;
    if let Some(grads) = grads {
        save_tensors(folder.join(GRADIENTS), grads.named_parameters())?;
    }
    write_json(&folder.join(STATE_FILE), state)?;
    Manifest::of(folder, save)?.write(folder)
}

/// Reads the manifest of a checkpoint that has all files: those that the manifest names, and those
/// that every checkpoint has, each as long as it was. Their contents are not read.
pub(crate) fn read_whole(folder: &Path) -> Result<Manifest, TrainError> {
    let manifest = Manifest::read(folder)?;
    manifest.require(folder, &ALWAYS)?;
    manifest.check_lengths(folder)?;
    Ok(manifest)
}

/// Checks that the copies in a checkpoint of the run's tokenizer are as they were saved; its
/// weights are not read.
///
/// # Errors
/// Names the file that is not, and in what.
pub fn check_copies(checkpoint: impl AsRef<Path>) -> Result<(), TrainError> {
    let folder = checkpoint.as_ref();
    Manifest::read(folder)?.verify(folder, |file| !FILES.contains(&file))
}

/// Reads a checkpoint of a model that is known, and checks all of it: lengths and hashes first,
/// then what the files say.
pub(crate) fn read(folder: &Path, asked: GptConfig) -> Result<Checkpoint, TrainError> {
    if !is_file(folder.join(MANIFEST_FILE))? {
        let path = folder.to_owned();
        return Err(TrainError::NoCheckpoint { path });
    }
    let manifest = Manifest::read(folder)?;
    manifest.require(folder, &ALWAYS)?;
    manifest.verify(folder, |_| true)?;
    let state = read_state(folder)?;
    let config = load_config(folder)?;
    same(folder, "the model", &config, &asked)?;
    let mut model = GptModel::zeros(config)?;
    load_tensors_into(folder.join(MODEL), &mut model, "")?;
    let mut optimizer = AdamW::new(state.config.optimizer, &model)?;
    optimizer.steps = state.optimizer_steps;
    load_tensors_into(folder.join(OPTIMIZER), &mut optimizer, "")?;
    let mut grads = None;
    if state.counters.micro_step > 0 {
        manifest.require(folder, &[GRADIENTS])?;
        let grads = grads.insert(GptModel::zeros(config)?);
        load_tensors_into(folder.join(GRADIENTS), grads, "")?;
    }
    Ok(Checkpoint {
        model,
        optimizer,
        grads,
        state,
    })
}

fn read_state(folder: &Path) -> Result<TrainState, TrainError> {
    let path = folder.join(STATE_FILE);
    let state: TrainState = read_json(&path)?;
    state.config.validate()?;
    match state.contradiction() {
        Some(problem) => Err(TrainError::damaged(path, problem)),
        None => Ok(state),
    }
}

/// Reads the settings that a checkpoint was made with, without its tensors: what a run needs to
/// make its loaders before it resumes.
///
/// # Errors
/// If there is no checkpoint, or its configuration or state can't be read or was changed.
pub fn read_settings(checkpoint: impl AsRef<Path>) -> Result<SavedSettings, TrainError> {
    let folder = checkpoint.as_ref();
    let manifest = Manifest::read(folder)?;
    let files = [CONFIG, STATE_FILE];
    manifest.require(folder, &files)?;
    manifest.verify(folder, |file| files.contains(&file))?;
    let state = read_state(folder)?;
    Ok(SavedSettings {
        model: load_config(folder)?,
        train: state.config,
        steps_done: state.counters.steps_done,
        train_data: state.train_data,
        val_data: state.val_data,
    })
}
