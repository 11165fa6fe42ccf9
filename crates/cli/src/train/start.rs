//! A new run: its folder, its data, a model that is new or comes from a folder.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use checkpoint::{load_config, write_atomically};
use gpt::{GptConfig, GptModel};
use tensor_ops::Parameters;
use torch_rng::TorchRng;
use train::{RunFolder, SampleConfig, Trainer};

use super::config_file::to_table;
use super::data::{self, Data, Loaders};
use super::options::TrainOptions;
use super::settings::{self, Settings};
use crate::ids::ids_of_text;
use crate::memory::{Purpose, check_fits};
use crate::ranks::World;
use crate::{model, runs};

/// The options of a run, in its folder.
pub(crate) const OPTIONS: &str = "options.toml";

/// `--init-from scratch`: a new model.
const SCRATCH: &str = "scratch";

/// A run that is ready to train.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) trainer: Trainer,
    /// None on a rank that doesn't save.
    pub(crate) folder: Option<RunFolder>,
    pub(crate) options: TrainOptions,
    pub(crate) settings: Settings,
    pub(crate) data: Data,
    pub(crate) loaders: Loaders,
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

/// Everything of a run but its model and folder.
pub(crate) struct Plan {
    pub(crate) options: TrainOptions,
    pub(crate) settings: Settings,
    pub(crate) data: Data,
    pub(crate) loaders: Loaders,
}

/// Fills in the defaults, reads the data, and counts steps and samples.
pub(crate) fn plan(options: &TrainOptions, base: Option<GptConfig>) -> Result<Plan> {
    let mut options = settings::with_defaults(options, base)?;
    let mut settings = settings::resolve(&options, base)?;
    check_fits(&settings.model, Purpose::Training)?;
    let data = data::read(&settings)?;
    let loaders = data::loaders(&data, &settings)?;
    if let Some(epochs) = settings.epochs {
        let batches = epochs.saturating_mul(loaders.train.len()) as u64;
        settings.training.max_steps = batches.div_ceil(settings.training.accumulation);
        options.max_steps = Some(settings.training.max_steps as usize);
    }
    settings.training.schedule = settings::schedule(&mut options, settings.training.max_steps);
    options.max_length = Some(loaders.max_length);
    settings.training.sample = sample(&settings)?;
    Ok(Plan {
        options,
        settings,
        data,
        loaders,
    })
}

/// The samples of text that the options ask for.
fn sample(settings: &Settings) -> Result<Option<SampleConfig>> {
    let vocab_size = settings.model.vocab_size;
    let prompt = match model::is_gpt2_vocabulary(vocab_size) {
        true => ids_of_text(&settings.prompt)?,
        false => vec![0], // another tokenizer's ids: there is no text to begin with
    };
    if settings.sample_tokens == 0 || prompt.is_empty() {
        return Ok(None);
    }
    let every = match settings.sample_interval {
        0 => u64::MAX, // the last one is made by hand
        steps => steps as u64,
    };
    Ok(Some(SampleConfig {
        prompt,
        max_new_tokens: settings.sample_tokens,
        every: Some(every),
    }))
}

/// Starts a run from its first step.
pub(crate) fn start(options: &TrainOptions, saves: bool) -> Result<Started> {
    let mut options = options.clone();
    if let Some(data) = &options.data {
        // So that the run can be resumed from another folder.
        options.data = Some(std::path::absolute(data).with_context(|| data.display().to_string())?);
    }
    let init_from = match &options.init_from {
        Some(path) if path == Path::new(SCRATCH) => None,
        Some(path) => Some(weights_to_start_from(path)?),
        None => None,
    };
    options.init_from = init_from.as_deref().map(std::path::absolute).transpose()?;
    let base = init_from.as_deref().map(load_config).transpose()?;
    let plan = plan(&options, base)?;
    let folder = saves
        .then(|| open_folder(plan.options.out_dir.as_deref()))
        .transpose()?;
    start_in(folder, plan, init_from.as_deref())
}

/// The first step of `plan`, in a folder that is ours.
pub(crate) fn start_in(
    folder: Option<RunFolder>,
    plan: Plan,
    init_from: Option<&Path>,
) -> Result<Started> {
    let Plan {
        options,
        settings,
        data,
        loaders,
    } = plan;
    let mut rng = TorchRng::manual_seed(settings.seed).with_build(settings.dropout_build);
    let model = match init_from {
        Some(path) => with_config(&model::load(path)?, settings.model)?,
        None => GptModel::new(settings.model, &mut rng)?,
    };
    let trainer = Trainer::new(
        settings.training.clone(),
        model,
        loaders.train.clone(),
        loaders.validation.clone(),
        rng,
    )?;
    if let Some(folder) = &folder {
        write_options(folder.path(), &options)?;
    }
    Ok(Started {
        trainer,
        folder,
        options,
        settings,
        data,
        loaders,
    })
}

/// The folder of a model to start from.
fn weights_to_start_from(path: &Path) -> Result<PathBuf> {
    let name = path.to_string_lossy();
    if !path.exists() {
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
    let folder = RunFolder::open(&path)?;
    if folder.newest()?.is_some() {
        let path = path.display();
        bail!(
            "{path}: there is a run in this folder; `gpt train --resume {path}` goes on with it, another --out-dir begins anew"
        );
    }
    Ok(folder)
}

/// The same weights in a model of `config`, which may differ in what is no weight's shape, such as dropout.
fn with_config(model: &GptModel, config: GptConfig) -> Result<GptModel> {
    let mut ours = GptModel::zeros(config)?;
    let (theirs, mut places) = (model.named_parameters(), ours.named_parameters_mut());
    let names = |(name, shape): (&str, &[usize])| format!("{name} {shape:?}");
    for (place, weight) in places.iter_mut().zip(&theirs) {
        if place.0 != weight.0 || place.1.shape() != weight.1.shape() {
            bail!(
                "--init-from: the folder's model has {}, the options ask for {}",
                names((&weight.0, weight.1.shape())),
                names((&place.0, place.1.shape()))
            );
        }
        place.1.assign(&weight.1);
    }
    if places.len() != theirs.len() {
        bail!(
            "--init-from: the folder's model has {} weights, the options ask for {}",
            theirs.len(),
            places.len()
        );
    }
    drop(places);
    Ok(ours)
}

/// Keeps the options in the run's folder.
pub(crate) fn write_options(folder: &Path, options: &TrainOptions) -> Result<()> {
    let mut table = to_table(options);
    table.remove("out_dir"); // the folder may be moved
    let text = format!(
        "# The options of this run; `gpt train --config` takes them.\n{}",
        toml::to_string(&table)?
    );
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    write_atomically(folder.join(OPTIONS), |file| file.write_all(text.as_bytes()))?;
    Ok(())
}
