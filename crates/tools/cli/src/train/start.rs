//! A run before its first step: a model that is new, comes from a folder, or from the run itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use checkpoint::ModelFolder;
use gpt::GptModel;
use torch_rng::TorchRng;
use train::{RunFolder, TrainError, Trainer};

use super::arguments;
use super::flags::with_flags;
use super::options::TrainOptions;
use super::setup::{BaseModel, Setup};
use crate::model;
use crate::model::ids::shown;

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

/// A new run with these arguments, which state these options.
pub(crate) fn source(words: &[OsString], stated: &TrainOptions) -> Result<Source> {
    let (mut base, mut weights, mut path) = (None, InitialWeights::New, None);
    if let Some(folder) = &stated.init_from {
        if !folder.exists() {
            bail!(
                "--init-from {}: no such folder; models aren't downloaded, so give the path of a local folder with config.json and model.safetensors",
                folder.display()
            );
        }
        let ((model, own), found) = model::read(Some(folder), |path| {
            let model = ModelFolder::open(path)?;
            let own = BaseModel::of(*model.config(), path)?;
            Ok((model, own))
        })?;
        weights = InitialWeights::Of(Box::new(model));
        (base, path) = (Some(own), Some(found));
    }
    let config = base.as_ref().map(|base| &base.config);
    let lower = arguments::of_new_run(config, stated.preset)?;
    let mut options = arguments::read(&[&lower, words])?;
    if let (Some(choice), Some(base)) = (&options.tokenizer, &base)
        && base.vocabulary.tokenizer().is_ok()
    {
        bail!(
            "--tokenizer {choice}: the model of --init-from has its own tokenizer, which can't be replaced; leave this option out"
        );
    }
    options.init_from = path;
    Ok(Source {
        options,
        base,
        weights,
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
                TrainError::OtherRun { name, .. } if is_of_data(&name) => anyhow!(
                    "{}: this isn't the data that the run was started with ({}); use the original data, or start a new run",
                    setup.data,
                    began_with.map_or("the story".to_owned(), |path| shown(path).display().to_string())
                ),
                error => with_flags(error),
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
    Trainer::new(training, model, train, validation, rng).map_err(with_flags)
}

/// True for a value of the data, whose windows are settings.
fn is_of_data(name: &str) -> bool {
    name.contains("_data") && (name.ends_with(".tokens") || name.ends_with(".sha256"))
}
