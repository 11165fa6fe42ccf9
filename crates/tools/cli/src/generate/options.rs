//! Defines the options of `gpt generate` and combines them with the settings in the model's folder.
//! Many flags have the same names as in llama.cpp.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use checkpoint::SamplingDefaults;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use generate::{DecoderConfig, Dtype, GenerateOptions, PastContext, Sampling};
use gpt::Memory;
use torch_rng::Build;

use crate::model::ids::{Input, TextArgs};
use crate::model::{FoundModel, ModelArgs};
use crate::terminal::failure::misused;
use crate::terminal::numbers::{AtLeast1, Count, sampling, seed};
use crate::terminal::output::note;
use crate::terminal::threads::ThreadArgs;

/// Examples that are shown below the help.
const EXAMPLES: &str = "\
Examples:
  gpt generate \"Every effort moves you\"          use the newest run in runs/
  gpt generate -m gpt2 -f story.txt -n 200       use the model in gpt2/
  echo \"Once upon a time\" | gpt generate         read the prompt from a pipe
  gpt generate \"\"                                start with an empty prompt
  gpt generate -f prompts.txt --lines --json     continue each line of a file
  gpt generate -i                                take turns with the model";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GenerateArgs {
    #[command(flatten, next_help_heading = "Input")]
    pub(crate) input: InputArgs,
    #[command(flatten, next_help_heading = "Length")]
    pub(crate) length: LengthArgs,
    #[command(flatten, next_help_heading = "Sampling")]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub(crate) output: OutputArgs,
}

// The following structs have no doc comments, because clap would show the comments in the help for
// `gpt generate`.
#[derive(Args, Debug)]
pub(crate) struct InputArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    /// Use each line of the text as a separate prompt
    #[arg(long, conflicts_with_all = ["tokens", "interactive"])]
    lines: bool,
    /// Take turns with the model: each line that you enter is appended to the text, and the model
    /// then continues the text (an empty line appends nothing)
    #[arg(short = 'i', long, conflicts_with = "json")]
    pub(crate) interactive: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LengthArgs {
    /// The maximum number of tokens to generate [default: the model's setting, or 100]
    #[arg(short = 'n', long, value_name = "N", visible_alias = "n-predict")]
    max_new_tokens: Option<Count>,
    /// The number of texts to generate for each prompt; text I (counting from 0) is the text that
    /// --seed SEED+I generates without this option
    #[arg(long, value_name = "N", default_value_t = AtLeast1(1), conflicts_with = "interactive")]
    pub(crate) num_samples: AtLeast1,
    /// End the generated text before the first occurrence of TEXT; can be specified several times
    /// [default: the model's setting]
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    stop: Vec<String>,
    /// Continue after an end-of-text token instead of ending the text there
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// The maximum number of tokens that the model processes at once [default: the model's context
    /// length]
    #[arg(short = 'c', long, value_name = "N", visible_alias = "ctx-size")]
    context_size: Option<AtLeast1>,
    /// What to do when a text becomes longer than the context [default: crop, except that a prompt
    /// that is too long is reported as an error]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) past_context: Option<WhenFull>,
}

#[derive(Args, Debug, Default)]
pub(crate) struct SamplingArgs {
    /// The temperature: lower values make improbable tokens less likely, and 0 always selects the
    /// most probable token [default: the model's setting, or 0.8]
    #[arg(long, value_name = "X", visible_alias = "temp", value_parser = sampling(|s, x| s.temperature = x))]
    temperature: Option<f32>,
    /// Choose among the N most probable tokens; 0 means all tokens [default: the model's setting;
    /// otherwise 40, or 0 if the temperature, top-p or min-p differs from this program's default]
    #[arg(long, value_name = "N")]
    top_k: Option<Count>,
    /// Choose among the smallest set of most probable tokens whose probabilities add up to at least
    /// P [default: the model's setting, or 1]
    #[arg(long, value_name = "P", value_parser = sampling(|s, x| s.top_p = x))]
    top_p: Option<f32>,
    /// Choose among the tokens that are at least P times as probable as the most probable token
    /// [default: the model's setting, or 0]
    #[arg(long, value_name = "P", value_parser = sampling(|s, x| s.min_p = x))]
    min_p: Option<f32>,
    /// Make tokens that are already in the text less likely; 1 means no penalty [default: the
    /// model's setting, or 1]
    #[arg(long, value_name = "X", visible_alias = "repetition-penalty", value_parser = sampling(|s, x| s.repetition_penalty = x))]
    repeat_penalty: Option<f32>,
    /// The seed of the random number generator; negative seeds are interpreted as in PyTorch
    /// [default: a new seed, which is printed]
    #[arg(short = 's', long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<u64>,
    /// The PyTorch build whose random numbers are reproduced: portable or mkl
    #[arg(long, value_name = "BUILD", default_value_t)]
    pub(crate) build: Build,
}

