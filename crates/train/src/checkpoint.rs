//! The files of one checkpoint: a model folder in Hugging Face's layout, and the rest of the run.
//!
//! ```text
//! config.json, generation_config.json   the model's configuration
//! model.safetensors                     the weights
//! tokenizer.json, ...                   the tokenizer
//! optimizer.safetensors                 the moments, as m.<name> and v.<name>
//! state.json                            settings, counters, random state, place in the data
//! manifest.json                         run, step, validation loss, and the length and hash of
//!                                       each other file; written last
//! ```
//!
//! transformers and llama.cpp's converter load the folder and ignore the last three files.
//! Which checkpoints a run has, and which is the newest, is in `run_checkpoints.rs`.

use std::path::Path;

use checkpoint::{
    CONFIG, Dtype, LazyTensor, ModelFolder, SpecialTokens, load_tensors_into, save_hugging_face,
    save_tensors,
};
use gpt::GptModel;

use crate::manifest::{FILES, Manifest, OPTIMIZER, STATE, is_editable, read_json, write_json};
use crate::state::{Settings, TrainState};
use crate::{AdamW, TrainError};

/// Writes all of these files except the tokenizer and the manifest to a new folder.
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

/// Reads a checkpoint of a run with these settings, and checks all of it: lengths and hashes first,
/// then the contents.
pub(crate) fn read(
    folder: &Path,
    settings: &Settings,
) -> Result<(GptModel, AdamW, TrainState), TrainError> {
    Manifest::read(folder)?.verify(folder, |file| !is_editable(file))?;
    let state: TrainState = read_json(&folder.join(STATE))?;
    state.settings.refuse_others(folder, settings)?;
    let source = ModelFolder::open(folder)?;
    if *source.config() != settings.model {
        let problem = "it describes another model than state.json";
        return Err(TrainError::damaged(folder.join(CONFIG), problem));
    }
    let model = source.load()?;
    let mut optimizer = AdamW::new(settings.config.optimizer, &model)?;
    optimizer.steps = state.steps_done();
    load_tensors_into(folder.join(OPTIMIZER), &mut optimizer, "")?;
    Ok((model, optimizer, state))
}

/// Reads the settings of a checkpoint, which a run needs to make its loaders before it resumes.
///
/// # Errors
/// If there is no checkpoint, or its state can't be read or was changed.
pub fn read_settings(checkpoint: impl AsRef<Path>) -> Result<Settings, TrainError> {
    let folder = checkpoint.as_ref();
    Manifest::read(folder)?.verify(folder, |file| file == STATE)?;
    Ok(read_json::<TrainState>(&folder.join(STATE))?.settings)
}

/// Checks that the tokenizer in a checkpoint is the one that was saved with it; weights aren't
/// read. A folder that isn't a checkpoint passes.
///
/// # Errors
/// Names the file that was changed.
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
