//! A run before its first step: what its options leave open is decided by other options and the
//! data, and all is made but the weights.

use std::path::Path;

use anyhow::{Context, Result, bail};
use dataloader::Corpus;
use gpt::{GptConfig, Memory};
use model_tokenizer::ModelTokenizer;
use train::{AdamWConfig, SampleConfig, Schedule, TrainConfig};

use super::data::{Data, Source};
use super::options::{TrainOptions, shape};
use super::plot;
use super::tokenizer::TokenizerChoice;
use crate::failure::misused;
use crate::hints::quoted;
use crate::memory::{check, check_model};
use crate::vocabulary::{Vocabulary, is_gpt2_size};

/// Tokens between the windows of the story that comes with the program.
const STORY_STRIDE: usize = 8;
/// Tokens in a window at most, of a model that goes on from weights that are there.
const FINE_TUNING_WINDOW: usize = 256;

/// The model that a run goes on from.
#[derive(Clone, Debug)]
pub(crate) struct BaseModel {
    pub(crate) config: GptConfig,
    pub(crate) vocabulary: Vocabulary,
}

impl BaseModel {
    /// A model whose tokenizer is in a folder.
    pub(crate) fn of(config: GptConfig, folder: &Path) -> Result<Self> {
        let vocabulary = Vocabulary::of_model(folder, config.vocab_size)?;
        Ok(Self { config, vocabulary })
    }
}

/// A run before its first step, but for its weights.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// All options; the same ones make the same run.
    pub(crate) options: TrainOptions,
    pub(crate) model: GptConfig,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) training: TrainConfig,
    pub(crate) data: Data,
    /// The memory that it takes.
    pub(crate) need: Memory,
    /// The beginning of samples, as `gpt generate` takes it.
    pub(crate) prompt: String,
}

impl Setup {
    /// Tokens in a window.
    pub(crate) fn max_length(&self) -> usize {
        self.data.train.dataset().max_length()
    }

