//! What holds in a run: what was said over the preset over the program's defaults, with what the data decides.

use anyhow::{Result, bail};
use gpt::{DropRates, GptConfig};
use torch_rng::Build;
use train::{AdamWConfig, SampleConfig, Schedule, TrainConfig};

use super::data::{self, Data, Loaders, Source, Windows};
use super::options::TrainOptions;
use super::tokenizer::{TokenizerChoice, bpe_at_most};
use crate::failure::Usage;
use crate::memory::{Purpose, TrainingNeed, check_fits};
use crate::presets::{PRESETS, Preset};
use crate::vocabulary::{Vocabulary, is_gpt2_size};

/// The seed of the book.
const SEED: u64 = 123;
/// Tokens between the windows of the story that comes with the program.
const STORY_STRIDE: usize = 8;

/// The model that a run goes on from.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) model: GptConfig,
    pub(crate) vocabulary: Vocabulary,
}

/// Checkpoints to keep: one to go back to if the newest is damaged.
const KEEP: usize = 2;

/// A run before its first step, but for its weights.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) model: GptConfig,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) training: TrainConfig,
    pub(crate) batch_size: usize,
    pub(crate) seed: u64,
    pub(crate) dropout_build: Build,
    pub(crate) log_interval: u64,
    pub(crate) data: Data,
    pub(crate) loaders: Loaders,
    /// The memory that it takes.
    pub(crate) need: TrainingNeed,
    /// All of it as options, for whoever wants the same run again.
    pub(crate) kept: TrainOptions,
}

impl Settings {
    pub(crate) fn tokens_per_step(&self) -> u64 {
        let tokens_per_batch = (self.batch_size * self.loaders.max_length) as u64;
        self.training.accumulation.saturating_mul(tokens_per_batch)
    }

    pub(crate) fn steps_per_epoch(&self) -> u64 {
        let batches = self.loaders.train.len() as u64;
        batches.div_ceil(self.training.accumulation)
    }

    /// Passes over the data.
    pub(crate) fn epochs(&self) -> f64 {
        let batches = self.training.max_steps as f64 * self.training.accumulation as f64;
        batches / self.loaders.train.len() as f64
    }
}

