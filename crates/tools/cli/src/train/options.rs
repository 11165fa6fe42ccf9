//! Defines the options of `gpt train`, including the help, the range and the default of each
//! option.
//!
//! A training run saves its options in a file called `options.toml`. When the run is resumed, the
//! current options are compared with the saved ones. The module `arguments` combines the options
//! from all sources, such as the command line and the preset. If an option is still `None` after
//! that, the module `setup` derives its value from other options or from the data.

use std::fmt::Display;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{ArgAction, Args};
use gpt::{DropRates, GptConfig};
use serde::{Serialize, Serializer};
use tensor_ops::{Dtype, OPERAND_DTYPES};
use toml::Table;
use torch_rng::Build;
use train::presets::{Preset, PresetTraining, STORY};

use super::choice::{TokenizerChoice, preset_parser};
use crate::terminal::command::flag;
use crate::terminal::numbers::{
    AtLeast1, Below1, Count, NotNegative, Part, Threads, dtype_among, signed_seed,
};

/// Model and training settings of the default preset. If the default value of an option depends on
/// the preset, the help shows the value from this preset.
const MODEL: GptConfig = STORY.model;
const TRAINING: PresetTraining = STORY.training;

/// Examples that are shown below the help.
const EXAMPLES: &str = "\
Examples:
  gpt train                                    train a small model on a story
  gpt train --data book.txt --max-steps 2000   train on your own text
  gpt train --resume                           resume the newest run

Ctrl-C finishes the current step, saves the run, and prints the command that
resumes it. nanoGPT's option names also work: --max-iters, --lr, --n-layer,
--n-head, --n-embd, --block-size and --dropout.";

/// Section about training with several processes, which is appended to the output of `gpt train
/// --help` if the program was built with MPI.
#[cfg(feature = "mpi")]
const MPI_EXAMPLES: &str = "

Several processes can share the batches of a step. The result is the same, bit
for bit:
  mpirun -n 4 gpt train --gradient-accumulation-steps 8";
#[cfg(not(feature = "mpi"))]
const MPI_EXAMPLES: &str = "";

/// The arguments of `gpt train`.
#[derive(Args, Debug)]
#[command(after_help = format!("{EXAMPLES}{MPI_EXAMPLES}"))]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) options: TrainOptions,
    /// A TOML file of options, whose keys are the names of the flags; flags on the command line
    /// take precedence
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) config: Option<PathBuf>,
    /// Resume a training run [default: the newest run]
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    pub(crate) resume: Option<Option<PathBuf>>,
    /// Print a list of the MPI processes at the start, and the communication statistics of rank 0
    /// at the end
    #[cfg(feature = "mpi")]
    #[arg(short, long, help_heading = "Run")]
    pub(crate) verbose: bool,
}