    pub(crate) fn tokens_per_step(&self) -> u64 {
        let tokens_per_batch = (self.options.batch_size * self.max_length()) as u64;
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

/// Reads the data and decides what the options leave open; `base` is the model that a run goes on
/// from.
///
/// # Errors
/// If the model can't be or doesn't fit the memory, or the data can't be read or doesn't fit the
/// model.
pub(crate) fn set_up(mut options: TrainOptions, base: Option<BaseModel>) -> Result<Setup> {
    let from = base.as_ref().map(|base| base.config);
    let mut model = options.model(from.unwrap_or(options.preset().model));
    if let Some(own) = &from {
        refuse_other_shape(&model, own)?;
    }
    let most = model.context_length;
    if let Some(length) = options.max_length.filter(|&length| length > most) {
        return misused(format!(
            "--max-length must be at most the context length {most}, got {length}"
        ));
    }
    // Before the data is encoded, and after it is known how much of it a step takes.
    check_model(&model, &memory(&model, 1, 1)?)?;
    let mut source = Source::read(options.data.as_deref(), options.train_ratio)?;
    let vocabulary = match base {
        Some(base) if options.tokenizer.is_none() || base.vocabulary.tokenizer().is_ok() => {
            base.vocabulary
        }
        _ => choose(&mut options, &mut source)?,
    };
    model.vocab_size = match options.vocab_size {
        Some(size) => size,
        None => {
            let tokenizer = vocabulary.tokenizer();
            tokenizer
                .context("without --vocab-size N the tokenizer is needed")?
                .vocab_size()
        }
    };
    options.vocab_size = Some(model.vocab_size);
    let ids = source.encode(&vocabulary, model.vocab_size)?;
    let begin = beginning(&ids.0, vocabulary.tokenizer().ok())?;

    // The story is so short that windows which begin anywhere teach much more.
    if options.data.is_none() && options.max_length.is_none() {
        options
            .stride
            .get_or_insert(STORY_STRIDE.min(model.context_length));
    }
    let longest = match options.init_from {
        Some(_) => model.context_length.min(FINE_TUNING_WINDOW),
        None => model.context_length,
    };
    let data = source.windows(ids, &mut options, longest)?;
    let windows = data.train.dataset();
    let accumulation = options.gradient_accumulation_steps;
    let mut need = memory(&model, options.batch_size, windows.max_length())?;
    if accumulation > 1 {
        let gradients = [size_of::<f32>(), model.size()?.total()];
        need = need.with("gradients of a later batch", &gradients)?;
    }
    // Of an epoch, and a copy that is shuffled.
    let need = need.with(
        "the order of the windows",
        &[2 * size_of::<usize>(), windows.len()],
    )?;
    check(&need)?;

    let max_steps = match options.epochs {
        Some(epochs) => epochs.saturating_mul(data.train.len().div_ceil(accumulation)),
        None => *options.max_steps.get_or_insert(options.recipe().max_steps),
    };
    let schedule = schedule(&mut options, max_steps)?;
    let (begin, prompt) = match vocabulary.tokenizer() {
        Ok(tokenizer) => {
            let before = tokenizer.ids_before();
            let begin = match &options.prompt {
                Some(prompt) => {
                    vocabulary.note_unknown(prompt);
                    [before, &tokenizer.encode_part(prompt)?].concat()
                }
                None => begin,
            };
            let text = vocabulary.text_of(begin.strip_prefix(before).unwrap_or(&begin));
            let flag = if text.starts_with('-') {
                "--prompt="
            } else {
                ""
            };
            (begin, format!("{flag}{}", quoted(&text)))
        }
        Err(_) => {
            let ids: Vec<String> = begin.iter().map(u32::to_string).collect();
            (begin, format!("--tokens {}", ids.join(",")))
        }
    };
    let times = |times| options.eval_interval.saturating_mul(times) as u64;
    let every = options
        .sample_interval
        .map_or(times(2), |steps| steps as u64);
    let training = TrainConfig {
        max_steps: max_steps as u64,
        optimizer: AdamWConfig {
            lr: options.learning_rate,
            betas: (options.beta1, options.beta2),
            weight_decay: options.weight_decay,
            ..AdamWConfig::default()
        },
        schedule,
        max_grad_norm: (options.grad_clip > 0.0).then_some(options.grad_clip),
        accumulation: accumulation as u64,
        whole_epochs: options.epochs.is_some(),
        eval_every: Some(times(1)),
        eval_first: times(1),
        eval_batches: options.eval_iters,
        sample: (options.sample_tokens > 0 && !begin.is_empty()).then_some(SampleConfig {
            prompt: begin,
            max_new_tokens: options.sample_tokens,
            every: Some(if every == 0 { u64::MAX } else { every }), // the last one is made by hand
        }),
        save_every: Some(options.save_interval.map_or(times(4), |steps| steps as u64)),
        keep: options.keep,
    };
    Ok(Setup {
        options,
        model,
        vocabulary,
        training,
        data,
        need,
        prompt,
    })
}

/// The memory of a run, its loss curve included.
fn memory(model: &GptConfig, batch_size: usize, tokens: usize) -> Result<Memory> {
    let memory = model.training_memory(batch_size, tokens)?;
    Ok(memory.with("the loss curve's picture", &[plot::BYTES])?)
}

/// The first tokens of the data, as far as a line's end or for some words; the first few where
/// there is no tokenizer.
fn beginning(data: &Corpus, tokenizer: Option<&ModelTokenizer>) -> Result<Vec<u32>> {
    const BYTES: usize = 20;
    const IDS: usize = 4;
    let ids = data.read(..data.len().min(8 * BYTES))?;
    let Some(tokenizer) = tokenizer else {
        return Ok(ids[..ids.len().min(IDS)].to_vec());
    };
    let (mut begin, mut text) = (Vec::new(), Vec::new());
    for &id in &*ids {
        let piece = tokenizer.piece(id).unwrap_or_default();
        if text.is_empty() && piece.trim_ascii().is_empty() {
            continue;
        }
        // No character is cut.
        let is_long = text.len() >= BYTES && str::from_utf8(&text).is_ok();
        if is_long || piece.contains(&b'\n') {
            break;
        }
        text.extend(piece);
        begin.push(id);
    }
    Ok(begin)
}

/// The tokenizer of a new model; the choice is kept among the options.
fn choose(options: &mut TrainOptions, source: &mut Source) -> Result<Vocabulary> {
    let size = options.vocab_size;
    let (choice, tokenizer) = match (options.tokenizer.take(), source.folder_of_ids()) {
        (None, Some(folder)) => {
            let size = size.unwrap_or(GptConfig::GPT2_124M.vocab_size);
            return Vocabulary::of_folder(folder, size);
        }
        (None, None) => match (options.preset().bpe, source.all_text()?) {
            (Some(most), Some(text)) if !size.is_some_and(is_gpt2_size) => {
                let tokenizer = ModelTokenizer::train_bpe_at_most(&text, most)?;
                (TokenizerChoice::Bpe(tokenizer.vocab_size()), tokenizer)
            }
            _ => (TokenizerChoice::Gpt2, ModelTokenizer::gpt2()),
        },
        (Some(choice), _) => {
            let tokenizer = choice.make(source)?;
            (choice, tokenizer)
        }
    };
    let least = tokenizer.vocab_size();
    if let Some(size) = size.filter(|&size| size < least) {
        bail!("--vocab-size {size}: the tokenizer {choice} has {least} tokens");
    }
    options.tokenizer = Some(choice);
    Ok(Vocabulary::new(tokenizer))
}

/// That the weights of a model that is there do in `asked` what they did before.
fn refuse_other_shape(asked: &GptConfig, own: &GptConfig) -> Result<()> {
    let (asked, own) = (shape(asked)?, shape(own)?);
    for (name, own) in own.iter().filter(|(name, _)| *name != "drop_rate") {
        if let Some(asked) = asked.get(name).filter(|asked| *asked != own) {
            let flag = name.replace('_', "-");
            bail!(
                "--{flag} {asked}: the model to go on with has {own}, and its weights are of no use to another"
            );
        }
    }
    Ok(())
}

/// The schedule of the learning rate; its options are filled in, so that a longer run has the
/// same.
///
/// # Errors
/// If the decay would end within the warmup.
fn schedule(options: &mut TrainOptions, max_steps: usize) -> Result<Schedule> {
    let (peak, end) = (
        options.learning_rate,
        options.lr_decay_steps.unwrap_or(max_steps),
    );
    // A preset's warmup may be longer than a short run.
    let preset = options.recipe().warmup_steps.min(end - 1);
    let warmup_steps = *options.warmup_steps.get_or_insert(preset);
    if options.lr_decay_steps.is_some() && warmup_steps >= end {
        return misused(format!(
            "--warmup-steps {warmup_steps}: the decay ends at step {end} (--lr-decay-steps), expected a shorter warmup or a later end"
        ));
    }
    // A run may end before its rate has risen to the highest.
    let total_steps = end.max(warmup_steps.saturating_add(1));
    options.lr_decay_steps = Some(total_steps);
    Ok(Schedule::WarmupCosine {
        warmup_steps: warmup_steps as u64,
        total_steps: total_steps as u64,
        initial_lr: peak / (warmup_steps as f64 + 1.0),
        min_lr: *options.min_lr.get_or_insert(peak / 10.0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::flags::TrainFlags;
    use super::*;

    fn options(said: &str) -> TrainOptions {
        let said = TrainFlags::parse(said).unwrap().table().unwrap();
        TrainOptions::new(&said, None).unwrap()
    }

    #[test]
    fn a_warmup_that_is_asked_for_is_kept_and_a_presets_is_cut_to_a_short_run() {
        for (said, expected) in [
            ("warmup_steps = 9\nmax_steps = 4", (9, 10)),
            ("warmup_steps = 9\nmax_steps = 40", (9, 40)),
            ("max_steps = 4", (3, 4)),
        ] {
            let mut options = options(said);
            // A longer run has the same.
            for max_steps in [options.max_steps.unwrap(), 1000] {
                let schedule = schedule(&mut options, max_steps).unwrap();
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
        let mut short = options("warmup_steps = 9\nlr_decay_steps = 9");
        let error = schedule(&mut short, 4).unwrap_err();
        assert!(error.to_string().contains("--warmup-steps 9"), "{error}");
    }

    #[test]
    fn a_beginning_is_of_the_datas_own_tokens_and_ends_where_a_line_does() {
        let names = "\nadduser\nadwaita-icon-theme\n";
        for (text, expected) in [
            (names, "adduser"),
            ("# 標題一二三四五六七八九\n", "# 標題一二三四"),
            (
                "One day the boat was gone, and nobody knew.",
                "One day the boat was",
            ),
        ] {
            let tokenizer = ModelTokenizer::train_chars(text).unwrap();
            let ids = Corpus::from_ids(tokenizer.encode(text).unwrap());
            let begin = beginning(&ids, Some(&tokenizer)).unwrap();
            assert_eq!(tokenizer.decode(&begin).unwrap(), expected);
            assert_eq!(beginning(&ids, None).unwrap().len(), 4);
        }
    }
}
