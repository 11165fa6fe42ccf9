//! Reading and writing the files of a checkpoint, which is a model folder in Hugging Face's layout
//! with some additional files.
//!
//! ```text
//! config.json, generation_config.json   the configuration of the model
//! model.safetensors                     the weights
//! tokenizer.json, ...                   the tokenizer
//! optimizer.safetensors                 the moments, whose names are m.<weight> and v.<weight>
//! state.json                            the settings, the counters, the state of the random number
//!                                       generator, and the position in the data
//! manifest.json                         the run, the step, the validation loss, and the length and
//!                                       the hash of every other file
//! ```
//!
//! Hugging Face's transformers and llama.cpp's converter can load such a folder, because they
//! ignore the last three files. manifest.json is written last. The functions in
//! `run_checkpoints.rs` read the manifests to find the checkpoints of a run.

use std::path::Path;

use checkpoint::{
    CONFIG, Dtype, LazyTensor, ModelFolder, SpecialTokens, load_tensors_into, save_hugging_face,
    save_tensors,
};
use gpt::GptModel;

use crate::manifest::{FILES, Manifest, OPTIMIZER, STATE, is_editable, read_json, write_json};
use crate::state::{Settings, TrainState};
use crate::{AdamW, TrainError};

/// Writes all files of a checkpoint except the tokenizer and the manifest to a new folder.
pub(crate) fn write(
    folder: &Path,
    model: &GptModel,
    tokens: &SpecialTokens,
    moments: Vec<LazyTensor<'_>>,
    state: &TrainState,
) -> Result<(), TrainError> {
    save_hugging_face(model, folder, Dtype::Float32, tokens)?;
    save_tensors(folder.join(OPTIMIZER), moments)?;
    write_json(&folder.join(STATE), state)
}

/// Reads a checkpoint and checks that it was saved with these settings. Before it uses the contents
/// of the files, this function checks the lengths and hashes of all files except those that users
/// may edit.
pub(crate) fn read(
    folder: &Path,
    settings: &Settings,
) -> Result<(GptModel, AdamW, TrainState), TrainError> {
    Manifest::read(folder)?.verify(folder, |file| !is_editable(file))?;
    let state: TrainState = read_json(&folder.join(STATE))?;
    state.settings.refuse_others(folder, settings)?;
    let source = ModelFolder::open(folder)?;
    if source.config() != settings.model {
        let problem = "this file and state.json describe different models; restore both files";
        return Err(TrainError::damaged(folder.join(CONFIG), problem));
    }
    let model = source.load()?;
    let mut optimizer = AdamW::new(settings.config.optimizer, &model)?;
    optimizer.steps = state.steps_done();
    load_tensors_into(folder.join(OPTIMIZER), &mut optimizer, "")?;
    Ok((model, optimizer, state))
}

/// Reads the settings of a checkpoint. A program needs these settings to create the data loaders
/// before it resumes the run.
///
/// # Errors
///
/// Returns an error if the folder isn't a checkpoint, or if its state.json can't be read or was
/// changed.
pub fn read_settings(checkpoint: impl AsRef<Path>) -> Result<Settings, TrainError> {
    let folder = checkpoint.as_ref();
    Manifest::read(folder)?.verify(folder, |file| file == STATE)?;
    Ok(read_json::<TrainState>(&folder.join(STATE))?.settings)
}

/// Checks that the tokenizer files in a checkpoint haven't been changed since the checkpoint was
/// saved. The weights aren't read. If the folder isn't a checkpoint, the function returns `Ok(())`.
///
/// # Errors
///
/// Returns an error if a file of the tokenizer was changed or can't be read. The error contains the
/// path of this file.
pub fn check_tokenizer(checkpoint: impl AsRef<Path>) -> Result<(), TrainError> {
    let folder = checkpoint.as_ref();
    match Manifest::read(folder) {
        Err(TrainError::NoCheckpoint { .. }) => Ok(()),
        manifest => {
            let is_tokenizer = |file: &str| !FILES.contains(&file) && !is_editable(file);
            manifest?.verify(folder, is_tokenizer)
        }
    }
}
