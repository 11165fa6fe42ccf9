//! Creates the trainer of a training run. Its model is new, is loaded from a folder for
//! fine-tuning, or is loaded from the checkpoint of a resumed run.

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

/// The options and the weights with which a training run starts.
pub(crate) struct Source {
    pub(crate) options: TrainOptions,
    /// Base model, or `None` if the model is new.
    pub(crate) base: Option<BaseModel>,
    pub(crate) weights: InitialWeights,
    /// Folder of a resumed run, which this process has locked, so that no other process can train
    /// in it. It is `None` for a new run, whose folder is created later. It is also `None` on all
    /// MPI ranks except the first, because only the first rank saves checkpoints.
    pub(crate) folder: Option<RunFolder>,
    /// Path of the training data when a resumed run was originally started. It is `None` for a new
    /// run, and also for a run that was started with the default story.
    pub(crate) began_with: Option<PathBuf>,
}

/// The weights with which a run begins.
pub(crate) enum InitialWeights {
    New,
    Of(Box<ModelFolder>),
    Checkpoint(PathBuf),
}

/// Returns the options and the initial weights of a new run. `words` contains the command-line
/// arguments, and `stated` contains the options that these arguments set.
pub(crate) fn source(words: &[OsString], stated: &TrainOptions) -> Result<Source> {
    let (mut base, mut weights, mut path) = (None, InitialWeights::New, None);
    if let Some(folder) = &stated.init_from {
        if !folder.exists() {
            bail!(
                "--init-from {}: this folder doesn't exist; gpt doesn't download models, so specify the path of a local folder that contains config.json and model.safetensors",
                folder.display()
            );
        }
        let ((model, own), found) = model::read(Some(folder), |path| {
            let model = ModelFolder::open(path)?;
            let own = BaseModel::of(model.config(), path)?;
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
            "--tokenizer {choice}: the model that --init-from specifies has its own tokenizer, which can't be replaced; omit this option"
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

/// Creates the trainer of a new run, or loads the trainer of a resumed run from its checkpoint.
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
            // With weight tying, the token embedding is also the output layer, so the embeddings
            // need a standard deviation of 0.02, as in GPT-2. With a standard deviation of 1, the
            // initial loss would be ten times as high as the loss of random guesses.
            if model.config().tied {
                model.tok_emb.weight *= 0.02;
                model.pos_emb.weight *= 0.02;
            }
            model
        }
    };
    Trainer::new(training, model, train, validation, rng).map_err(with_flags)
}

/// A checkpoint records values that a resumed run must have in common with the original run.
/// Returns true if the value called `name` describes the content of the training data, such as its
/// hash, so that a difference means that the data has been replaced. Returns false for other
/// values, such as the length of the windows.
fn is_of_data(name: &str) -> bool {
    name.contains("_data") && (name.ends_with(".tokens") || name.ends_with(".sha256"))
}
