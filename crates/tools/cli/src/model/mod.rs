//! `--model`: the model that a subcommand reads.

pub(crate) mod ids;
pub(crate) mod sidecar_files;
pub(crate) mod vocabulary;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use checkpoint::ModelFolder;
use clap::Args;
use generate::{DecoderWeights, Dtype, weight_bytes};
use gpt::{GptConfig, GptModel, Memory};

use crate::model::ids::Input;
use crate::model::vocabulary::Vocabulary;
use crate::terminal::memory::check_model;
use crate::terminal::output::note;
use crate::train::runs;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ModelArgs {
    /// The folder of a model (in Hugging Face's or the book's layout) or of a training run
    /// [default: the newest run in runs/]
    #[arg(short = 'm', long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
}

impl ModelArgs {
    /// Finds the model, and reads its description.
    pub(crate) fn find(&self) -> Result<FoundModel> {
        find(self.model.as_deref())
    }
}

/// Finds the requested model, or the newest run, and reads its description.
pub(crate) fn find(asked: Option<&Path>) -> Result<FoundModel> {
    let ((model, vocabulary), folder) = read(asked, |folder| {
        let model = ModelFolder::open(folder)?;
        let vocabulary = Vocabulary::of_model(folder, model.config().vocab_size)?;
        Ok((model, vocabulary))
    })?;
    Ok(FoundModel {
        asked: asked.map(Path::to_owned),
        folder,
        model,
        vocabulary,
    })
}

/// A model that was found; its weights haven't been read.
pub(crate) struct FoundModel {
    asked: Option<PathBuf>,
    /// Its folder.
    pub(crate) folder: PathBuf,
    pub(crate) vocabulary: Vocabulary,
    /// Open, so that it can be loaded even if its run has deleted this checkpoint since.
    model: ModelFolder,
}

impl FoundModel {
    /// The model's configuration.
    pub(crate) fn config(&self) -> &GptConfig {
        self.model.config()
    }

    /// Prints the folder on standard error, unless the user named it.
    pub(crate) fn note(&self) {
        note_folder(self.asked.as_deref(), &self.folder);
    }

    /// The ids of a prompt for a context with room for so many tokens, all of which the model has;
    /// of a longer file of ids none is read.
    ///
    /// # Errors
    /// Reports their number and a fix, or names the first that the model lacks.
    pub(crate) fn prompt(&self, input: Input, room: usize, help: &str) -> Result<Vec<u32>> {
        let ids = self.vocabulary.corpus(&input)?;
        if ids.len() > room {
            let tokens = ids.len();
            bail!("the prompt has {tokens} tokens, but the context holds only {room}{help}");
        }
        self.vocabulary.check_ids(&ids, self.config().vocab_size)?;
        Ok(ids.read(..)?.into_owned())
    }

    /// Loads the model.
    pub(crate) fn load(&self) -> Result<GptModel> {
        load(&self.model)
    }

    /// Loads the model for decoding, which needs the memory `beside` the weights. The weights are
    /// rounded during reading.
    pub(crate) fn weights(&self, dtype: Dtype, beside: &Memory) -> Result<DecoderWeights> {
        let bytes = weight_bytes(dtype, self.config());
        let mut needed = Memory::new().with("weights", &[bytes])?;
        for &(name, bytes) in beside.parts() {
            needed = needed.with(name, &[usize::try_from(bytes).unwrap_or(usize::MAX)])?;
        }
        begin_loading(&self.model, &needed)?;
        if dtype == Dtype::Float32 {
            return Ok(self.model.load()?.into());
        }
        DecoderWeights::read(self.model.config(), dtype, |name, rows, out| {
            Ok(self.model.read_rows(name, rows, out)?)
        })
    }
}

/// Reads something from the requested model, or from the newest run, and returns the folder, too.
/// If a saving run deletes this checkpoint meanwhile, reads from the next one.
pub(crate) fn read<T>(
    asked: Option<&Path>,
    read: impl Fn(&Path) -> Result<T>,
) -> Result<(T, PathBuf)> {
    let path = match asked {
        Some(path) => path.to_owned(),
        None => runs::newest(Path::new(runs::RUNS))?,
    };
    loop {
        let folder = runs::model_folder(&path)?;
        let result = runs::check(&folder).and_then(|()| read(&folder));
        if folder.exists() || runs::model_folder(&path)? == folder {
            return Ok((result?, folder));
        }
    }
}

/// Prints the folder that was found on standard error, unless the user named it.
pub(crate) fn note_folder(asked: Option<&Path>, folder: &Path) {
    if asked != Some(folder) {
        note(&format!("using the model {}", folder.display()));
    }
}

/// Loads a model, if it fits the memory, and prints the notes on it.
pub(crate) fn load(model: &ModelFolder) -> Result<GptModel> {
    begin_loading(model, &model.config().weights_memory()?)?;
    Ok(model.load()?)
}

/// Prints the note on a model, and refuses to load it if the memory has no room for it.
fn begin_loading(model: &ModelFolder, needed: &Memory) -> Result<()> {
    model.note().into_iter().for_each(note);
    check_model(model.config(), needed)
}
