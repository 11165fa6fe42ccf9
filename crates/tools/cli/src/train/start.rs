//! A new run: its folder, its data, a model that is new or comes from a folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use atomic_file::{create_folder, write_atomically};
use checkpoint::ModelFolder;
use gpt::{GptConfig, GptModel};
use torch_rng::TorchRng;
use train::runs::TOKENIZER;
use train::{RunFolder, Trainer};

use super::flags::{Flags, SCRATCH};
use super::options::TrainOptions;
use super::settings::{Base, Settings, settle};
use super::tokenizer::TokenizerChoice;
use crate::hints::program;
use crate::ranks::World;
use crate::runs::{OPTIONS, OPTIONS_BEGIN, kept_path};
use crate::{model, runs};

/// A run that is ready to train.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) trainer: Trainer,
    /// None on a rank that doesn't save.
    pub(crate) folder: Option<RunFolder>,
    pub(crate) settings: Settings,
}

impl Started {
    /// Shares the run with the other ranks, if there are any.
    pub(crate) fn share(mut self, world: &World) -> Result<Self> {
        if let Some(ranks) = world.ranks() {
            self.trainer = world.common(self.trainer.share(Arc::clone(ranks)))?;
        }
        Ok(self)
    }
}

/// Starts a run from its first step; it is kept in a folder if this process `saves`.
///
/// `options` are what was `said`, before it was known which model they are for.
pub(crate) fn start(said: &Flags, options: &TrainOptions, saves: bool) -> Result<Started> {
    let init_from = match options.model.init_from.as_deref() {
        None => None,
        Some(path) if path == Path::new(SCRATCH) => None,
        Some(path) => Some(kept_path(&weights_to_start_from(path)?)?),
    };
    let base = base(init_from.as_deref())?;
    let options = said.options(base.as_ref().map(|base| &base.model))?;
    let mut options = kept(options)?;
    options.model.init_from = init_from;
    if let (Some(base), Some(choice)) = (&base, &options.model.tokenizer)
        && base.vocabulary.tokenizer().is_ok()
    {
        bail!("--tokenizer {choice}: the model of --init-from has its own tokenizer");
    }
    let out_dir = options.out_dir.clone();
    let settings = settle(options, base)?;
    let folder = saves.then(|| open_folder(out_dir.as_deref())).transpose()?;
    start_in(folder, settings)
}

/// What the model of a run is like that begins with a folder's weights.
pub(crate) fn base(init_from: Option<&Path>) -> Result<Option<Base>> {
    let of = |path| Base::of(*ModelFolder::open(path)?.config(), path);
    init_from.map(of).transpose()
}

/// The options with paths that are the same from another folder.
pub(crate) fn kept(mut options: TrainOptions) -> Result<TrainOptions> {
    let (data, model) = (&mut options.data, &mut options.model);
    data.data = data.data.as_deref().map(kept_path).transpose()?;
    let tokenizer = model.tokenizer.take().map(TokenizerChoice::kept);
    model.tokenizer = tokenizer.transpose()?;
    Ok(options)
}

/// The first step of a run, in a folder that is ours.
pub(crate) fn start_in(folder: Option<RunFolder>, settings: Settings) -> Result<Started> {
    let options = &settings.options;
    let mut rng =
        TorchRng::manual_seed(options.training.seed).with_build(options.training.dropout_build);
    let model = match &options.model.init_from {
        Some(path) => {
            let drop_rates = settings.model.drop_rates;
            model::load(&ModelFolder::open(path)?.with_drop_rates(drop_rates))?
        }
        None => new_model(settings.model, &mut rng)?,
    };
    if *model.config() != settings.model {
        bail!("the model of --init-from is another than a moment ago");
    }
    let trainer = Trainer::new(
        settings.training.clone(),
        model,
        settings.data.train.clone(),
        settings.data.validation.clone(),
        rng,
    )?;
    if let Some(folder) = &folder {
        write_options(folder.path(), options)?;
        let beside = folder.path().join(TOKENIZER);
        create_folder(&beside)?;
        settings.vocabulary.save(&beside)?;
    }
    Ok(Started {
        trainer,
        folder,
        settings,
    })
}

/// The book's model; embeddings that are the head's weights too begin with GPT-2's deviation of
/// 0.02, as with N(0, 1) the first losses are ten times those of a guess.
fn new_model(config: GptConfig, rng: &mut TorchRng) -> Result<GptModel> {
    let mut model = GptModel::new(config, rng)?;
    if config.tied {
        model.tok_emb.weight *= 0.02;
        model.pos_emb.weight *= 0.02;
    }
    Ok(model)
}

/// The folder of a model to start from.
fn weights_to_start_from(path: &Path) -> Result<PathBuf> {
    let name = path.to_string_lossy();
    if !path
        .try_exists()
        .with_context(|| path.display().to_string())?
    {
        let tip = match name.starts_with("gpt2") {
            true => {
                ": nothing is downloaded; a folder with its config.json and model.safetensors works, as transformers' save_pretrained writes it"
            }
            false => ": expected scratch, resume or a model folder",
        };
        bail!("--init-from {name}: no such folder{tip}");
    }
    runs::model_folder(path)
}

/// A new run's folder, which no other run is in.
fn open_folder(out_dir: Option<&Path>) -> Result<RunFolder> {
    let path = match out_dir {
        Some(path) => path.to_owned(),
        None => runs::create(Path::new(runs::RUNS))?,
    };
    runs::refuse_foreign(&path)?;
    let folder = RunFolder::open(&path)?;
    if folder.newest()?.is_some() {
        bail!(
            "{}: there is a run in this folder; `{} train --resume {}` goes on with it, another --out-dir begins anew",
            path.display(),
            program(),
            runs::typed(&path)
        );
    }
    Ok(folder)
}

/// Keeps the options in the run's folder.
pub(crate) fn write_options(folder: &Path, options: &TrainOptions) -> Result<()> {
    let text = format!("{OPTIONS_BEGIN}\n{}", options.to_toml()?);
    create_folder(folder)?;
    write_atomically(folder.join(OPTIONS), |file| file.write_all(text.as_bytes()))?;
    Ok(())
}
