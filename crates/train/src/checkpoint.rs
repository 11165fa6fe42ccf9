//! Reading and writing the files of a checkpoint. A checkpoint is a model folder in Hugging Face's
//! layout that also contains three files with the state of the training run.
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
//! Hugging Face's transformers and llama.cpp's converter can load a checkpoint, because they ignore
//! optimizer.safetensors, state.json and manifest.json. manifest.json is written after all other
//! files. The functions in `run_checkpoints.rs` find the checkpoints of a run by reading their
//! manifests.

use std::path::Path;

use checkpoint::{
    CONFIG, Dtype, LazyTensor, ModelFolder, SpecialTokens, load_tensors_into, save_hugging_face,
    save_tensors,
};
use gpt::GptModel;

use crate::manifest::{FILES, Manifest, OPTIMIZER, STATE, is_editable, read_json, write_json};
use crate::state::{Settings, TrainState};
use crate::{AdamW, TrainError};

/// Writes all files of a checkpoint to a new folder, except for the files of the tokenizer and the
/// manifest.
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

/// Loads the model, the optimizer and the training state from a checkpoint. Checks that the
/// checkpoint was saved by a run with the given settings, and that the lengths and hashes of its
/// files match the manifest. Files that users may edit aren't checked.
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

/// Reads the settings with which a checkpoint was saved. A program can use them to create matching
/// data loaders before it resumes the run.
///
/// # Errors
///
/// Returns an error if the folder isn't a checkpoint, if one of the checkpoint's files is missing
/// or has the wrong length, or if its state.json can't be read or was changed after it had been
/// saved.
pub fn read_settings(checkpoint: impl AsRef<Path>) -> Result<Settings, TrainError> {
    let folder = checkpoint.as_ref();
    Manifest::read(folder)?.verify(folder, |file| file == STATE)?;
    Ok(read_json::<TrainState>(&folder.join(STATE))?.settings)
}

/// Checks that the tokenizer files in a checkpoint haven't been changed since the checkpoint was
/// saved. This check is fast, because it doesn't read the weights. Returns `Ok(())` if the folder
/// isn't a checkpoint.
///
/// # Errors
///
/// Returns an error that contains the path of the file if a tokenizer file was changed or can't be
/// read. Also returns an error if the manifest isn't valid, or if a file that the manifest lists is
/// missing or has the wrong length.
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
