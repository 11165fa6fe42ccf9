//! A run before its first step: a model that is new, comes from a folder, or from the run itself.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use checkpoint::ModelFolder;
use gpt::GptModel;
use toml::{Table, Value};
use torch_rng::TorchRng;
use train::{RunFolder, TrainError, Trainer};

use super::options::TrainOptions;
use super::setup::{BaseModel, Setup};
use crate::model;

/// What a run starts from.
pub(crate) struct Source {
    pub(crate) options: TrainOptions,
    /// The base model.
    pub(crate) base: Option<BaseModel>,
    pub(crate) weights: InitialWeights,
    /// The folder of a run that is resumed, on the rank that saves.
    pub(crate) folder: Option<RunFolder>,
    /// The data that a resumed run began with; none for the story.
    pub(crate) began_with: Option<PathBuf>,
}

/// The initial weights of a run.
pub(crate) enum InitialWeights {
    New,
    Of(Box<ModelFolder>),
    Checkpoint(PathBuf),
}

/// A new run with these options.
pub(crate) fn source(parsed: &Table) -> Result<Source> {
    let Some(name) = parsed.get("init_from").and_then(Value::as_str) else {
        return Ok(Source {
            options: TrainOptions::new(parsed, None)?,
            base: None,
            weights: InitialWeights::New,
            folder: None,
            began_with: None,
        });
    };
    if !Path::new(name).exists() {
        bail!(
            "--init-from {name}: no such folder; models are not downloaded: name a local folder with config.json and model.safetensors"
        );
    }
    let ((weights, base), path) = model::read(Some(Path::new(name)), |path| {
        let weights = ModelFolder::open(path)?;
        let base = BaseModel::of(*weights.config(), path)?;
        Ok((weights, base))
    })?;
    let mut options = TrainOptions::new(parsed, Some(&base.config))?;
    if let Some(choice) = &options.tokenizer
        && base.vocabulary.tokenizer().is_ok()
    {
        bail!("--tokenizer {choice}: the model of --init-from has its own tokenizer");
    }
    options.init_from = Some(path);
    Ok(Source {
        options,
        base: Some(base),
        weights: InitialWeights::Of(Box::new(weights)),
        folder: None,
        began_with: None,
    })
}

/// A run before its first step, or at its checkpoint.
pub(crate) fn trainer(
    setup: &Setup,
    weights: InitialWeights,
    began_with: Option<&Path>,
) -> Result<Trainer> {
    let (options, training, model) = (&setup.options, setup.training, setup.model);
    let (train, validation) = (setup.train.clone(), setup.validation.clone());
    let build = options.dropout_build.unwrap_or_default();
    let mut rng = TorchRng::manual_seed(options.seed.cast_unsigned()).with_build(build);
    let model = match weights {
        InitialWeights::Checkpoint(path) => {
            let resumed = Trainer::resume(path, training, model, train, validation);
            return resumed.map_err(|error| match error {
                TrainError::OtherRun { name, .. } if name.contains("_data") => anyhow!(
                    "{}: differs from the data that this run began with ({}); resume with that, or start a new run",
                    setup.data,
                    began_with.map_or("the story".to_owned(), |path| path.display().to_string())
                ),
                error => error.into(),
            });
        }
        InitialWeights::Of(folder) => model::load(&folder.with_drop_rates(model.drop_rates))?,
        InitialWeights::New => {
            let mut model = GptModel::new(model, &mut rng)?;
            // Embeddings that are also the head's weights begin with GPT-2's deviation of 0.02,
            // because with N(0, 1) the first losses are ten times a guess's.
            if model.config().tied {
                model.tok_emb.weight *= 0.02;
                model.pos_emb.weight *= 0.02;
            }
            model
        }
    };
    Ok(Trainer::new(training, model, train, validation, rng)?)
}