/// Fills in the defaults, reads the data, and counts steps and samples; `base` is the model that a run goes on from.
///
/// # Errors
/// If the model can't be or doesn't fit the memory, or the data can't be read or doesn't fit the model.
pub(crate) fn settle(said: &TrainOptions, base: Option<Base>) -> Result<Settings> {
    let preset = said.preset.unwrap_or(PRESETS[0]);
    let mut model = model(said, base.as_ref().map_or(preset.model, |base| base.model));
    if let Some(base) = &base {
        refuse_other_weights(&model, &base.model)?;
    }
    if let Some(length) = said.max_length
        && length > model.context_length
    {
        let most = model.context_length;
        let message =
            format!("--max-length must be at most the context length {most}, got {length}");
        return Err(Usage(message).into());
    }
    let train_ratio = said.train_ratio.unwrap_or(0.9);
    let batch_size = said.batch_size.unwrap_or(preset.training.batch_size);
    // Before the data is encoded, and after it is known how many tokens there are.
    check_fits(&model, Purpose::Training)?;
    let source = Source::read(said.data.as_deref(), train_ratio)?;
    let (tokenizer, vocabulary) = match base {
        Some(base) if said.tokenizer.is_none() || base.vocabulary.tokenizer().is_ok() => {
            (said.tokenizer.clone(), base.vocabulary)
        }
        _ => choose(said, &preset, &source)?,
    };
    if said.vocab_size.is_none()
        && said.init_from.is_none()
        && let Ok(tokenizer) = vocabulary.tokenizer()
    {
        model.vocab_size = tokenizer.vocab_size();
        check_fits(&model, Purpose::Training)?;
    }
    let data = source.encode(&vocabulary, model.vocab_size)?;
    // The story is so short that windows which begin anywhere teach much more; options of older runs name `max_length` and keep their windows.
    let overlapping = said.data.is_none() && said.max_length.is_none();
    let stride = match said.stride {
        None if overlapping => Some(STORY_STRIDE.min(model.context_length)),
        said => said,
    };
    let windows = Windows {
        context_length: model.context_length,
        max_length: said.max_length,
        stride,
        batch_size,
    };
    let loaders = data::loaders(&data, windows)?;
    let windows = loaders.train.dataset().len();
    let need = TrainingNeed::of(&model, (batch_size, loaders.max_length, windows))?;
    need.check()?;

    let accumulation = said.gradient_accumulation_steps.unwrap_or(1);
    let max_steps = match (said.max_steps, said.epochs) {
        (Some(steps), _) => steps,
        (None, Some(epochs)) => {
            let batches = epochs.saturating_mul(loaders.train.len());
            batches.div_ceil(accumulation)
        }
        (None, None) => preset.training.max_steps,
    };
    let learning_rate = said.learning_rate.unwrap_or(preset.training.learning_rate);
    let warmup_steps = said.warmup_steps.unwrap_or(preset.training.warmup_steps);
    let schedule = schedule(said, learning_rate, warmup_steps as u64, max_steps as u64)?;
    let optimizer = AdamWConfig {
        lr: learning_rate,
        betas: (said.beta1.unwrap_or(0.9), said.beta2.unwrap_or(0.999)),
        weight_decay: said.weight_decay.unwrap_or(0.1),
        ..AdamWConfig::default()
    };
    let grad_clip = said.grad_clip.unwrap_or(1.0);
    let eval_interval = said.eval_interval.unwrap_or(preset.training.eval_interval);
    let eval_iters = said.eval_iters.unwrap_or(preset.training.eval_iters);
    let sample_interval = said
        .sample_interval
        .unwrap_or(eval_interval.saturating_mul(2));
    let sample_tokens = said.sample_tokens.unwrap_or(40);
    let save_interval = said
        .save_interval
        .unwrap_or(eval_interval.saturating_mul(4));
    let keep = said.keep.unwrap_or(KEEP);
    let prompt = said.prompt.clone().unwrap_or_else(|| {
        match said.data {
            None => "Marta looked at the river", // of the story that comes with the program
            Some(_) => "Every effort moves you",
        }
        .to_owned()
    });
    let prompt_ids = match vocabulary.tokenizer() {
        Ok(tokenizer) => tokenizer.encode(&prompt)?,
        Err(_) => vec![0], // there is no text to begin with
    };
    let training = TrainConfig {
        max_steps: max_steps as u64,
        optimizer,
        schedule,
        max_grad_norm: (grad_clip > 0.0).then_some(grad_clip),
        accumulation: accumulation as u64,
        eval_every: Some(eval_interval as u64),
        eval_batches: eval_iters,
        sample: (sample_tokens > 0 && !prompt_ids.is_empty()).then_some(SampleConfig {
            prompt: prompt_ids,
            max_new_tokens: sample_tokens,
            every: Some(match sample_interval {
                0 => u64::MAX, // the last one is made by hand
                steps => steps as u64,
            }),
        }),
        save_every: Some(save_interval as u64),
        keep,
    };

    let seed = said.seed.unwrap_or(SEED);
    let dropout_build = said.dropout_build.unwrap_or_default();
    let log_interval = said.log_interval.unwrap_or(10);
    let kept = TrainOptions {
        train_ratio: Some(train_ratio),
        max_length: Some(loaders.max_length),
        stride,
        preset: Some(preset),
        tokenizer,
        n_layers: Some(model.n_layers),
        n_heads: Some(model.n_heads),
        emb_dim: Some(model.emb_dim),
        context_length: Some(model.context_length),
        vocab_size: Some(model.vocab_size),
        drop_rate: model.drop_rates.common(),
        qkv_bias: Some(model.qkv_bias),
        tied: Some(model.tied),
        max_steps: Some(max_steps),
        epochs: None, // these steps are
        batch_size: Some(batch_size),
        gradient_accumulation_steps: Some(accumulation),
        learning_rate: Some(learning_rate),
        decay_lr: Some(said.decay_lr.unwrap_or(true)),
        weight_decay: Some(optimizer.weight_decay),
        beta1: Some(optimizer.betas.0),
        beta2: Some(optimizer.betas.1),
        grad_clip: Some(grad_clip),
        seed: Some(seed),
        dropout_build: Some(dropout_build),
        eval_interval: Some(eval_interval),
        eval_iters: Some(eval_iters),
        sample_interval: Some(sample_interval),
        prompt: Some(prompt),
        sample_tokens: Some(sample_tokens),
        save_interval: Some(save_interval),
        keep: Some(keep),
        log_interval: Some(log_interval),
        warmup_steps: Some(warmup_steps),
        ..said.clone()
    };
    Ok(Settings {
        model,
        vocabulary,
        training,
        batch_size,
        seed,
        dropout_build,
        log_interval: log_interval as u64,
        data,
        loaders,
        need,
        kept: with_schedule(kept, schedule),
    })
}

