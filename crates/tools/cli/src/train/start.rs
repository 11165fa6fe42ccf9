//! A new run: its folder, its data, a model that is new or comes from a folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use atomic_file::{create_folder, write_atomically};
use checkpoint::ModelFolder;
use gpt::{GptConfig, GptModel};
use toml::Table;
use torch_rng::TorchRng;
use train::runs::TOKENIZER;
use train::{RunFolder, Trainer};

use super::data::is_there;
use super::options::TrainOptions;
use super::setup::{BaseModel, Setup, set_up};
use crate::hints::program;
use crate::ranks::World;
use crate::runs::{LOG, MODEL, OPTIONS, OPTIONS_BEGIN};
use crate::{model, runs};

/// A run that is ready to train.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) trainer: Trainer,
    /// None on a rank that doesn't save.
    pub(crate) folder: Option<RunFolder>,
    pub(crate) setup: Setup,
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

/// Returns what a new run trains, and on what.
pub(crate) fn set_up_new(said: &Table) -> Result<Setup> {
    let init_from = said.get("init_from").and_then(toml::Value::as_str);
    let folder = init_from.map(weights_to_start_from).transpose()?;
    let base = folder.map(|folder| {
        let config = *ModelFolder::open(&folder)?.config();
        anyhow::Ok((BaseModel::of(config, &folder)?, folder))
    });
    let (base, folder) = base.transpose()?.unzip();
    let mut options = TrainOptions::new(said, base.as_ref().map(|base| &base.config))?;
    options.init_from = folder;
    if let (Some(base), Some(choice)) = (&base, &options.tokenizer)
        && base.vocabulary.tokenizer().is_ok()
    {
        bail!("--tokenizer {choice}: the model of --init-from has its own tokenizer");
    }
    set_up(options, base)
}

/// Starts a run from its first step; it is kept in a folder if this process `saves`.
pub(crate) fn start(setup: Setup, out_dir: Option<&Path>, saves: bool) -> Result<Started> {
    let folder = saves.then(|| open_folder(out_dir)).transpose()?;
    let options = &setup.options;
    let build = options.dropout_build.unwrap_or_default();
    let mut rng = TorchRng::manual_seed(options.seed.cast_unsigned()).with_build(build);
    let model = match &options.init_from {
        Some(path) => {
            let drop_rates = setup.model.drop_rates;
            model::load(&ModelFolder::open(path)?.with_drop_rates(drop_rates))?
        }
        None => new_model(setup.model, &mut rng)?,
    };
    if *model.config() != setup.model {
        bail!("the model of --init-from is another than a moment ago");
    }
    let trainer = Trainer::new(
        setup.training.clone(),
        model,
        setup.data.train.clone(),
        setup.data.validation.clone(),
        rng,
    )?;
    if let Some(folder) = &folder {
        write_options(folder.path(), options)?;
        let beside = folder.path().join(TOKENIZER);
        create_folder(&beside)?;
        setup.vocabulary.save(&beside)?;
    }
    Ok(Started {
        trainer,
        folder,
        setup,
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
fn weights_to_start_from(name: &str) -> Result<PathBuf> {
    if !is_there(Path::new(name))? {
        let tip = match Path::new(name)
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("gpt2"))
        {
            true => {
                ": nothing is downloaded; a folder with its config.json and model.safetensors works, as transformers' save_pretrained writes it"
            }
            false => "",
        };
        bail!("--init-from {name}: no such folder{tip}");
    }
    runs::model_folder(Path::new(name))
}

/// A new run's folder, which no other run is in or has left anything of.
fn open_folder(out_dir: Option<&Path>) -> Result<RunFolder> {
    let path = match out_dir {
        Some(path) => path.to_owned(),
        None => runs::create(Path::new(runs::RUNS))?,
    };
    runs::refuse_foreign(&path)?;
    let folder = RunFolder::open(&path)?;
    let (name, typed) = (path.display(), runs::typed(&path));
    if folder.newest()?.is_some() {
        bail!(
            "{name}: there is a run in this folder; `{} train --resume {typed}` goes on with it, another --out-dir begins anew",
            program()
        );
    }
    for left in [LOG, MODEL] {
        if is_there(&path.join(left))? {
            bail!(
                "{name}: {left} of a run without checkpoints is in this folder, expected a new or empty one; with its checkpoints back in place `{} train --resume {typed}` goes on with it",
                program()
            );
        }
    }
    Ok(folder)
}

/// Keeps the options in the run's folder.
pub(crate) fn write_options(folder: &Path, options: &TrainOptions) -> Result<()> {
    let text = format!("{OPTIONS_BEGIN}\n{}", toml::to_string(options)?);
    write_atomically(folder.join(OPTIONS), |file| file.write_all(text.as_bytes()))?;
    Ok(())
}