#[derive(Args, Debug)]
pub(crate) struct OutputArgs {
    /// Print each text as a JSON object with the keys tokens, text, finish (the reason why the text
    /// ended) and seed
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the generated text, without the prompt
    #[arg(long)]
    pub(crate) no_display_prompt: bool,
    /// Print the special tokens in the generated text, such as <|endoftext|>
    #[arg(long)]
    pub(crate) special: bool,
    /// The number format of the weights: float32, float16, bfloat16, int8 or int4
    #[arg(long, value_name = "TYPE", default_value_t)]
    pub(crate) dtype: Dtype,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
}

const TEMPERATURE: f32 = 0.8;
const TOP_K: usize = 40;
const MAX_NEW_TOKENS: usize = 100;

/// Maximum number of samples that are generated at the same time. A larger number would require
/// more memory without being much faster.
pub(crate) const MAX_PARALLEL_TEXTS: usize = 64;

fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.subsec_nanos().into())
}

/// The generation settings of a command. Command-line options take precedence over the settings in
/// the model's folder, which take precedence over this program's defaults.
pub(crate) struct Settings {
    pub(crate) sampling: Sampling,
    pub(crate) length: MaxTokens,
    /// Stop strings. The generated text ends before the first occurrence of any of these strings.
    pub(crate) stops: Vec<String>,
    /// IDs of the tokens that end the generated text.
    stop_ids: Vec<u32>,
    /// Seed of the first sample of each prompt.
    pub(crate) seed: u64,
}

impl Settings {
    /// Returns true if tokens are sampled at random. This is the case unless the temperature is 0.
    pub(crate) fn draws(&self) -> bool {
        self.sampling.temperature != 0.0
    }

    /// Returns the options for continuing a text of `tokens` tokens.
    ///
    /// # Errors
    /// Returns an error if the text has already reached the maximum length that is set in the
    /// model's folder. transformers also rejects such a text.
    pub(crate) fn options(&self, tokens: usize) -> Result<GenerateOptions> {
        let max_new_tokens = match self.length {
            MaxTokens::New(most) => most,
            MaxTokens::All(most) if tokens < most => most - tokens,
            MaxTokens::All(most) => bail!(
                "the text already has {tokens} tokens, but max_length in the model's generation_config.json is {most}; use --max-new-tokens to override this limit"
            ),
        };
        Ok(GenerateOptions {
            sampling: self.sampling,
            max_new_tokens,
            stop_ids: self.stop_ids.clone(),
        })
    }

    /// Prints the seeds of the samples to standard error, so that the user can generate the same
    /// texts again. Prints nothing if the user has specified the seed or if the generation isn't
    /// random.
    pub(crate) fn note_seed(&self, args: &GenerateArgs) {
        if args.sampling.seed.is_some() || !self.draws() {
            return;
        }
        let first = self.seed;
        note(&match args.length.num_samples.0 {
            1 => format!(
                "the random seed is {first}; to generate the same text again, use --seed {first}"
            ),
            samples => format!(
                "the random seeds are {first} to {}; to generate the same texts again, use --seed {first}",
                first.wrapping_add(samples as u64 - 1)
            ),
        });
    }
}

/// A limit on the length of a text.
pub(crate) enum MaxTokens {
    /// Maximum number of generated tokens.
    New(usize),
    /// Maximum length of the whole text in tokens, which includes both the prompt and the generated
    /// tokens.
    All(usize),
}

/// What to do when a text becomes longer than the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhenFull {
    /// Drop the oldest tokens, as in the book
    Crop,
    /// End the text
    Stop,
}

impl GenerateArgs {
    /// Returns the generation settings for a model. Prints a note if the model's folder contains
    /// settings that this program doesn't support.
    ///
    /// # Errors
    /// Returns an error if a setting in the model's folder is invalid and isn't overridden by an
    /// option, or if there are stop strings but no tokenizer.
    pub(crate) fn settings(&self, found: &FoundModel) -> Result<Settings> {
        let (length, vocabulary) = (&self.length, &found.vocabulary);
        let folder = vocabulary.settings.generation()?;
        let stops = match length.stop.is_empty() {
            true => folder.stop_strings,
            false => length.stop.clone(),
        };
        if !stops.is_empty() {
            let tokenizer = vocabulary.tokenizer();
            tokenizer.context(
                "stop strings (--stop or stop_strings) require a tokenizer, but none is available",
            )?;
        }
        vocabulary.settings.note_unsupported(&folder.unsupported);
        Ok(Settings {
            sampling: self
                .sampling
                .checked(&folder.sampling, found.config().vocab_size)?,
            length: match (
                length.max_new_tokens.map(|n| n.0).or(folder.max_new_tokens),
                folder.max_length,
            ) {
                (Some(tokens), _) => MaxTokens::New(tokens),
                (None, Some(tokens)) => MaxTokens::All(tokens),
                (None, None) => MaxTokens::New(MAX_NEW_TOKENS),
            },
            stops,
            stop_ids: match length.ignore_eos {
                true => Vec::new(),
                false => vocabulary.special.eos.clone(),
            },
            seed: self.sampling.seed.unwrap_or_else(new_seed),
        })
    }

