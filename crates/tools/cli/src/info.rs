//! Implements `gpt info`, which shows a model's dimensions, its number of parameters, and its
//! memory requirements. The command reads only the configuration, so it also works for models that
//! don't fit in memory.

use std::path::PathBuf;

use anyhow::Result;
use checkpoint::{CheckpointError, ModelFolder, load_config};
use clap::Args;
use generate::{Dtype, weight_bytes};
use gpt::GptConfig;
use train::presets::Preset;

use crate::model::{note_folder, read};
use crate::terminal::numbers::{AtLeast1, bytes};
use crate::terminal::output::print;
use crate::train::choice::preset_parser;

#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// A model folder (config.json is sufficient) or the folder of a training run [default: the
    /// newest run in runs/]
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Show the model of a preset instead of the model in a folder
    #[arg(long, value_name = "NAME", value_parser = preset_parser(), ignore_case = true, conflicts_with = "model")]
    preset: Option<Preset>,
    /// The number of texts to generate at the same time (generating more texts requires more
    /// memory)
    #[arg(long, value_name = "N", default_value_t = AtLeast1(1))]
    num_samples: AtLeast1,
}

pub(crate) fn run(args: &InfoArgs) -> Result<()> {
    let asked = args.model.as_deref();
    if let Some(preset) = args.preset {
        return show(preset.name(), &preset.model, args.num_samples);
    }
    let (config, folder) = read(asked, |folder| {
        match ModelFolder::open(folder) {
            Ok(model) => Ok(model.config()),
            // `gpt info` needs only the configuration, so it accepts a folder without weights.
            Err(CheckpointError::Folder { .. }) => Ok(load_config(folder)?),
            Err(error) => Err(error.into()),
        }
    })?;
    note_folder(asked, &folder);
    let name = asked.unwrap_or(&folder).display().to_string();
    show(&name, &config, args.num_samples)
}

fn show(name: &str, config: &GptConfig, AtLeast1(texts): AtLeast1) -> Result<()> {
    let tokens = config.context_length;
    let weights = bytes(config.weights_memory()?.total() as f64);
    let int8 = bytes(weight_bytes(Dtype::Int8, config) as f64);
    let decoding = bytes(config.decoding_memory(texts, tokens)?.total() as f64);
    let contexts = match texts {
        1 => "a full context".to_owned(),
        _ => format!("{texts} full contexts"),
    };
    let training = bytes(config.training_memory(1, tokens)?.total() as f64);
    Ok(print(format!(
        "model           {name}\n\
         {config}\n\
         memory          the weights take {weights} in float32, or {int8} in int8\n\
         generating      takes {decoding} in addition to the weights, for {contexts}\n\
         training        takes {training}, including the weights, if each batch has one window\n"
    ))?)
}
