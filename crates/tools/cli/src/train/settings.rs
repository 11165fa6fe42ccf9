//! What holds in a run: its options, with what other options and the data decide filled in, and
//! what is made of them.

use std::path::Path;

use anyhow::{Context, Result, bail};
use gpt::{GptConfig, Memory};
use train::{AdamWConfig, SampleConfig, Schedule, TrainConfig};

use super::data::{Data, Source};
use super::options::{TrainOptions, TrainingOptions, is_shape, of_model};
use super::plot;
use super::tokenizer::{TokenizerChoice, bpe_at_most};
use crate::failure::misused;
use crate::memory::{check, check_model};
use crate::presets::Training;
use crate::vocabulary::{Vocabulary, is_gpt2_size};
use crate::working::Working;

/// Tokens between the windows of the story that comes with the program.
const STORY_STRIDE: usize = 8;
/// Tokens in a window at most, of a model that goes on from weights that are there.
const FINE_TUNING_WINDOW: usize = 256;

/// The model that a run goes on from.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) model: GptConfig,
    pub(crate) vocabulary: Vocabulary,
}

impl Base {
    /// A model whose tokenizer is in a folder.
    pub(crate) fn of(model: GptConfig, folder: &Path) -> Result<Self> {
        let vocabulary = Vocabulary::of_model(folder, model.vocab_size)?;
        Ok(Self { model, vocabulary })
    }
}

/// A run before its first step, but for its weights.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// All that can be chosen; whoever gives them again gets the same run.
    pub(crate) options: TrainOptions,
    pub(crate) model: GptConfig,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) training: TrainConfig,
    pub(crate) data: Data,
    /// The memory that it takes.
    pub(crate) need: Memory,
}

impl Settings {
    /// Tokens in a window.
    pub(crate) fn max_length(&self) -> usize {
        self.data.train.dataset().max_length()
    }

    pub(crate) fn tokens_per_step(&self) -> u64 {
        let tokens_per_batch = (self.options.training.batch_size * self.max_length()) as u64;
        self.training.accumulation.saturating_mul(tokens_per_batch)
    }

    pub(crate) fn steps_per_epoch(&self) -> u64 {
        let batches = self.data.train.len() as u64;
        batches.div_ceil(self.training.accumulation)
    }

    /// Passes over the data.
    pub(crate) fn epochs(&self) -> f64 {
        let steps = self.training.max_steps as f64;
        match self.training.whole_epochs {
            true => steps / self.steps_per_epoch() as f64,
            false => steps * self.training.accumulation as f64 / self.data.train.len() as f64,
        }
    }
}