/// The tokenizer of a new model, and what is kept of the choice.
fn choose(
    said: &TrainOptions,
    preset: &Preset,
    source: &Source,
) -> Result<(Option<TokenizerChoice>, Vocabulary)> {
    let choice = match (&said.tokenizer, source.folder_of_ids(), said.vocab_size) {
        (Some(choice), ..) => choice.clone(),
        (None, Some(folder), size) => {
            let size = size.unwrap_or(GptConfig::GPT2_124M.vocab_size);
            return Ok((None, Vocabulary::of_folder(folder, size)));
        }
        (None, None, Some(size)) if is_gpt2_size(size) => TokenizerChoice::Gpt2,
        (None, None, _) => match (preset.bpe, source.text()) {
            (Some(most), Some(text)) => bpe_at_most(text, most)?,
            _ => TokenizerChoice::Gpt2,
        },
    };
    let vocabulary = choice.make(source.text())?;
    let (size, least) = (said.vocab_size, vocabulary.tokenizer()?.vocab_size());
    if let Some(size) = size.filter(|&size| size < least) {
        bail!("--vocab-size {size}: the tokenizer {choice} has {least} tokens");
    }
    Ok((Some(choice), vocabulary))
}

fn model(said: &TrainOptions, base: GptConfig) -> GptConfig {
    GptConfig {
        vocab_size: said.vocab_size.unwrap_or(base.vocab_size),
        context_length: said.context_length.unwrap_or(base.context_length),
        emb_dim: said.emb_dim.unwrap_or(base.emb_dim),
        n_heads: said.n_heads.unwrap_or(base.n_heads),
        n_layers: said.n_layers.unwrap_or(base.n_layers),
        drop_rates: said.drop_rate.map_or(base.drop_rates, DropRates::all),
        qkv_bias: said.qkv_bias.unwrap_or(base.qkv_bias),
        tied: said.tied.unwrap_or(base.tied),
        ..base
    }
}

/// That the weights of `base` do in `asked` what they did before.
fn refuse_other_weights(asked: &GptConfig, base: &GptConfig) -> Result<()> {
    let facts = |model: &GptConfig| {
        [
            ("vocab-size", model.vocab_size.to_string()),
            ("context-length", model.context_length.to_string()),
            ("emb-dim", model.emb_dim.to_string()),
            ("n-heads", model.n_heads.to_string()),
            ("n-layers", model.n_layers.to_string()),
            ("qkv-bias", model.qkv_bias.to_string()),
            ("tied", model.tied.to_string()),
        ]
    };
    for ((flag, asked), (_, own)) in facts(asked).into_iter().zip(facts(base)) {
        if asked != own {
            bail!(
                "--{flag} {asked}: the model to go on with has {own}, and its weights are of no use to another"
            );
        }
    }
    Ok(())
}

/// How the learning rate changes in a run of `max_steps`.
///
/// # Errors
/// If the decay would end within the warmup.
fn schedule(said: &TrainOptions, peak: f64, warmup_steps: u64, max_steps: u64) -> Result<Schedule> {
    let decays = said.decay_lr.unwrap_or(true);
    if !decays && warmup_steps == 0 {
        return Ok(Schedule::Constant);
    }
    let end = said.lr_decay_steps.map_or(max_steps, |steps| steps as u64);
    let (warmup_steps, total_steps) = match (said.warmup_steps, said.lr_decay_steps) {
        // A preset's warmup may be longer than a short run.
        (None, _) => (warmup_steps.min(end - 1), end),
        (Some(_), Some(_)) if decays && warmup_steps >= end => {
            let problem = format!(
                "--warmup-steps {warmup_steps}: the decay ends at step {end} (--lr-decay-steps), expected a shorter warmup or a later end"
            );
            return Err(Usage(problem).into());
        }
        // A run may end before its rate has risen to the highest.
        (Some(_), _) => (warmup_steps, end.max(warmup_steps.saturating_add(1))),
    };
    Ok(Schedule::WarmupCosine {
        warmup_steps,
        total_steps,
        initial_lr: said
            .initial_lr
            .unwrap_or(peak / (warmup_steps as f64 + 1.0)),
        min_lr: match decays {
            true => said.min_lr.unwrap_or(peak / 10.0),
            false => peak,
        },
    })
}

/// The options with what the schedule depends on, so that a longer run has the same.
fn with_schedule(options: TrainOptions, schedule: Schedule) -> TrainOptions {
    match schedule {
        Schedule::Constant => options,
        Schedule::WarmupCosine {
            warmup_steps,
            total_steps,
            initial_lr,
            min_lr,
        } => TrainOptions {
            warmup_steps: Some(warmup_steps as usize),
            lr_decay_steps: Some(total_steps as usize),
            initial_lr: Some(initial_lr),
            min_lr: Some(min_lr),
            ..options
        },
    }
}
