//! Finds and loads the model that a command uses. This is the model that `--model` specifies or, by
//! default, the model of the newest training run.

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
    /// Finds the model, and reads its configuration and its tokenizer.
    pub(crate) fn find(&self) -> Result<FoundModel> {
        find(self.model.as_deref())
    }
}

/// Finds the requested model or, if none is requested, the model of the newest training run. Reads
/// the model's configuration and tokenizer, but not its weights.
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

/// A model whose configuration and tokenizer have been read, but whose weights haven't been loaded
/// yet.
pub(crate) struct FoundModel {
    asked: Option<PathBuf>,
    /// Folder of the model.
    pub(crate) folder: PathBuf,
    pub(crate) vocabulary: Vocabulary,
    /// Folder of the model, whose files are kept open. If the model is a checkpoint that a training
    /// run deletes in the meantime, its weights can therefore still be loaded.
    model: ModelFolder,
}

impl FoundModel {
    /// Returns the model's configuration.
    pub(crate) fn config(&self) -> GptConfig {
        self.model.config()
    }

    /// Tells the user which model is used: prints the path of the model's folder to standard error,
    /// unless it is the path that the user specified.
    pub(crate) fn note(&self) {
        note_folder(self.asked.as_deref(), &self.folder);
    }

    /// Returns the token IDs of a prompt, which may contain at most `room` tokens. If the prompt is
    /// a file of token IDs with more than `room` IDs, the file is rejected without loading the IDs.
    ///
    /// # Errors
    /// Returns an error if the prompt has more than `room` tokens, or if it contains a token that
    /// isn't in the model's vocabulary. `help`, which tells the user how to shorten a prompt, is
    /// appended to the first of these messages.
    pub(crate) fn prompt(&self, input: Input, room: usize, help: &str) -> Result<Vec<u32>> {
        let ids = self.vocabulary.corpus(&input)?;
        if ids.len() > room {
            let tokens = ids.len();
            bail!(
                "the prompt has {tokens} tokens, but the context has room for only {room}; {help}"
            );
        }
        self.vocabulary.check_ids(&ids, self.config().vocab_size)?;
        Ok(ids.read(..)?.into_owned())
    }

    /// Loads the model.
    pub(crate) fn load(&self) -> Result<GptModel> {
        load(&self.model)
    }

    /// Loads the weights for decoding, and rounds them to `dtype` as they are read. `beside` is the
    /// memory that decoding needs in addition to the weights. Returns an error if there isn't
    /// enough memory for both.
    pub(crate) fn weights(&self, dtype: Dtype, beside: &Memory) -> Result<DecoderWeights> {
        let bytes = weight_bytes(dtype, &self.config());
        let mut needed = Memory::new().with("weights", &[bytes])?;
        for &(name, bytes) in beside.parts() {
            needed = needed.with(name, &[usize::try_from(bytes).unwrap_or(usize::MAX)])?;
        }
        begin_loading(&self.model, &needed)?;
        DecoderWeights::read(&self.model.config(), dtype, |name, rows, out| {
            Ok(self.model.read_rows(name, rows, out)?)
        })
    }
}

/// Calls `read` with the folder of a model: the requested model or, if none is requested, the model
/// of the newest training run. Returns the result of `read` and the path of the folder.
///
/// If a training run is in progress, it may replace its checkpoint with a newer one and delete the
/// old one while `read` is using it. In that case, `read` is called again with the newer
/// checkpoint.
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

/// Tells the user which model is used: prints the path of its folder to standard error, unless it
/// is equal to `asked`, the path that the user specified.
pub(crate) fn note_folder(asked: Option<&Path>, folder: &Path) {
    if asked != Some(folder) {
        note(&format!("using the model {}", folder.display()));
    }
}

/// Loads a model. Prints a note if the model's files contain unused tensors or lack biases. Returns
/// an error if there isn't enough memory for the model.
pub(crate) fn load(model: &ModelFolder) -> Result<GptModel> {
    begin_loading(model, &model.config().weights_memory()?)?;
    Ok(model.load()?)
}

/// Checks that a model can be loaded. Prints a note if the model's files contain unused tensors or
/// lack biases. Returns an error if the configuration is invalid, or if there is less free memory
/// than `needed`.
fn begin_loading(model: &ModelFolder, needed: &Memory) -> Result<()> {
    model.note().into_iter().for_each(note);
    check_model(&model.config(), needed)
}