/// Reads the data, fills in what it and other options decide, and counts steps and samples; `base`
/// is the model that a run goes on from.
///
/// # Errors
/// If the model can't be or doesn't fit the memory, or the data can't be read or doesn't fit the
/// model.
pub(crate) fn settle(mut options: TrainOptions, base: Option<Base>) -> Result<Settings> {
    let start = base
        .as_ref()
        .map_or(options.model.preset().model, |base| base.model);
    let mut model = options.model.over(start);
    if let Some(base) = &base {
        refuse_other_weights(&model, &base.model)?;
    }
    if let Some(length) = options.data.max_length
        && length > model.context_length
    {
        let most = model.context_length;
        return misused(format!(
            "--max-length must be at most the context length {most}, got {length}"
        ));
    }
    // Before the data is encoded, and after it is known how many tokens there are.
    check_model(&model, &memory(&model, 1, 1)?)?;
    let working = Working::on("reading the data, and its tokens", 0);
    let source = Source::read(options.data.data.as_deref(), options.data.train_ratio)?;
    let prompt = prompt(&options, &source);
    let vocabulary = match base {
        Some(base) if options.model.tokenizer.is_none() || base.vocabulary.tokenizer().is_ok() => {
            base.vocabulary
        }
        _ => choose(&mut options, &source)?,
    };
    if options.model.vocab_size.is_none() {
        let tokenizer = vocabulary.tokenizer();
        let tokenizer = tokenizer.context("without --vocab-size N the tokenizer is needed")?;
        model.vocab_size = tokenizer.vocab_size();
        check_model(&model, &memory(&model, 1, 1)?)?;
    }
    options.model.vocab_size = Some(model.vocab_size);
    let ids = source.encode(&vocabulary, model.vocab_size)?;
    drop(working);

    // The story is so short that windows which begin anywhere teach much more; options of older
    // runs name `max_length` and keep their windows.
    if options.data.data.is_none() && options.data.max_length.is_none() {
        let stride = STORY_STRIDE.min(model.context_length);
        options.data.stride.get_or_insert(stride);
    }
    let context_length = match options.model.init_from {
        Some(_) => model.context_length.min(FINE_TUNING_WINDOW),
        None => model.context_length,
    };
    let data = source.windows(ids, &options, context_length)?;
    let windows = data.train.dataset();
    let max_length = *options.data.max_length.insert(windows.max_length());
    let accumulation = options.training.gradient_accumulation_steps;
    let mut need = memory(&model, options.training.batch_size, max_length)?;
    if accumulation > 1 {
        let gradients = [size_of::<f32>(), model.size()?.total()];
        need = need.with("gradients of a later batch", &gradients)?;
    }
    // Of an epoch, and a copy that is shuffled.
    let order = [2 * size_of::<usize>(), windows.len()];
    let need = need.with("the order of the windows", &order)?;
    check(&need)?;

    if let Some(epochs) = options.training.epochs {
        let steps_per_epoch = data.train.len().div_ceil(accumulation);
        options.free.max_steps = epochs.saturating_mul(steps_per_epoch);
    }
    let recipe = options.model.recipe();
    let schedule = schedule(&mut options.training, recipe, options.free.max_steps)?;
    let (said, free) = (&options.training, &mut options.free);
    let rarer = |times| said.eval_interval.saturating_mul(times);
    let sample_interval = *free.sample_interval.get_or_insert(rarer(2));
    let save_interval = *free.save_interval.get_or_insert(rarer(4));
    let prompt = match vocabulary.tokenizer() {
        Ok(tokenizer) => tokenizer.encode(free.prompt.get_or_insert(prompt))?,
        Err(_) => vec![0], // there is no text to begin with
    };
    let training = TrainConfig {
        max_steps: free.max_steps as u64,
        optimizer: AdamWConfig {
            lr: said.learning_rate,
            betas: (said.beta1, said.beta2),
            weight_decay: said.weight_decay,
            ..AdamWConfig::default()
        },
        schedule,
        max_grad_norm: (said.grad_clip > 0.0).then_some(said.grad_clip),
        accumulation: said.gradient_accumulation_steps as u64,
        whole_epochs: said.epochs.is_some(),
        eval_every: Some(said.eval_interval as u64),
        eval_first: said.eval_interval as u64,
        eval_batches: said.eval_iters,
        sample: (free.sample_tokens > 0 && !prompt.is_empty()).then_some(SampleConfig {
            prompt,
            max_new_tokens: free.sample_tokens,
            every: Some(match sample_interval {
                0 => u64::MAX, // the last one is made by hand
                steps => steps as u64,
            }),
        }),
        save_every: Some(save_interval as u64),
        keep: free.keep,
    };
    Ok(Settings {
        options,
        model,
        vocabulary,
        training,
        data,
        need,
    })
}

/// What a run takes, its loss curve included.
fn memory(model: &GptConfig, batch_size: usize, tokens: usize) -> Result<Memory> {
    let memory = model.training_memory(batch_size, tokens)?;
    Ok(memory.with("the loss curve's picture", &[plot::BYTES])?)
}

/// What samples of text begin with where nothing is said: as the data does.
fn prompt(options: &TrainOptions, source: &Source) -> String {
    let words = match (&options.data.data, source.text()) {
        (None, _) => "Marta looked at the river".to_owned(), // of the story
        (Some(_), text) => beginning(text.unwrap_or_default()),
    };
    match words.is_empty() {
        true => "Every effort moves you".to_owned(),
        false => words,
    }
}

/// The first words of a text, as far as a shell takes them between quotes as they are.
pub(crate) fn beginning(text: &str) -> String {
    let is_plain = |word: &&str| {
        word.chars()
            .all(|c| c.is_alphanumeric() || ",.-'".contains(c))
    };
    let words = text.split_whitespace().take_while(is_plain);
    words.take(3).collect::<Vec<_>>().join(" ")
}

