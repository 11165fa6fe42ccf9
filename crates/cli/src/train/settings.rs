//! What a run does, with every default filled in: options in, checked settings out.
//!
//! Later ones win: the program's defaults, the preset's, the file's, the flags'.

use std::path::PathBuf;

use anyhow::Result;
use gpt::{DropRates, GptConfig};
use torch_rng::Build;
use train::{AdamWConfig, Schedule, TrainConfig};

use super::config_file::overlay;
use super::options::TrainOptions;
use crate::failure::Usage;
use crate::presets::{PRESETS, preset};

/// The seed of the book.
const SEED: u64 = 123;

/// A run, before it has its data.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) model: GptConfig,
    pub(crate) training: TrainConfig,
    /// `None` if `max_steps` was given in epochs, which only the data can tell.
    pub(crate) epochs: Option<usize>,
    pub(crate) batch_size: usize,
    /// Tokens in a window, and whether the user asked for that many.
    pub(crate) max_length: usize,
    pub(crate) max_length_is_fixed: bool,
    pub(crate) stride: Option<usize>,
    pub(crate) data: Option<PathBuf>,
    pub(crate) train_ratio: f64,
    pub(crate) seed: u64,
    pub(crate) dropout_build: Build,
    pub(crate) prompt: String,
    pub(crate) sample_tokens: usize,
    /// Steps between samples; 0 for none before the end.
    pub(crate) sample_interval: usize,
    pub(crate) log_interval: usize,
}

/// The options with the preset's and the program's defaults under them; `base` is the model that a run goes on from.
///
/// # Errors
/// If there is no preset of that name.
pub(crate) fn with_defaults(
    options: &TrainOptions,
    base: Option<GptConfig>,
) -> Result<TrainOptions> {
    let preset = match &options.preset {
        Some(name) => preset(name)?,
        None => &PRESETS[0],
    };
    let model = base.unwrap_or(preset.model);
    let training = preset.training;
    let eval_interval = options.eval_interval.unwrap_or(training.eval_interval);
    let prompt = match options.data {
        None => "Marta looked at the river", // of the story that comes with the program
        Some(_) => "Every effort moves you",
    };
    let defaults = TrainOptions {
        train_ratio: Some(0.9),
        preset: Some(preset.names[0].to_owned()),
        n_layers: Some(model.n_layers),
        n_heads: Some(model.n_heads),
        emb_dim: Some(model.emb_dim),
        context_length: Some(model.context_length),
        vocab_size: Some(model.vocab_size),
        drop_rate: Some(model.drop_rates.emb),
        qkv_bias: Some(model.qkv_bias),
        tied: Some(model.tied),
        max_steps: options.epochs.is_none().then_some(training.max_steps),
        batch_size: Some(training.batch_size),
        gradient_accumulation_steps: Some(1),
        learning_rate: Some(training.learning_rate),
        warmup_steps: Some(training.warmup_steps),
        decay_lr: Some(true),
        weight_decay: Some(0.1),
        beta1: Some(0.9),
        beta2: Some(0.999),
        grad_clip: Some(1.0),
        seed: Some(SEED),
        dropout_build: Some(Build::Portable),
        eval_interval: Some(eval_interval),
        eval_iters: Some(training.eval_iters),
        sample_interval: Some(eval_interval.saturating_mul(2)),
        prompt: Some(prompt.to_owned()),
        sample_tokens: Some(40),
        save_interval: Some(eval_interval.saturating_mul(4)),
        log_interval: Some(10),
        ..TrainOptions::default()
    };
    Ok(overlay(&defaults, options))
}