    /// Returns the token IDs of each prompt. With `--lines`, each line of the input is a separate
    /// prompt. If an interactive session begins without a prompt, the result is empty.
    ///
    /// # Errors
    /// Returns the errors of [`prompt`](Self::prompt). With `--lines`, the message contains the
    /// number of the line. Returns a usage error if `--lines` is given but the input consists of
    /// token IDs.
    pub(crate) fn prompts(
        &self,
        found: &FoundModel,
        input: Option<Input>,
    ) -> Result<Vec<Vec<u32>>> {
        match input {
            None => Ok(Vec::new()),
            Some(Input::Text(text)) if self.input.lines => {
                let lines = text.split('\n').map(|line| line.trim_end_matches('\r'));
                let prompt = |(i, line): (usize, &str)| {
                    let ids = self.prompt(found, Input::Text(line.to_owned()));
                    let ids = ids.and_then(|ids| found.vocabulary.begin(&ids).map(|_| ids.clone()));
                    ids.with_context(|| format!("line {}", i + 1))
                };
                lines.enumerate().map(prompt).collect()
            }
            Some(Input::Ids(_)) if self.input.lines => {
                misused("--lines requires text, but the input consists of token IDs")
            }
            Some(input) => Ok(vec![self.prompt(found, input)?]),
        }
    }

    /// Returns the memory that is needed for generating all samples, in addition to the memory for
    /// the weights. `prompts` is the number of prompts, and `longest` is the number of tokens in
    /// the longest prompt.
    pub(crate) fn memory(
        &self,
        found: &FoundModel,
        settings: &Settings,
        prompts: usize,
        longest: usize,
    ) -> Result<Memory> {
        let context = found.config().context_length;
        let context = self
            .length
            .context_size
            .map_or(context, |n| n.0.min(context));
        let tokens = match self.input.interactive {
            true => context,
            false => {
                let new = settings.options(longest)?.max_new_tokens;
                longest.saturating_add(new).min(context)
            }
        };
        let texts = prompts.max(1).saturating_mul(self.length.num_samples.0);
        Ok(found
            .config()
            .decoding_memory(texts.min(MAX_PARALLEL_TEXTS), tokens)?)
    }

    /// Returns the token IDs of a prompt.
    ///
    /// # Errors
    /// Returns an error if a token isn't in the model's vocabulary, or if the prompt is longer than
    /// the context and `--past-context crop` isn't given.
    pub(crate) fn prompt(&self, found: &FoundModel, input: Input) -> Result<Vec<u32>> {
        let room = match (self.length.past_context, self.length.context_size) {
            (Some(WhenFull::Crop), _) => usize::MAX,
            (_, Some(AtLeast1(tokens))) => tokens,
            (_, None) => found.config().context_length,
        };
        let help = "use --past-context crop to keep only the last tokens of the prompt";
        found.prompt(input, room, help)
    }

    /// Returns the configuration of the decoder.
    pub(crate) fn decoder(&self) -> DecoderConfig {
        DecoderConfig {
            context_size: self.length.context_size.map(|n| n.0),
            past_context: match self.length.past_context {
                Some(WhenFull::Stop) => PastContext::Stop,
                Some(WhenFull::Crop) | None => PastContext::Crop,
            },
        }
    }
}

impl SamplingArgs {
    /// Returns the sampling settings for a model whose vocabulary has `vocab_size` tokens.
    /// Command-line options take precedence over `folder`, the settings in the model's
    /// `generation_config.json`, which take precedence over this program's defaults.
    ///
    /// # Errors
    /// Returns an error if a setting in the folder is outside its range and isn't overridden by an
    /// option.
    pub(crate) fn checked(&self, folder: &SamplingDefaults, vocab_size: usize) -> Result<Sampling> {
        let sampling = self.of(folder, vocab_size);
        let checked = sampling.check();
        checked.context("a setting in the model's generation_config.json is invalid")?;
        Ok(sampling)
    }

    fn of(&self, folder: &SamplingDefaults, vocab_size: usize) -> Sampling {
        let repeat_penalty = self.repeat_penalty.or(folder.repeat_penalty).unwrap_or(1.0);
        let asks_to_draw = self.temperature.is_some()
            || self.top_k.is_some()
            || self.top_p.is_some()
            || self.min_p.is_some();
        if folder.is_greedy() && !asks_to_draw {
            return Sampling {
                repetition_penalty: repeat_penalty,
                ..Sampling::GREEDY
            };
        }
        let temperature = self.temperature.or(folder.temperature);
        let temperature = temperature.unwrap_or(TEMPERATURE);
        let top_p = self.top_p.or(folder.top_p).unwrap_or(1.0);
        let min_p = self.min_p.or(folder.min_p).unwrap_or(0.0);
        let folders_top_k = folder.top_k.map(|k| usize::try_from(k).unwrap_or(0));
        let narrows = temperature != TEMPERATURE || top_p != 1.0 || min_p != 0.0;
        let top_k = self.top_k.map(|n| n.0).or(folders_top_k);
        let top_k = top_k.unwrap_or(if narrows { 0 } else { TOP_K });
        Sampling {
            temperature,
            top_k: (top_k > 0).then_some(top_k.min(vocab_size)),
            top_p,
            min_p,
            repetition_penalty: repeat_penalty,
        }
    }
}