/// The options of a training run. The most important options come first in the help. They belong to
/// no group, so the help shows them without a group heading.
#[derive(Args, Clone, Debug, Serialize)]
#[group(skip)]
pub(crate) struct TrainOptions {
    /// The training data: a text file, a file of token IDs, or a folder that contains either
    /// [default: a short story]
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The tokenizer of a new model: gpt2, chars (one token per character), bpe:N (a vocabulary of
    /// N tokens built from the data), or a folder with a tokenizer [default: the preset's
    /// tokenizer]
    #[arg(long, value_name = "gpt2|chars|bpe:N|DIR")]
    #[serde(serialize_with = "by_name")]
    pub(crate) tokenizer: Option<TokenizerChoice>,
    /// A named set of model sizes and training settings, which replace the default values of the
    /// options [default: story]
    #[arg(long, value_name = "NAME", value_parser = preset_parser(), ignore_case = true)]
    #[serde(serialize_with = "by_name")]
    pub(crate) preset: Option<Preset>,
    /// The folder of a model whose weights are used as the initial weights (fine-tuning)
    #[arg(long, value_name = "DIR")]
    pub(crate) init_from: Option<PathBuf>,
    /// The number of training steps [default: the preset's number]
    #[arg(long, value_name = "N", aliases = ["max-iters", "steps"])]
    pub(crate) max_steps: Option<AtLeast1>,
    /// The number of passes over the training data (an alternative to --max-steps)
    #[arg(
        long,
        value_name = "N",
        alias = "num-epochs",
        conflicts_with = "max_steps"
    )]
    pub(crate) epochs: Option<AtLeast1>,
    /// The number of windows (token sequences) in each batch
    #[arg(long, value_name = "N", default_value_t = AtLeast1(TRAINING.batch_size))]
    pub(crate) batch_size: AtLeast1,
    /// The maximum learning rate
    #[arg(long, value_name = "X", alias = "lr", default_value_t = NotNegative(TRAINING.learning_rate))]
    pub(crate) learning_rate: NotNegative,
    /// The seed of the random number generator
    #[arg(short = 's', long, value_name = "N", value_parser = signed_seed, default_value_t = 123)]
    pub(crate) seed: i64,
    /// The folder of the run [default: a new folder in runs/]
    #[arg(short = 'o', long, value_name = "DIR")]
    #[serde(skip_serializing)] // The path isn't saved because users may move the folder.
    pub(crate) out_dir: Option<PathBuf>,

    /// The fraction of the data to train on; the rest is used for validation
    #[arg(long, value_name = "X", help_heading = "Data", default_value_t = Part(0.9))]
    pub(crate) train_ratio: Part,
    /// The number of tokens in each window [default: the context length, or less for fine-tuning
    /// and short texts]
    #[arg(long, value_name = "N", help_heading = "Data")]
    pub(crate) max_length: Option<AtLeast1>,
    /// The number of tokens from the start of one window to the start of the next [default:
    /// max-length, or 8 for the short story]
    #[arg(long, value_name = "N", help_heading = "Data")]
    pub(crate) stride: Option<AtLeast1>,

    /// The number of transformer blocks
    #[arg(long, value_name = "N", alias = "n-layer", help_heading = "Model", default_value_t = Count(MODEL.n_layers))]
    n_layers: Count,
    /// The number of attention heads in each block
    #[arg(long, value_name = "N", alias = "n-head", help_heading = "Model", default_value_t = Count(MODEL.n_heads))]
    n_heads: Count,
    /// The number of features per token (the embedding dimension)
    #[arg(long, value_name = "N", alias = "n-embd", help_heading = "Model", default_value_t = Count(MODEL.emb_dim))]
    emb_dim: Count,
    /// The maximum number of tokens that the model can process at once
    #[arg(long, value_name = "N", alias = "block-size", help_heading = "Model", default_value_t = AtLeast1(MODEL.context_length))]
    context_length: AtLeast1,
    /// The number of tokens in the vocabulary [default: the size of the tokenizer's vocabulary]
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) vocab_size: Option<Count>,
    /// The probability that dropout sets a value to 0 [default: the preset's probability]
    #[arg(long, value_name = "P", alias = "dropout", help_heading = "Model")]
    // The default is `None` if a base model uses different dropout rates in different places,
    // because a single number can't represent them. The model then keeps its own rates.
    drop_rate: Option<Below1>,
    /// Add biases to the layers that compute the queries, keys and values
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true, help_heading = "Model", default_value_t = false)]
    qkv_bias: bool,
    /// Reuse the weights of the token embedding in the output layer (weight tying)
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true, aliases = ["tie-weights", "weight-tying"], help_heading = "Model", default_value_t = false)]
    tied: bool,

    /// The number of batches whose gradients are accumulated in each training step
    #[arg(long, value_name = "N", help_heading = "Training", default_value_t = AtLeast1(1))]
    pub(crate) gradient_accumulation_steps: AtLeast1,
    /// The number of steps at the start of training during which the learning rate rises to its
    /// maximum
    #[arg(long, value_name = "N", alias = "warmup-iters", help_heading = "Training", default_value_t = Count(TRAINING.warmup_steps))]
    pub(crate) warmup_steps: Count,
    /// The learning rate at the end of training [default: a tenth of the maximum learning rate]
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub(crate) min_lr: Option<NotNegative>,
    /// The weight decay of AdamW
    #[arg(long, value_name = "X", help_heading = "Training", default_value_t = NotNegative(0.1))]
    pub(crate) weight_decay: NotNegative,
    /// AdamW's beta1, the decay rate of the moving average of the gradients
    #[arg(long, value_name = "X", help_heading = "Training", default_value_t = Below1(0.9))]
    pub(crate) beta1: Below1,
    /// AdamW's beta2, the decay rate of the moving average of the squared gradients
    #[arg(long, value_name = "X", help_heading = "Training", default_value_t = Below1(0.999))]
    pub(crate) beta2: Below1,
    /// The maximum norm of the gradient; gradients with a larger norm are scaled down to it, and 0
    /// means no limit
    #[arg(long, value_name = "X", help_heading = "Training", default_value_t = NotNegative(1.0))]
    pub(crate) grad_clip: NotNegative,
    /// The number format of the operands of linear layers: float32 or bfloat16
    #[arg(
        long,
        value_name = "TYPE",
        help_heading = "Training",
        value_parser = dtype_among(OPERAND_DTYPES),
        default_value_t
    )]
    pub(crate) dtype: Dtype,
    /// The PyTorch build whose dropout masks are reproduced: portable or mkl
    #[arg(
        long,
        value_name = "BUILD",
        help_heading = "Training",
        default_value = "portable"
    )]
    #[serde(serialize_with = "by_name")]
    pub(crate) dropout_build: Option<Build>,

    /// The number of steps between evaluations
    #[arg(long, value_name = "N", alias = "eval-freq", help_heading = "Evaluation", default_value_t = AtLeast1(TRAINING.eval_interval))]
    pub(crate) eval_interval: AtLeast1,
    /// The number of batches whose losses are averaged in each evaluation, both for the training
    /// loss and for the validation loss
    #[arg(long, value_name = "N", alias = "eval-iter", help_heading = "Evaluation", default_value_t = AtLeast1(TRAINING.eval_iters))]
    pub(crate) eval_iters: AtLeast1,
    /// The prompt of the samples that are generated during training [default: the beginning of the
    /// data]
    #[arg(
        short = 'p',
        long,
        value_name = "TEXT",
        alias = "start",
        help_heading = "Evaluation"
    )]
    pub(crate) prompt: Option<String>,
    /// The number of steps between samples; 0 means that a sample is generated only at the end
    /// [default: twice the evaluation interval]
    #[arg(long, value_name = "N", help_heading = "Evaluation")]
    pub(crate) sample_interval: Option<Count>,
    /// The number of tokens to generate in each sample; 0 means that no samples are generated
    #[arg(long, value_name = "N", help_heading = "Evaluation", default_value_t = Count(40))]
    pub(crate) sample_tokens: Count,

    /// The number of steps between checkpoints [default: the evaluation interval]
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub(crate) save_interval: Option<AtLeast1>,
    /// The number of threads, which doesn't affect the results [default: the number of cores]
    #[arg(short = 't', long, value_name = "N", help_heading = "Run")]
    pub(crate) threads: Option<Threads>,
    /// The number of most recent checkpoints to keep, in addition to the best checkpoint
    #[arg(long, value_name = "N", help_heading = "Run", default_value_t = AtLeast1(2))]
    // The default is 2, so that a run can still be resumed from the previous checkpoint if the
    // latest one is damaged. `keep` must remain the last field of this struct and must always be
    // saved: if it is missing in the file `options.toml` of a run, the program knows that the end
    // of this file has been lost.
    pub(crate) keep: AtLeast1,
}

