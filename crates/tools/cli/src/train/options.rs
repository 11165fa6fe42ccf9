//! The options of a run: a preset's, a file's and the command line's, each a table by name. They
//! are merged into one struct, which the run uses, keeps in its `options.toml`, and compares when
//! it resumes.
//!
//! Options that are `None` follow from other options or the data (`setup.rs`).

use std::path::PathBuf;

use anyhow::{Result, bail};
use gpt::{DropRates, GptConfig};
use serde::{Deserialize, Serialize};
use toml::{Table, toml};
use torch_rng::Build;
use train::Dtype;

use super::choice::TokenizerChoice;
use super::flags::{over, text};
use crate::presets::{PRESETS, Preset, training};

/// The beginning of samples of the story.
const STORY_PROMPT: &str = "Marta looked at the river";

/// The options of a run, each explained in `flags.rs`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TrainOptions {
    pub(crate) data: Option<PathBuf>,
    pub(crate) train_ratio: f64,
    pub(crate) max_length: Option<usize>,
    pub(crate) stride: Option<usize>,
    #[serde(default, with = "text")]
    pub(crate) preset: Option<Preset>,
    pub(crate) init_from: Option<PathBuf>,
    #[serde(flatten)]
    pub(crate) shape: Shape,
    #[serde(default, with = "text")]
    pub(crate) tokenizer: Option<TokenizerChoice>,
    pub(crate) max_steps: Option<usize>,
    /// In place of `max_steps`.
    pub(crate) epochs: Option<usize>,
    pub(crate) batch_size: usize,
    pub(crate) gradient_accumulation_steps: usize,
    pub(crate) learning_rate: f64,
    pub(crate) min_lr: Option<f64>,
    pub(crate) warmup_steps: usize,
    pub(crate) weight_decay: f64,
    pub(crate) beta1: f64,
    pub(crate) beta2: f64,
    pub(crate) grad_clip: f64,
    #[serde(default, with = "text")]
    pub(crate) dtype: Option<Dtype>,
    pub(crate) seed: i64,
    #[serde(default, with = "text")]
    pub(crate) dropout_build: Option<Build>,
    pub(crate) eval_interval: usize,
    pub(crate) eval_iters: usize,
    pub(crate) prompt: Option<String>,
    pub(crate) sample_interval: Option<usize>,
    pub(crate) sample_tokens: usize,
    pub(crate) save_interval: Option<usize>,
    pub(crate) threads: Option<usize>,
    // The last one is never left out: a file that was cut can't be read.
    pub(crate) keep: usize,
}

/// The options whose values weights fit, and the dropout rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) vocab_size: Option<usize>,
    context_length: usize,
    emb_dim: usize,
    n_heads: usize,
    n_layers: usize,
    qkv_bias: bool,
    tied: bool,
    /// None if the base model's sites have different rates.
    drop_rate: Option<f64>,
}

impl Shape {
    fn of(model: &GptConfig) -> Self {
        Self {
            vocab_size: Some(model.vocab_size),
            context_length: model.context_length,
            emb_dim: model.emb_dim,
            n_heads: model.n_heads,
            n_layers: model.n_layers,
            qkv_bias: model.qkv_bias,
            tied: model.tied,
            drop_rate: model.drop_rates.common(),
        }
    }
}

/// The values of options where neither preset, file nor flag has another.
fn defaults() -> Table {
    toml! {
        train_ratio = 0.9
        gradient_accumulation_steps = 1
        weight_decay = 0.1
        beta1 = 0.9
        beta2 = 0.999
        grad_clip = 1.0
        dtype = "float32"
        seed = 123
        dropout_build = "portable"
        sample_tokens = 40
        keep = 2 // to have one to go back to if the newest is damaged
    }
}

impl TrainOptions {
    /// The options of a new run: the user's options over the base model's or the preset's, over the
    /// defaults.
    ///
    /// # Errors
    /// If a value is none of its option; a file's and the command line's have been checked before.
    pub(crate) fn new(said: &Table, base: Option<&GptConfig>) -> Result<Self> {
        let preset = said.get("preset").and_then(toml::Value::as_str);
        let preset = preset.map(str::parse::<Preset>).transpose();
        let preset = preset.map_err(anyhow::Error::msg)?;
        let mut lower = defaults();
        let recipe = training(preset, said.contains_key("init_from"));
        lower.extend(Table::try_from(recipe)?);
        let model = base.copied().unwrap_or(preset.unwrap_or(PRESETS[0]).model);
        lower.extend(Table::try_from(Shape::of(&model))?);
        if base.is_none() {
            lower.remove("vocab_size"); // of which the tokenizer of a new model decides
        }
        if !said.contains_key("data") {
            lower.insert("prompt".to_owned(), STORY_PROMPT.into());
        }
        Ok(over(said, lower).try_into()?)
    }

