//! Presets: named models with suitable training settings. The command `gpt train` offers them with
//! its option `--preset`, and the project's web page for training models offers them as well.

use std::fmt;

use gpt::{DropRates, GptConfig};
use serde::Serialize;

/// A named model, its tokenizer, and its training settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Names of the preset. The first name is used for display, and the other names are aliases.
    pub names: &'static [&'static str],
    /// Configuration of the model. If the preset creates its tokenizer from the training data, the
    /// vocabulary size in this configuration applies only to the default data, which is a short
    /// story.
    pub model: GptConfig,
    /// Tokenizer of a new model.
    pub tokenizer: PresetTokenizer,
    /// Training settings.
    pub training: PresetTraining,
}

/// The kind of tokenizer that a preset creates for a new model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetTokenizer {
    /// GPT-2's tokenizer with 50,257 tokens.
    Gpt2,
    /// A tokenizer whose tokens are the individual characters of the training data.
    Chars,
    /// A byte pair encoding that is trained on the training data. The number is the maximum size of
    /// its vocabulary.
    Bpe(usize),
}

/// The training settings that depend on the size of the model. Each field has the same name as the
/// corresponding command-line option.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PresetTraining {
    /// Number of windows per batch.
    pub batch_size: usize,
    /// Number of optimizer steps.
    pub max_steps: usize,
    /// Highest learning rate of the schedule.
    pub learning_rate: f64,
    /// Number of warmup steps, in which the learning rate rises. If the run is shorter than this,
    /// the warmup is shortened.
    pub warmup_steps: usize,
    /// Number of steps between two evaluations.
    pub eval_interval: usize,
    /// Number of training batches, and also of validation batches, whose losses an evaluation
    /// averages.
    pub eval_iters: usize,
}

impl Preset {
    /// Returns the preset that has `name` as its name or as one of its aliases, or `None` if there
    /// is no such preset.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut presets = PRESETS.iter().copied();
        presets.find(|preset| preset.names.contains(&name))
    }

    /// Returns the name under which the preset is displayed.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.names[0]
    }
}

/// Writes the name of the preset.
impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The default preset. The model is small enough to learn a short story within half a minute on two
/// cores.
pub const STORY: Preset = Preset {
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
    // With this vocabulary size, every pair of tokens that occurs more than once in the project's
    // short story is merged, so most words become a single token. With a smaller vocabulary, some
    // words would be split into several tokens, and the model would mix up words that have tokens
    // in common.
    tokenizer: PresetTokenizer::Bpe(1221),
    training: PresetTraining {
        batch_size: 16,
        max_steps: 450,
        learning_rate: 3e-3,
        warmup_steps: 20,
        eval_interval: 50,
        eval_iters: 3,
    },
};

/// A small model whose tokens are characters. It learns to write words within a minute, even in a
/// web browser.
pub const CHARACTERS: Preset = Preset {
    names: &["characters"],
    model: GptConfig {
        vocab_size: 59,
        context_length: 32,
        emb_dim: 64,
        n_heads: 4,
        n_layers: 2,
        drop_rates: DropRates::all(0.0),
        ..GptConfig::GPT2_124M
    },
    tokenizer: PresetTokenizer::Chars,
    training: PresetTraining {
        batch_size: 12,
        max_steps: 1500,
        learning_rate: 1e-2,
        warmup_steps: 20,
        eval_interval: 20,
        eval_iters: 3,
    },
};

/// A small model that uses the same tokenizer as [`STORY`], whose tokens are mostly whole words. It
/// memorizes the project's short story within half a minute, even in a web browser.
pub const WORDS: Preset = Preset {
    names: &["words"],
    model: GptConfig {
        context_length: 32,
        emb_dim: 64,
        drop_rates: DropRates::all(0.0),
        ..STORY.model
    },
    tokenizer: STORY.tokenizer,
    training: PresetTraining {
        batch_size: 8,
        max_steps: 600,
        learning_rate: 1e-2,
        warmup_steps: 20,
        eval_interval: 20,
        eval_iters: 3,
    },
};

/// All presets. The first one is the default.
pub const PRESETS: &[Preset] = &[
    STORY,
    WORDS,
    CHARACTERS,
    gpt2(
        &["gpt2-124m", "gpt2", "gpt2-small"],
        GptConfig::GPT2_124M,
        6e-4,
    ),
    gpt2(&["gpt2-355m", "gpt2-medium"], GptConfig::GPT2_MEDIUM, 3e-4),
    gpt2(&["gpt2-774m", "gpt2-large"], GptConfig::GPT2_LARGE, 2.5e-4),
    gpt2(&["gpt2-1558m", "gpt2-xl"], GptConfig::GPT2_XL, 2e-4),
    // The smallest GPT-2 model, but with a shorter context, as in chapter 5 of the book.
    Preset {
        names: &["book-124m", "book"],
        model: GptConfig {
            context_length: 256,
            ..GptConfig::GPT2_124M
        },
        tokenizer: PresetTokenizer::Gpt2,
        training: PresetTraining {
            batch_size: 2,
            max_steps: 100,
            learning_rate: 4e-4,
            warmup_steps: 0,
            eval_interval: 5,
            eval_iters: 5,
        },
    },
];

/// Settings for fine-tuning a trained model. Fine-tuning needs only a small number of steps and a
/// low learning rate.
pub const FINE_TUNING: PresetTraining = PresetTraining {
    batch_size: 2,
    max_steps: 100,
    learning_rate: 5e-5,
    warmup_steps: 10,
    eval_interval: 20,
    eval_iters: 5,
};

/// Number of tokens between the starts of two consecutive training windows of the project's short
/// story. This number is much smaller than the length of a window, because the story is very short,
/// and a model learns much more from overlapping windows.
pub const STORY_STRIDE: usize = 8;

/// Returns a preset for a model of the same size as one of the original GPT-2 models.
const fn gpt2(names: &'static [&'static str], model: GptConfig, learning_rate: f64) -> Preset {
    Preset {
        names,
        model,
        tokenizer: PresetTokenizer::Gpt2,
        training: PresetTraining {
            batch_size: 4,
            max_steps: 1000,
            learning_rate,
            warmup_steps: 100,
            eval_interval: 50,
            eval_iters: 5,
        },
    }
}
