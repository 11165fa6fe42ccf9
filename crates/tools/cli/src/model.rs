//! `--model`: the model that a subcommand reads.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use checkpoint::ModelFolder;
use clap::Args;
use gpt::GptModel;

use crate::ids::Given;
use crate::memory::check_model;
use crate::output::note;
use crate::runs;
use crate::vocabulary::Vocabulary;
use crate::working::Working;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ModelArgs {
    /// Model folder (Hugging Face's layout or the book's), or a run [default: the newest run in
    /// runs/]
    #[arg(short = 'm', long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
}

impl ModelArgs {
    /// Finds the model, and reads what it is.
    pub(crate) fn find(&self) -> Result<Found> {
        find(self.model.as_deref())
    }
}

/// Finds the model at `path`, or the newest run, and reads what it is.
pub(crate) fn find(path: Option<&Path>) -> Result<Found> {
    let asked = asked(path)?;
    let ((model, vocabulary), folder) = read(&asked, |folder| {
        let model = ModelFolder::open(folder)?;
        let vocabulary = Vocabulary::of_model(folder, model.config().vocab_size)?;
        Ok((model, vocabulary))
    })?;
    let is_told = path.is_none() || (folder != asked && runs::newer_than(&folder).is_some());
    Ok(Found {
        name: ModelName(is_told.then(|| folder.clone())),
        folder,
        model,
        vocabulary,
    })
}

/// A model that is there; its weights haven't been read.
pub(crate) struct Found {
    pub(crate) name: ModelName,
    /// Where it is.
    pub(crate) folder: PathBuf,
    pub(crate) vocabulary: Vocabulary,
    /// Open, so that it can be loaded even if its run has deleted this checkpoint since.
    model: ModelFolder,
}

impl Found {
    /// The ids of what was given, all of which the model has.
    ///
    /// # Errors
    /// Names the first that it hasn't, as the tokenizer writes it.
    pub(crate) fn ids(&self, given: Given) -> Result<Vec<u32>> {
        let working = Working::on("encoding", 0);
        let ids = self.vocabulary.ids(given)?;
        drop(working);
        let tokens = self.model.config().vocab_size;
        if let (Some(&id), Ok(tokenizer)) = (
            ids.iter().find(|&&id| id as usize >= tokens),
            self.vocabulary.tokenizer(),
        ) && let Some(piece) = tokenizer.piece(id)
        {
            let (piece, more) = (String::from_utf8_lossy(piece), tokenizer.vocab_size());
            bail!(
                "the token {piece:?} has id {id}, which the model's {tokens} rows of embeddings don't have: the tokenizer has {more} tokens"
            );
        }
        Ok(ids)
    }

    /// Loads the model.
    pub(crate) fn load(&self) -> Result<GptModel> {
        load(&self.model)
    }
}

/// The model that was asked for, or the newest run.
pub(crate) fn asked(path: Option<&Path>) -> Result<PathBuf> {
    match path {
        Some(path) => Ok(path.to_owned()),
        None => runs::newest(Path::new(runs::RUNS)),
    }
}

/// Reads something of the model at `path`, and says from which folder; if that is a run which saves
/// meanwhile and deletes this checkpoint, from the next one.
pub(crate) fn read<T>(path: &Path, read: impl Fn(&Path) -> Result<T>) -> Result<(T, PathBuf)> {
    loop {
        let folder = runs::model_folder(path)?;
        let result = runs::check(&folder).and_then(|()| read(&folder));
        if folder.exists() || runs::model_folder(path)? == folder {
            return Ok((result?, folder));
        }
    }
}

/// Which model it is that nobody named, or of a run that was named the best and not the last.
pub(crate) struct ModelName(pub(crate) Option<PathBuf>);

impl ModelName {
    /// Tells it on standard error, unless the user named it.
    pub(crate) fn tell(&self) {
        if let Some(folder) = &self.0 {
            let newer = runs::newer_than(folder).map(|newest| {
                let newest = newest.display();
                format!(", the best of its run by validation loss; the last is {newest}")
            });
            note(&format!(
                "model {}{}",
                folder.display(),
                newer.unwrap_or_default()
            ));
        }
    }
}

/// Loads a model, if it fits the memory, and tells what its reader should know.
pub(crate) fn load(model: &ModelFolder) -> Result<GptModel> {
    model.notes().iter().for_each(|line| note(line));
    let config = model.config();
    check_model(config, &config.weights_memory()?)?;
    let _working = Working::on("loading the model", 0);
    Ok(model.load()?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gpt::GptConfig;
    use torch_rng::TorchRng;

    use super::*;

    #[test]
    fn a_model_is_read_while_its_run_saves_and_deletes() {
        let config = GptConfig {
            vocab_size: 61,
            context_length: 4,
            emb_dim: 4,
            n_heads: 1,
            n_layers: 1,
            ..GptConfig::GPT2_124M
        };
        let model = GptModel::new(config, &mut TorchRng::manual_seed(123)).unwrap();
        let run = tempfile::tempdir().unwrap();
        let step = |step: u32| run.path().join(format!("checkpoints/step-{step:08}"));
        checkpoint::save_book(&model, step(0)).unwrap();
        let mut files = Vec::new();
        for file in [
            "optimizer.safetensors",
            "state.json",
            "model.safetensors",
            "config.json",
        ] {
            let path = step(0).join(file);
            if !path.exists() {
                fs::write(&path, "").unwrap(); // nobody reads it
            }
            let bytes = fs::metadata(path).unwrap().len();
            files.push(format!(r#""{file}": {{"bytes": {bytes}, "sha256": ""}}"#));
        }
        let manifest = format!(r#"{{"version": 1, "files": {{{}}}}}"#, files.join(", "));
        fs::write(step(0).join("manifest.json"), manifest).unwrap();
        // As a save does: a complete folder, then its name, then the old one hidden and deleted.
        let save = |new: u32| {
            let staged = run.path().join("staged");
            fs::create_dir(&staged).unwrap();
            for entry in fs::read_dir(step(new - 1)).unwrap() {
                let file = entry.unwrap().path();
                fs::copy(&file, staged.join(file.file_name().unwrap())).unwrap();
            }
            fs::rename(staged, step(new)).unwrap();
            let next = run.path().join("next");
            fs::write(&next, format!(r#"{{"checkpoints": ["step-{new:08}"]}}"#)).unwrap();
            fs::rename(next, run.path().join("latest.json")).unwrap();
            let hidden = run.path().join("hidden");
            fs::rename(step(new - 1), &hidden).unwrap();
            fs::remove_dir_all(hidden).unwrap();
        };
        save(1);
        std::thread::scope(|scope| {
            let saver = scope.spawn(|| (2..300).for_each(save));
            while !saver.is_finished() {
                find(Some(run.path())).unwrap().load().unwrap();
            }
        });
    }
}