    /// The preset that was named, or the default one.
    pub(crate) fn preset(&self) -> Preset {
        self.preset.unwrap_or(PRESETS[0])
    }

    /// The requested model: the preset's with changes, or the base model's, `own`.
    ///
    /// # Errors
    /// If the weights are of another; names the option.
    pub(crate) fn model(&self, own: Option<&GptConfig>) -> Result<GptConfig> {
        let base = *own.unwrap_or(&self.preset().model);
        let shape = self.shape;
        let model = GptConfig {
            vocab_size: shape.vocab_size.unwrap_or(base.vocab_size),
            context_length: shape.context_length,
            emb_dim: shape.emb_dim,
            n_heads: shape.n_heads,
            n_layers: shape.n_layers,
            drop_rates: shape.drop_rate.map_or(base.drop_rates, DropRates::all),
            qkv_bias: shape.qkv_bias,
            tied: shape.tied,
            ..base
        };
        if let Some(own) = own {
            let [asked, own] = [&model, own].map(|model| Table::try_from(Shape::of(model)));
            let own = own?;
            for (name, asked) in asked?.iter().filter(|(name, _)| *name != "drop_rate") {
                if let Some(own) = own.get(name).filter(|own| *own != asked) {
                    let flag = name.replace('_', "-");
                    bail!(
                        "--{flag} {asked}: the base model has {own}, and its weights can't be loaded with another value"
                    );
                }
            }
        }
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use super::super::flags::TrainFlags;
    use super::*;
    use crate::presets::FINE_TUNING;

    fn said(text: &str) -> Table {
        TrainFlags::parse(text).unwrap().table().unwrap()
    }

    #[test]
    fn the_last_counts_and_steps_and_epochs_are_one_option() {
        let below = said("n_layers = 7\nseed = 7\nepochs = 3");
        let both = over(&said("seed = -1\nmax_steps = 5"), below);
        let options = TrainOptions::new(&both, None).unwrap();
        assert_eq!((options.shape.n_layers, options.seed), (7, -1));
        assert_eq!((options.max_steps, options.epochs), (Some(5), None));
        let epochs = TrainOptions::new(&over(&said("epochs = 2"), both), None).unwrap();
        assert_eq!((epochs.max_steps, epochs.epochs), (None, Some(2)));
        let default = TrainOptions::new(&Table::new(), None).unwrap();
        assert_eq!(default.max_steps, Some(PRESETS[0].training.max_steps));
    }

    #[test]
    fn a_model_to_go_on_from_says_what_it_is_like_and_how_it_is_trained() {
        let small = GptConfig {
            n_layers: 5,
            ..GptConfig::GPT2_124M
        };
        let options = TrainOptions::new(&said("init_from = 'm'"), Some(&small)).unwrap();
        assert_eq!(options.model(Some(&small)).unwrap(), small);
        assert_eq!(options.learning_rate, FINE_TUNING.learning_rate);
        for preset in PRESETS {
            let said = said(&format!("preset = '{}'", preset.name()));
            let options = TrainOptions::new(&said, None).unwrap();
            assert_eq!(options.model(None).unwrap(), preset.model);
            assert_eq!(options.batch_size, preset.training.batch_size);
        }
    }

    #[test]
    fn what_is_kept_reads_back_the_same_whatever_its_size() {
        let most = i64::MAX;
        let text = format!(
            "seed = -1\neval_interval = {most}\nlearning_rate = 1e-300\ntied = false\n\
            prompt = \"\\\"\\\\\\u0001\\n= 'x'\"\npreset = 'gpt2'\ndropout_build = 'mkl'"
        );
        let options = TrainOptions::new(&said(&text), None).unwrap();
        assert_eq!(options.prompt.as_deref(), Some("\"\\\u{1}\n= 'x'"));
        let kept = toml::to_string(&options).unwrap();
        let read = said(&kept);
        assert_eq!(read, Table::try_from(&options).unwrap());
        assert_eq!(
            kept,
            toml::to_string(&read.try_into::<TrainOptions>().unwrap()).unwrap()
        );
    }
}