impl TrainOptions {
    /// Returns the options as a TOML table, as they are saved in `options.toml`. Options that are
    /// `None` are left out.
    pub(crate) fn table(&self) -> Result<Table> {
        Ok(Table::try_from(self)?)
    }

    /// Returns the preset that the user has chosen, or the default preset if the user hasn't chosen
    /// one.
    pub(crate) fn preset(&self) -> Preset {
        self.preset.unwrap_or(STORY)
    }

    /// Returns the configuration of the model to train, such as its number of layers. Settings that
    /// are given by these options come from the options. All others come from `own`, the
    /// configuration of the base model, or from the preset if there is no base model.
    ///
    /// # Errors
    /// Returns an error if an option doesn't match the weights of the base model.
    pub(crate) fn model(&self, own: Option<&GptConfig>) -> Result<GptConfig> {
        let (base, is_fixed) = (*own.unwrap_or(&self.preset().model), own.is_some());
        let rates = self.drop_rate.map(|rate| DropRates::all(rate.0));
        let model = GptConfig {
            vocab_size: self.vocab_size.map_or(base.vocab_size, |size| size.0),
            context_length: self.context_length.0,
            emb_dim: self.emb_dim.0,
            n_heads: self.n_heads.0,
            n_layers: self.n_layers.0,
            drop_rates: rates.unwrap_or(base.drop_rates),
            qkv_bias: self.qkv_bias,
            tied: self.tied,
            ..base
        };
        let (own, asked) = (shape(&base)?, shape(&model)?);
        for (name, asked) in asked.iter().filter(|_| is_fixed) {
            if &own[name] != asked {
                bail!(
                    "{} {asked}: the base model uses {}, and its weights work only with that value; omit this option",
                    flag(name),
                    own[name]
                );
            }
        }
        Ok(model)
    }
}

/// Returns those settings of a model that its weights determine, such as the number of layers and
/// the number of heads. A run that fine-tunes the model can't change them. In the returned table,
/// the keys are the names of the training options.
pub(crate) fn shape(model: &GptConfig) -> Result<Table> {
    const NAMES: [&str; 7] = [
        "vocab_size",
        "context_length",
        "emb_dim",
        "n_heads",
        "n_layers",
        "qkv_bias",
        "tied",
    ];
    let mut table = Table::try_from(model)?;
    table.retain(|name, _| NAMES.contains(&name));
    Ok(table)
}

/// Serializes a value as its name on the command line.
fn by_name<S: Serializer>(choice: &Option<impl Display>, to: S) -> Result<S::Ok, S::Error> {
    choice.as_ref().map(ToString::to_string).serialize(to)
}
