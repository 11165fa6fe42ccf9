//! A new run: a model that is new or comes from a folder, and a folder to keep it in.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use atomic_file::{create_folder, write_atomically};
use checkpoint::ModelFolder;
use gpt::GptModel;
use toml::{Table, Value};
use torch_rng::TorchRng;
use train::runs::{CHECKPOINTS, LOCK, TOKENIZER};
use train::{RunFolder, Trainer};

use super::options::TrainOptions;
use super::setup::{BaseModel, Setup};
use crate::hints::program;
use crate::runs::{OPTIONS, OPTIONS_BEGIN, names};
use crate::{model, runs};

/// A run as it was asked for.
pub(crate) struct Origin {
    pub(crate) options: TrainOptions,
    /// The model that it goes on from.
    pub(crate) base: Option<BaseModel>,
    pub(crate) weights: Weights,
    /// The folder of a run that is resumed, on the rank that saves.
    pub(crate) folder: Option<RunFolder>,
}

/// The weights that a run begins or goes on with.
pub(crate) enum Weights {
    New,
    Of(ModelFolder),
    Checkpoint(PathBuf),
}

/// A new run with these options.
pub(crate) fn origin(said: &Table) -> Result<Origin> {
    let Some(name) = said.get("init_from").and_then(Value::as_str) else {
        return Ok(Origin {
            options: TrainOptions::new(said, None)?,
            base: None,
            weights: Weights::New,
            folder: None,
        });
    };
    if !Path::new(name).exists() {
        bail!(
            "--init-from {name}: no such folder (nothing is downloaded: it takes one with config.json and model.safetensors)"
        );
    }
    let path = runs::model_folder(Path::new(name))?;
    let weights = ModelFolder::open(&path)?;
    let base = BaseModel::of(*weights.config(), &path)?;
    let mut options = TrainOptions::new(said, Some(&base.config))?;
    if let Some(choice) = &options.tokenizer
        && base.vocabulary.tokenizer().is_ok()
    {
        bail!("--tokenizer {choice}: the model of --init-from has its own tokenizer");
    }
    options.init_from = Some(path);
    Ok(Origin {
        options,
        base: Some(base),
        weights: Weights::Of(weights),
        folder: None,
    })
}

/// A run before its first step, or as it was at its checkpoint.
pub(crate) fn trainer(setup: &Setup, weights: Weights) -> Result<Trainer> {
    let (options, training, model) = (&setup.options, setup.training.clone(), setup.model);
    let (train, validation) = (setup.train.clone(), setup.validation.clone());
    let build = options.dropout_build.unwrap_or_default();
    let mut rng = TorchRng::manual_seed(options.seed.cast_unsigned()).with_build(build);
    let model = match weights {
        Weights::Checkpoint(path) => {
            return Ok(Trainer::resume(path, training, model, train, validation)?);
        }
        Weights::Of(folder) => model::load(&folder.with_drop_rates(model.drop_rates))?,
        Weights::New => {
            let mut model = GptModel::new(model, &mut rng)?;
            // Embeddings that are the head's weights too begin with GPT-2's deviation of 0.02, as
            // with N(0, 1) the first losses are ten times those of a guess.
            if model.config().tied {
                model.tok_emb.weight *= 0.02;
                model.pos_emb.weight *= 0.02;
            }
            model
        }
    };
    Ok(Trainer::new(training, model, train, validation, rng)?)
}

/// A new run's folder.
pub(crate) fn open_folder(out_dir: Option<&Path>) -> Result<RunFolder> {
    let path = match out_dir {
        Some(path) => path.to_owned(),
        None => runs::create(Path::new(runs::RUNS))?,
    };
    refuse_full(&path)?;
    let folder = RunFolder::open(&path)?;
    refuse_full(&path)?; // another run may have ended meanwhile
    Ok(folder)
}

/// Checks that nothing is in a folder, or what is there before a run keeps anything.
fn refuse_full(folder: &Path) -> Result<()> {
    let mut inside = names(folder)?;
    if names(&folder.join(CHECKPOINTS))?.is_empty() {
        inside.retain(|name| name != CHECKPOINTS);
    }
    let Some(found) = inside.iter().find(|name| *name != LOCK) else {
        return Ok(());
    };
    bail!(
        "{}: expected a new or empty folder, but {found:?} is in it; if it is a run's, `{} train --resume {}` goes on with that",
        folder.display(),
        program(),
        runs::typed(folder)
    )
}

/// Keeps a run's options and its tokenizer, which each checkpoint gets, in its folder.
pub(crate) fn keep(folder: &RunFolder, setup: &Setup) -> Result<()> {
    let path = folder.path();
    let text = format!("{OPTIONS_BEGIN}\n{}", toml::to_string(&setup.options)?);
    write_atomically(path.join(OPTIONS), |file| file.write_all(text.as_bytes()))?;
    let tokenizer = path.join(TOKENIZER);
    create_folder(&tokenizer)?;
    setup.vocabulary.save(&tokenizer)
}
