//! `--model`: the model that a subcommand reads.

use std::path::{Path, PathBuf};

use anyhow::Result;
use checkpoint::{load_config, load_model};
use clap::Args;
use gpt::GptModel;

use crate::memory::{Purpose, check_fits};
use crate::output::note;
use crate::runs;
use crate::vocabulary::Vocabulary;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ModelArgs {
    /// Model folder (Hugging Face's layout or the book's), or a run [default: the newest run in runs/]
    #[arg(short = 'm', long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
}

impl ModelArgs {
    /// Finds the model, and reads what it is.
    pub(crate) fn find(&self) -> Result<Found> {
        let (folder, name) = folder(self.model.as_deref())?;
        let vocab_size = load_config(&folder)?.vocab_size;
        Ok(Found {
            asked: self.model.clone(),
            vocabulary: Vocabulary::of_model(&folder, vocab_size)?,
            folder,
            name,
        })
    }
}

/// A model that is there; its weights haven't been read.
pub(crate) struct Found {
    /// What the user named.
    asked: Option<PathBuf>,
    folder: PathBuf,
    pub(crate) name: ModelName,
    pub(crate) vocabulary: Vocabulary,
}

impl Found {
    /// Loads the model; if its run saves meanwhile and deletes this checkpoint, the next one.
    pub(crate) fn load(&self) -> Result<GptModel> {
        let mut from = self.folder.clone();
        loop {
            let failure = match load(&from) {
                Ok(model) => return Ok(model),
                Err(failure) => failure,
            };
            let (now, _) = folder(self.asked.as_deref())?;
            if now == from {
                return Err(failure);
            }
            from = now;
        }
    }
}

/// The folder of the model that was asked for, or of the newest run's.
pub(crate) fn folder(asked: Option<&Path>) -> Result<(PathBuf, ModelName)> {
    match asked {
        Some(path) => Ok((runs::model_folder(path)?, ModelName(None))),
        None => {
            let newest = runs::model_folder(&runs::newest(Path::new(runs::RUNS))?)?;
            Ok((newest.clone(), ModelName(Some(newest))))
        }
    }
}

/// Which model it is that nobody named.
pub(crate) struct ModelName(Option<PathBuf>);

impl ModelName {
    /// Tells it on standard error, unless the user named it.
    pub(crate) fn tell(&self) {
        if let Some(folder) = &self.0 {
            note(&format!("model {}", folder.display()));
        }
    }
}

/// Loads the model in a folder, if it fits the memory.
pub(crate) fn load(folder: &Path) -> Result<GptModel> {
    check_fits(&load_config(folder)?, Purpose::Inference)?;
    Ok(load_model(folder)?)
}
