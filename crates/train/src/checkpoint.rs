//! The files of one checkpoint.
//!
//! ```text
//! config.json              the model's configuration  \ together they are a model folder
//! model.safetensors        the weights                / that `checkpoint` loads
//! optimizer.safetensors    the moments, as m.<name> and v.<name>
//! state.json               settings, counters, random state, place in the data, losses
//! tokenizer.json, ...      copies of the run's tokenizer
//! manifest.json            step, validation loss, lengths and hashes of all others; written last
//! ```
//!
//! Which checkpoints a run has, and which is the newest, is in `run_checkpoints.rs`.

use std::path::Path;

use checkpoint::{LazyTensor, WEIGHTS, load_tensors_into, save_compact, save_tensors};
use gpt::GptModel;

use crate::manifest::{FILES, Manifest, OPTIMIZER, STATE, read_json, write_json};
use crate::state::{Settings, TrainState};
use crate::{AdamW, TrainError};

/// Writes these files to a new folder.
pub(crate) fn write(
    folder: &Path,
    model: &GptModel,
    moments: Vec<LazyTensor<'_>>,
    state: &TrainState,
) -> Result<(), TrainError> {
    save_compact(model, folder)?;
    save_tensors(folder.join(OPTIMIZER), moments)?;
    write_json(&folder.join(STATE), state)
}

/// Reads a checkpoint of a run with these settings, and checks all of it: lengths and hashes first,
/// then the contents.
pub(crate) fn read(
    folder: &Path,
    settings: &Settings,
) -> Result<(GptModel, AdamW, TrainState), TrainError> {
    Manifest::read(folder)?.verify(folder, |_| true)?;
    let state: TrainState = read_json(&folder.join(STATE))?;
    state.settings.refuse_others(folder, settings)?;
    let mut model = GptModel::zeros(settings.model)?;
    load_tensors_into(folder.join(WEIGHTS), &mut model, "")?;
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

/// Checks that a checkpoint's copies of its run's tokenizer are unchanged; weights aren't read. A
/// folder that isn't a checkpoint passes.
///
/// # Errors
/// Names the file that is not, and in what.
pub fn check_copies(checkpoint: impl AsRef<Path>) -> Result<(), TrainError> {
    let folder = checkpoint.as_ref();
    match Manifest::read(folder) {
        Err(TrainError::NoCheckpoint { .. }) => Ok(()),
        manifest => manifest?.verify(folder, |file| !FILES.contains(&file)),
    }
}