/// The tokenizer of a new model; the choice is kept among the options.
fn choose(options: &mut TrainOptions, source: &Source) -> Result<Vocabulary> {
    let choice = match (
        &options.model.tokenizer,
        source.folder_of_ids(),
        options.model.vocab_size,
    ) {
        (Some(choice), ..) => choice.clone(),
        (None, Some(folder), size) => {
            let size = size.unwrap_or(GptConfig::GPT2_124M.vocab_size);
            return Vocabulary::of_folder(folder, size);
        }
        (None, None, Some(size)) if is_gpt2_size(size) => TokenizerChoice::Gpt2,
        (None, None, _) => match (options.model.preset().bpe, source.text()) {
            (Some(most), Some(text)) => bpe_at_most(text, most)?,
            _ => TokenizerChoice::Gpt2,
        },
    };
    let vocabulary = choice.make(source.text())?;
    let (size, least) = (
        options.model.vocab_size,
        vocabulary.tokenizer()?.vocab_size(),
    );
    if let Some(size) = size.filter(|&size| size < least) {
        bail!("--vocab-size {size}: the tokenizer {choice} has {least} tokens");
    }
    options.model.tokenizer = Some(choice);
    Ok(vocabulary)
}

/// That the weights of `base` do in `asked` what they did before.
fn refuse_other_weights(asked: &GptConfig, base: &GptConfig) -> Result<()> {
    for ((name, asked), (_, own)) in of_model(asked).into_iter().zip(of_model(base)) {
        if let (Some(asked), Some(own)) = (asked, own)
            && asked != own
            && is_shape(name)
        {
            let flag = name.replace('_', "-");
            bail!(
                "--{flag} {asked}: the model to go on with has {own}, and its weights are of no use to another"
            );
        }
    }
    Ok(())
}

/// How the learning rate changes; what that depends on is filled in, so that a longer run has the
/// same.
///
/// # Errors
/// If the decay would end within the warmup.
fn schedule(options: &mut TrainingOptions, recipe: Training, max_steps: usize) -> Result<Schedule> {
    let (peak, decays) = (options.learning_rate, options.decay_lr);
    let end = options.lr_decay_steps.unwrap_or(max_steps);
    let most = recipe.warmup_steps;
    if !decays && options.warmup_steps.unwrap_or(most) == 0 {
        options.warmup_steps = Some(0);
        return Ok(Schedule::Constant);
    }
    let (warmup_steps, total_steps) = match (options.warmup_steps, options.lr_decay_steps) {
        // A preset's warmup may be longer than a short run.
        (None, _) => (most.min(end - 1), end),
        (Some(warmup_steps), Some(_)) if decays && warmup_steps >= end => {
            return misused(format!(
                "--warmup-steps {warmup_steps}: the decay ends at step {end} (--lr-decay-steps), expected a shorter warmup or a later end"
            ));
        }
        // A run may end before its rate has risen to the highest.
        (Some(warmup_steps), _) => (warmup_steps, end.max(warmup_steps.saturating_add(1))),
    };
    options.warmup_steps = Some(warmup_steps);
    options.lr_decay_steps = Some(total_steps);
    let share = peak / (warmup_steps as f64 + 1.0);
    let initial_lr = *options.initial_lr.get_or_insert(share);
    let min_lr = match decays {
        true => options.min_lr.unwrap_or(peak / 10.0),
        false => peak,
    };
    options.min_lr = Some(min_lr);
    Ok(Schedule::WarmupCosine {
        warmup_steps: warmup_steps as u64,
        total_steps: total_steps as u64,
        initial_lr,
        min_lr,
    })
}

#[cfg(test)]
mod tests {
    use super::super::flags::Flags;
    use super::*;

    #[test]
    fn a_warmup_that_is_asked_for_is_kept_and_a_presets_is_cut_to_a_short_run() {
        for (said, expected) in [
            ("warmup_steps = 9\nmax_steps = 4", (9, 10)),
            ("warmup_steps = 9\nmax_steps = 40", (9, 40)),
            (
                "warmup_steps = 9\nmax_steps = 4\nlr_decay_steps = 2\ndecay_lr = false",
                (9, 10),
            ),
            ("max_steps = 4", (3, 4)),
        ] {
            let mut options = Flags::parse(said).unwrap().options(None).unwrap();
            let recipe = options.model.recipe();
            // A longer run has the same.
            for max_steps in [options.free.max_steps, 1000] {
                let schedule = schedule(&mut options.training, recipe, max_steps).unwrap();
                let Schedule::WarmupCosine {
                    warmup_steps,
                    total_steps,
                    ..
                } = schedule
                else {
                    panic!("{schedule:?}");
                };
                assert_eq!((warmup_steps, total_steps), expected, "{said}");
            }
        }
        let said = "warmup_steps = 9\nlr_decay_steps = 9";
        let mut options = Flags::parse(said).unwrap().options(None).unwrap();
        let recipe = options.model.recipe();
        let error = schedule(&mut options.training, recipe, 4).unwrap_err();
        assert!(error.to_string().contains("--warmup-steps 9"), "{error}");
    }
}
