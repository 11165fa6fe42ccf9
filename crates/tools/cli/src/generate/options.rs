//! The command line of `gpt generate`, with llama.cpp's short flags.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use generate::{BeamConfig, Precision, Sampling};
use torch_rng::Build;

use crate::failure::Usage;
use crate::ids::TokenList;
use crate::model::ModelArgs;
use crate::numbers::at_least_1;
use crate::threads::ThreadArgs;
use crate::vocabulary::Vocabulary;

/// Examples under the help.
const EXAMPLES: &str = "\
Examples:
  gpt generate \"Every effort moves you\"                     the newest run in runs/
  gpt generate -m gpt2 -f story.txt -n 200 --temp 0.7       a folder that transformers wrote
  echo \"Once upon a time\" | gpt generate --top-p 0.9        a prompt from a pipe
  gpt generate -m gpt2 --beams 4 \"The ferry\"                beam search
  gpt generate -i                                           turn by turn";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GenerateArgs {
    /// The text to continue; - or nothing with a pipe reads standard input
    pub(crate) text: Option<String>,

    #[command(flatten, next_help_heading = "Input")]
    pub(crate) model: ModelArgs,
    /// As the argument
    #[arg(short = 'p', long, value_name = "TEXT", conflicts_with_all = ["text", "file", "tokens"], help_heading = "Input")]
    pub(crate) prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with_all = ["text", "tokens"], help_heading = "Input")]
    pub(crate) file: Option<PathBuf>,
    /// Ids in place of a text
    #[arg(
        long,
        value_name = "1,2,3",
        conflicts_with = "text",
        help_heading = "Input"
    )]
    pub(crate) tokens: Option<TokenList>,
    /// Go on turn by turn: each line is added to the text, an empty line just goes on
    #[arg(short = 'i', long, conflicts_with_all = ["json", "beams"], help_heading = "Input")]
    pub(crate) interactive: bool,

    /// The most tokens to write
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        visible_alias = "n-predict",
        default_value_t = 100,
        help_heading = "Length"
    )]
    pub(crate) max_new_tokens: usize,
    /// Write so many texts, each from the prompt
    #[arg(long, value_name = "N", value_parser = at_least_1, default_value = "1", conflicts_with_all = ["beams", "interactive"], help_heading = "Length")]
    pub(crate) num_samples: usize,
    /// End before this text (may be given several times)
    #[arg(long, value_name = "TEXT", help_heading = "Length")]
    pub(crate) stop: Vec<String>,
    /// Go on after the token that ends a text
    #[arg(long, help_heading = "Length")]
    pub(crate) ignore_eos: bool,
    /// The most tokens the model may see [default: its context length]
    #[arg(
        short = 'c',
        long,
        value_name = "N",
        visible_alias = "ctx-size",
        help_heading = "Length"
    )]
    pub(crate) context_size: Option<usize>,
    /// When the context is full: crop it from the front, as the book does, or stop [default: crop, but refuse a longer prompt]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Length")]
    pub(crate) past_context: Option<WhenFull>,

    /// Below 1 bolder choices are rarer, 0 always takes the likeliest token [default: 0.8]
    #[arg(
        long,
        value_name = "X",
        visible_alias = "temp",
        help_heading = "Sampling"
    )]
    pub(crate) temperature: Option<f32>,
    /// Draw among the N likeliest tokens [default: 40 if no other option of these is given]
    #[arg(long, value_name = "N", value_parser = at_least_1, help_heading = "Sampling")]
    pub(crate) top_k: Option<usize>,
    /// Draw among the likeliest tokens that together have this probability
    #[arg(long, value_name = "P", help_heading = "Sampling")]
    pub(crate) top_p: Option<f32>,
    /// Draw among tokens at least this likely, relative to the likeliest
    #[arg(long, value_name = "P", help_heading = "Sampling")]
    pub(crate) min_p: Option<f32>,
    /// Make tokens that have been there less likely: over 1
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        visible_alias = "repetition-penalty",
        help_heading = "Sampling"
    )]
    pub(crate) repeat_penalty: f32,
    /// Where the random numbers start [default: a new seed each time, which is told]
    #[arg(short = 's', long, value_name = "N", help_heading = "Sampling")]
    pub(crate) seed: Option<u64>,
    /// The PyTorch build whose multinomial is drawn: portable or mkl
    #[arg(
        long,
        value_name = "BUILD",
        default_value_t,
        visible_alias = "dropout-build",
        help_heading = "Sampling"
    )]
    pub(crate) build: Build,
    /// Follow N continuations at once and take the likeliest (beam search)
    #[arg(long, value_name = "N", value_parser = at_least_1, visible_alias = "num-beams", conflicts_with_all = ["temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed"], help_heading = "Sampling")]
    pub(crate) beams: Option<usize>,
    /// Of beam search: over 0 favours longer texts
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        requires = "beams",
        help_heading = "Sampling"
    )]
    pub(crate) length_penalty: f32,

    /// Print one JSON object for each text when it is done: tokens, text, timings
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Print the continuation alone
    #[arg(long, help_heading = "Output")]
    pub(crate) no_display_prompt: bool,
    /// How exactly weights are kept: f32, f16, bf16, int8 or int4
    #[arg(long, value_name = "P", default_value_t, help_heading = "Output")]
    pub(crate) precision: Precision,
    #[command(flatten, next_help_heading = "Output")]
    pub(crate) threads: ThreadArgs,
}

/// What happens when the context is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhenFull {
    /// The model sees the last tokens
    Crop,
    /// The text ends
    Stop,
}

impl GenerateArgs {
    /// What can be refused before a model is loaded.
    pub(crate) fn check(&self) -> Result<()> {
        let vocab_size = usize::MAX; // the session checks `top_k` and `beams` against the model's
        let mut checked = self.sampling(vocab_size).check();
        if let Some(beams) = self.beams(Vec::new()) {
            checked = checked.and_then(|()| beams.check(vocab_size));
        }
        if let Err(error) = checked {
            return Err(Usage(error.to_string()).into());
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(Usage("--stop must be a text, got an empty one".to_owned()).into());
        }
        Ok(())
    }

    /// How tokens are chosen.
    pub(crate) fn sampling(&self, vocab_size: usize) -> Sampling {
        let alone = self.temperature.is_none() && self.top_p.is_none() && self.min_p.is_none();
        Sampling {
            temperature: self.temperature.unwrap_or(0.8),
            top_k: self.top_k.or(alone.then_some(40.min(vocab_size))),
            top_p: self.top_p.unwrap_or(1.0),
            min_p: self.min_p.unwrap_or(0.0),
            repetition_penalty: self.repeat_penalty,
        }
    }

    /// How several continuations are followed, if they are, each until one of `stop_ids`.
    pub(crate) fn beams(&self, stop_ids: Vec<u32>) -> Option<BeamConfig> {
        self.beams.map(|num_beams| BeamConfig {
            num_beams,
            max_new_tokens: self.max_new_tokens,
            length_penalty: self.length_penalty,
            stop_ids,
        })
    }

    /// Whether no random number is drawn.
    pub(crate) fn is_greedy(&self) -> bool {
        self.temperature == Some(0.0) || self.beams.is_some()
    }

    /// Tokens that end the text.
    pub(crate) fn stop_ids(&self, vocabulary: &Vocabulary) -> Vec<u32> {
        match self.ignore_eos {
            true => Vec::new(),
            false => vocabulary.end_of_text.clone(),
        }
    }
}
