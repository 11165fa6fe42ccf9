//! Models by name, with the settings that suit them.
//!
//! `story` is the default run: small enough to learn a short story in a minute on two cores.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use gpt::{DropRates, GptConfig};
use serde::Serialize;

/// A model and how to train it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preset {
    /// The first is shown; the others are taken too.
    pub(crate) names: &'static [&'static str],
    pub(crate) model: GptConfig,
    /// The number of byte pairs trained on the data; none: GPT-2's tokens.
    pub(crate) bpe: Option<usize>,
    pub(crate) training: Training,
}

/// Training settings that depend on the model's size, by the options' names.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Training {
    pub(crate) batch_size: usize,
    pub(crate) max_steps: usize,
    pub(crate) learning_rate: f64,
    /// Limited in a short run.
    pub(crate) warmup_steps: usize,
    pub(crate) eval_interval: usize,
    pub(crate) eval_iters: usize,
}

/// One of GPT-2's sizes.
const fn gpt2(names: &'static [&'static str], model: GptConfig, learning_rate: f64) -> Preset {
    Preset {
        names,
        model,
        bpe: None,
        training: Training {
            batch_size: 4,
            max_steps: 1000,
            learning_rate,
            warmup_steps: 100,
            eval_interval: 50,
            eval_iters: 5,
        },
    }
}

/// For weights that have learned already: small steps, and few.
pub(crate) const FINE_TUNING: Training = Training {
    batch_size: 2,
    max_steps: 100,
    learning_rate: 5e-5,
    warmup_steps: 10,
    eval_interval: 20,
    eval_iters: 5,
};

/// All presets, the default first.
pub(crate) const PRESETS: [Preset; 6] = [
    Preset {
        names: &["story", "default"],
        model: GptConfig {
            vocab_size: 1221,
            context_length: 64,
            emb_dim: 192,
            n_heads: 4,
            n_layers: 2,
            drop_rates: DropRates::all(0.2),
            ..GptConfig::GPT2_124M
        },
        // All pairs that the story has more than once: with fewer, words of it are spelt of pieces
        // that come out mixed.
        bpe: Some(1221),
        training: Training {
            batch_size: 16,
            max_steps: 450,
            learning_rate: 3e-3,
            warmup_steps: 20,
            eval_interval: 50,
            eval_iters: 3,
        },
    },
    gpt2(
        &["gpt2-124m", "gpt2", "gpt2-small"],
        GptConfig::GPT2_124M,
        6e-4,
    ),
    gpt2(&["gpt2-355m", "gpt2-medium"], GptConfig::GPT2_MEDIUM, 3e-4),
    gpt2(&["gpt2-774m", "gpt2-large"], GptConfig::GPT2_LARGE, 2.5e-4),
    gpt2(&["gpt2-1558m", "gpt2-xl"], GptConfig::GPT2_XL, 2e-4),
    // Chapter 5 of the book shortens the context.
    Preset {
        names: &["book-124m", "book"],
        model: GptConfig {
            context_length: 256,
            ..GptConfig::GPT2_124M
        },
        bpe: None,
        training: Training {
            batch_size: 2,
            max_steps: 100,
            learning_rate: 4e-4,
            warmup_steps: 0,
            eval_interval: 5,
            eval_iters: 5,
        },
    },
];

/// Returns the settings of a run: those of the named preset, otherwise those for fine-tuning or the
/// default preset's.
pub(crate) fn training(preset: Option<Preset>, goes_on: bool) -> Training {
    match preset {
        None if goes_on => FINE_TUNING,
        preset => preset.unwrap_or(PRESETS[0]).training,
    }
}

impl Preset {
    /// The name that is shown.
    pub(crate) fn name(&self) -> &'static str {
        self.names[0]
    }
}

impl ValueEnum for Preset {
    fn value_variants<'a>() -> &'a [Self] {
        &PRESETS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).aliases(&self.names[1..]))
    }
}

/// Its name.
impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = PRESETS.map(|preset| preset.name()).join(", ");
        <Self as ValueEnum>::from_str(name, true)
            .map_err(|_| format!("expected one of {names}, got {name:?}"))
    }
}
