//! Models by name, with the training settings that suit them: the `--preset` values of `gpt train`,
//! which the page that trains a model also offers.

use std::fmt;

use gpt::{DropRates, GptConfig};
use serde::Serialize;

/// A named model, and how it is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// The preset's name, followed by other accepted names.
    pub names: &'static [&'static str],
    /// The model's configuration. The vocabulary size of a model with its own tokenizer is that of
    /// the default story.
    pub model: GptConfig,
    /// The tokenizer of a new model.
    pub tokenizer: PresetTokenizer,
    /// The training settings.
    pub training: PresetTraining,
}

/// The tokenizer that a preset gives to a new model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetTokenizer {
    /// GPT-2's 50257 tokens.
    Gpt2,
    /// The characters of the data.
    Chars,
    /// Byte pair encoding, trained on the data, with at most this many tokens.
    Bpe(usize),
}

/// Training settings that depend on the size of the model, under the names of the command-line
/// options.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PresetTraining {
    /// Number of windows in a batch.
    pub batch_size: usize,
    /// Number of optimizer steps.
    pub max_steps: usize,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Number of steps during which the learning rate rises. A run with fewer steps has a shorter
    /// warmup.
    pub warmup_steps: usize,
    /// Number of steps between two evaluations.
    pub eval_interval: usize,
    /// Number of batches of each part of the data in an evaluation.
    pub eval_iters: usize,
}

impl Preset {
    /// The preset with this name, which may also be one of its other names.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        PRESETS
            .into_iter()
            .find(|preset| preset.names.contains(&name))
    }

    /// Returns the name that is shown.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.names[0]
    }
}

/// Writes the preset's name.
impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The default preset: small enough to learn a short story in half a minute on two cores.
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
    // Enough tokens for every pair that occurs more than once in the story. With fewer tokens, some
    // words consist of pieces, and the model mixes them up.
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

/// A model of characters that learns to write words within a minute, even in a web page.
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

/// A small model of the story's words that overfits within half a minute, even in a web page.
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

/// All presets, beginning with the default.
pub const PRESETS: [Preset; 8] = [
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
    // Chapter 5 of the book shortens the context.
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

/// Settings for fine-tuning a trained model: a few small steps.
pub const FINE_TUNING: PresetTraining = PresetTraining {
    batch_size: 2,
    max_steps: 100,
    learning_rate: 5e-5,
    warmup_steps: 10,
    eval_interval: 20,
    eval_iters: 5,
};

/// Number of tokens between the beginnings of two windows of the default story. The story is so
/// short that a model learns much more from overlapping windows.
pub const STORY_STRIDE: usize = 8;

/// Returns a preset with the size of one of GPT-2's models.
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
