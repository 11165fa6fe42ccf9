//! `--model`: the model that a subcommand reads, and texts of ids that may be another tokenizer's.

use std::path::{Path, PathBuf};

use anyhow::Result;
use checkpoint::{load_config, load_model};
use clap::Args;
use gpt::GptModel;
use tokenizer::Gpt2Tokenizer;

use crate::memory::{Purpose, check_fits};
use crate::runs;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ModelArgs {
    /// Model folder (Hugging Face's layout or the book's), or a run [default: the newest run in runs/]
    #[arg(short = 'm', long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
}

impl ModelArgs {
    /// The folder that is meant.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        match &self.model {
            Some(path) => runs::model_folder(path),
            None => runs::model_folder(&runs::newest(Path::new(runs::RUNS))?),
        }
    }

    /// Loads the model; if its run saves meanwhile and deletes this checkpoint, the next one.
    pub(crate) fn load(&self) -> Result<GptModel> {
        let mut folder = self.folder()?;
        loop {
            let failure = match load(&folder) {
                Ok(model) => return Ok(model),
                Err(failure) => failure,
            };
            let now = self.folder()?;
            if now == folder {
                return Err(failure);
            }
            folder = now;
        }
    }
}

/// Loads the model in a folder, if it fits the memory.
pub(crate) fn load(folder: &Path) -> Result<GptModel> {
    check_fits(&load_config(folder)?, Purpose::Inference)?;
    Ok(load_model(folder)?)
}

/// Whether a model of this vocabulary can have been trained on GPT-2's tokens.
pub(crate) fn is_gpt2_vocabulary(vocab_size: usize) -> bool {
    vocab_size >= Gpt2Tokenizer::new().vocab_size()
}

/// The text of ids; of a model with another vocabulary the ids themselves.
pub(crate) fn text_of(ids: &[u32], vocab_size: usize) -> String {
    if is_gpt2_vocabulary(vocab_size)
        && let Ok(text) = Gpt2Tokenizer::new().decode_lossy(ids)
    {
        return text;
    }
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    ids.join(" ")
}