/// Options with defaults as a run's settings.
///
/// # Errors
/// Names the option whose value can't be.
///
/// # Panics
/// If the options didn't come from [`with_defaults`].
pub(crate) fn resolve(options: &TrainOptions, base: Option<GptConfig>) -> Result<Settings> {
    check_numbers(options)?;
    let given = "with_defaults fills it";
    let model = GptConfig {
        vocab_size: options.vocab_size.expect(given),
        context_length: options.context_length.expect(given),
        emb_dim: options.emb_dim.expect(given),
        n_heads: options.n_heads.expect(given),
        n_layers: options.n_layers.expect(given),
        drop_rates: DropRates::all(options.drop_rate.expect(given)),
        qkv_bias: options.qkv_bias.expect(given),
        tied: options.tied.expect(given),
        ..base.unwrap_or(GptConfig::GPT2_124M)
    };
    model.validate()?;
    let max_length = options.max_length.unwrap_or(model.context_length);
    if max_length > model.context_length {
        return refuse(format!(
            "--max-length must be at most the context length {}, got {max_length}",
            model.context_length
        ));
    }
    let max_steps = options.max_steps.unwrap_or(1);
    let training = TrainConfig {
        max_steps: max_steps as u64,
        optimizer: AdamWConfig {
            lr: options.learning_rate.expect(given),
            betas: (options.beta1.expect(given), options.beta2.expect(given)),
            weight_decay: options.weight_decay.expect(given),
            ..AdamWConfig::default()
        },
        schedule: Schedule::Constant, // see `schedule`: it may need the number of steps in an epoch
        max_grad_norm: options.grad_clip.filter(|&norm| norm > 0.0),
        accumulation: options.gradient_accumulation_steps.expect(given) as u64,
        eval_every: options.eval_interval.map(|steps| steps as u64),
        eval_batches: options.eval_iters.expect(given),
        sample: None, // made of `prompt`, which needs the tokenizer
        save_every: options.save_interval.map(|steps| steps as u64),
        keep: 1,
    };
    Ok(Settings {
        model,
        training,
        epochs: options.epochs.filter(|_| options.max_steps.is_none()),
        batch_size: options.batch_size.expect(given),
        max_length,
        max_length_is_fixed: options.max_length.is_some(),
        stride: options.stride,
        data: options.data.clone(),
        train_ratio: options.train_ratio.expect(given),
        seed: options.seed.expect(given),
        dropout_build: options.dropout_build.unwrap_or_default(),
        prompt: options.prompt.clone().expect(given),
        sample_tokens: options.sample_tokens.expect(given),
        sample_interval: options.sample_interval.expect(given),
        log_interval: options.log_interval.expect(given),
    })
}

/// How the learning rate changes in a run of `max_steps`; fills the options it depends on, so that a run keeps them.
pub(crate) fn schedule(options: &mut TrainOptions, max_steps: u64) -> Schedule {
    let peak = options.learning_rate.expect("with_defaults fills it");
    let warmup = options.warmup_steps.unwrap_or(0) as u64;
    let decays = options.decay_lr.unwrap_or(true);
    if !decays && warmup == 0 {
        return Schedule::Constant;
    }
    // A preset's warmup may be longer than a short run.
    let total = options
        .lr_decay_steps
        .map_or(max_steps, |steps| steps as u64)
        .max(1);
    let warmup = warmup.min(total - 1);
    let first_step = peak / (warmup + 1) as f64;
    let initial_lr = *options.initial_lr.get_or_insert(first_step);
    let lowest = if decays { peak / 10.0 } else { peak };
    let min_lr = if decays {
        *options.min_lr.get_or_insert(lowest)
    } else {
        peak
    };
    options.lr_decay_steps = Some(total as usize);
    options.warmup_steps = Some(warmup as usize);
    Schedule::WarmupCosine {
        warmup_steps: warmup,
        total_steps: total,
        initial_lr,
        min_lr,
    }
}

/// Numbers outside their range, told by the flag's name.
fn check_numbers(options: &TrainOptions) -> Result<()> {
    let counts = [
        ("--max-steps", options.max_steps),
        ("--epochs", options.epochs),
        ("--batch-size", options.batch_size),
        (
            "--gradient-accumulation-steps",
            options.gradient_accumulation_steps,
        ),
        ("--lr-decay-steps", options.lr_decay_steps),
        ("--max-length", options.max_length),
        ("--stride", options.stride),
        ("--context-length", options.context_length),
        ("--eval-interval", options.eval_interval),
        ("--eval-iters", options.eval_iters),
        ("--save-interval", options.save_interval),
        ("--log-interval", options.log_interval),
        ("--threads", options.threads),
    ];
    for (name, count) in counts {
        if count == Some(0) {
            return refuse(format!("{name} must be at least 1, got 0"));
        }
    }
    let rates = [
        ("--learning-rate", options.learning_rate),
        ("--min-lr", options.min_lr),
        ("--initial-lr", options.initial_lr),
        ("--weight-decay", options.weight_decay),
        ("--grad-clip", options.grad_clip),
    ];
    for (name, rate) in rates {
        if let Some(rate) = rate
            && !(rate >= 0.0 && rate.is_finite())
        {
            return refuse(format!(
                "{name} must be a finite number of at least 0, got {rate}"
            ));
        }
    }
    let fractions = [
        ("--beta1", options.beta1),
        ("--beta2", options.beta2),
        ("--drop-rate", options.drop_rate),
    ];
    for (name, fraction) in fractions {
        if let Some(fraction) = fraction
            && !(0.0..1.0).contains(&fraction)
        {
            return refuse(format!(
                "{name} must be at least 0 and below 1, got {fraction}"
            ));
        }
    }
    match options.train_ratio {
        Some(ratio) if !(ratio > 0.0 && ratio <= 1.0) => refuse(format!(
            "--train-ratio must be over 0 and at most 1, got {ratio}"
        )),
        _ => Ok(()),
    }
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Usage(message).into())
}
