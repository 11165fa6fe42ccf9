//! Prepares everything that a training run needs, except for the weights. Reads the data, derives
//! values for options that the user hasn't set, checks that the options are compatible with the
//! data, and checks that the run fits in memory.

use std::path::Path;

use anyhow::{Context, Result};
use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use gpt::{GptConfig, Memory, check_vocabulary};
use train::presets::STORY_STRIDE;
use train::{AdamWConfig, Schedule, TrainConfig};

use super::data::{self, Tokens};
use super::flags::with_flags;
use super::options::TrainOptions;
use crate::model::vocabulary::Vocabulary;
use crate::terminal::failure::misused;
use crate::terminal::memory::check_model;
use crate::terminal::numbers::Count;
use crate::terminal::shell::quoted;

/// Prompt of the samples if the data is the default story.
const STORY_PROMPT: &str = "Marta looked at the river";
/// Maximum length of the windows in tokens if a model is fine-tuned and the user hasn't set the
/// length.
const FINE_TUNING_WINDOW: usize = 256;

/// The model that provides the initial weights of a training run: either a model to fine-tune or
/// the checkpoint of a resumed run.
pub(crate) struct BaseModel {
    pub(crate) config: GptConfig,
    pub(crate) vocabulary: Vocabulary,
    /// Training settings from the checkpoint of a resumed run, or `None` for a new run. A resumed
    /// run must keep some of these settings, such as the learning-rate schedule, even if the user
    /// increases its number of steps.
    pub(crate) resumed: Option<TrainConfig>,
}

impl BaseModel {
    /// Returns the base model of a run. `config` is the configuration of the model, and `folder` is
    /// the model's folder, from which the tokenizer is read. The field `resumed` is `None`, as in a
    /// new run.
    pub(crate) fn of(config: GptConfig, folder: &Path) -> Result<Self> {
        Ok(Self {
            config,
            vocabulary: Vocabulary::of_model(folder, config.vocab_size)?,
            resumed: None,
        })
    }
}

/// The settings and the data of a training run. They are all that the run needs in order to start,
/// except for the weights of the model, which are created or loaded later.
pub(crate) struct Setup {
    /// Options of the run. Runs with the same options and the same data always produce the same
    /// results.
    pub(crate) options: TrainOptions,
    pub(crate) model: GptConfig,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) training: TrainConfig,
    /// Name of the training data, for use in messages.
    pub(crate) data: String,
    /// Part of the data that is used for training.
    pub(crate) train: DataLoader,
    /// Part of the data that is used for validation, or `None` if all data is used for training.
    pub(crate) validation: Option<DataLoader>,
    /// Token IDs of the prompt with which each sample begins. If there are none, no samples are
    /// generated.
    pub(crate) begin: Vec<u32>,
    /// Arguments that make `gpt generate` start with the same prompt as the samples, or `None` if
    /// the prompt can't be quoted for a shell.
    pub(crate) prompt: Option<String>,
}

impl Setup {
    pub(crate) fn tokens_per_step(&self) -> u64 {
        let windows = self.train.dataset().max_length() * self.train.batch_size();
        self.training.accumulation.saturating_mul(windows as u64)
    }

    /// Returns the memory that the run needs.
    fn memory(&self) -> Result<Memory> {
        let windows = self.train.dataset();
        let (batch, length) = (self.train.batch_size(), windows.max_length());
        let mut need = self.model.training_memory(batch, length)?;
        if self.training.accumulation > 1 {
            let gradients = [size_of::<f32>(), self.model.size()?.total()];
            need = need.with("gradients of the next batch", &gradients)?;
        }
        // Adds the memory for the order in which the training windows are used. It consists of two
        // lists with the indices of all windows, because in each epoch, the indices are needed both
        // in their original order and in shuffled order.
        let order = [2 * size_of::<usize>(), windows.len()];
        Ok(need.with("order of the windows", &order)?)
    }
}

/// Reads the data and derives values for options that the user hasn't set. `base` is the model that
/// provides the initial weights, or `None` if the model is new.
///
/// # Errors
/// Returns an error if the model is invalid or needs too much memory, or if the data can't be read
/// or doesn't match the model.
pub(crate) fn set_up(options: TrainOptions, base: Option<BaseModel>) -> Result<Setup> {
    let own = base.as_ref().map(|base| base.config);
    let mut model = options.model(own.as_ref())?;
    model.validate().map_err(with_flags)?;
    let most = model.context_length;
    if let Some(length) = options.max_length.filter(|length| length.0 > most) {
        return misused(format!(
            "--max-length must be at most {most}, the model's context length, got {length}"
        ));
    }

    let (vocabulary, resumed) = base.map(|base| (base.vocabulary, base.resumed)).unzip();
    let resumed = resumed.flatten();
    let (vocabulary, tokens) = data::read(&options, vocabulary)?;
    if own.is_none() && options.vocab_size.is_none() {
        let tokenizer = vocabulary.tokenizer();
        let tokenizer =
            tokenizer.context("the size of the vocabulary is unknown; set it with --vocab-size")?;
        model.vocab_size = tokenizer.vocab_size();
    }
    tokens.check_ids(model.vocab_size)?;

    let (train, validation) = tokens.windows(windows(&options, &model, &tokens))?;
    let max_steps = match options.epochs {
        Some(epochs) => {
            let epoch = train.len().div_ceil(options.gradient_accumulation_steps.0);
            epochs.0.saturating_mul(epoch)
        }
        None => {
            let steps = options.max_steps;
            steps
                .context("neither max_steps nor epochs is set; use --max-steps N or --epochs N")?
                .0
        }
    };
    let warmup = options.warmup_steps.0.min(max_steps - 1);
    let eval_interval = options.eval_interval.0 as u64;
    let (learning_rate, min_lr) = (options.learning_rate.0, options.min_lr.map(|rate| rate.0));
    let (begin, prompt) = prompt(&options, &vocabulary, &tokens.train, model.context_length)?;
    check_vocabulary(model.vocab_size, 0, 0, begin.iter().copied())?;
    let training = TrainConfig {
        max_steps: max_steps as u64,
        optimizer: AdamWConfig {
            lr: learning_rate,
            betas: (options.beta1.0, options.beta2.0),
            weight_decay: options.weight_decay.0,
            ..AdamWConfig::default()
        },
        schedule: Some(match resumed.and_then(|config| config.schedule) {
            Some(schedule) => Schedule {
                // If the user resumes a run with a `--min-lr` that differs from the minimum
                // learning rate in the checkpoint, the value is accepted here, but
                // `Trainer::resume` returns an error later.
                min_lr: min_lr.unwrap_or(schedule.min_lr),
                ..schedule
            },
            None if min_lr.is_some_and(|least| least > learning_rate) => {
                return misused(format!(
                    "--min-lr must be at most {learning_rate}, the value of --learning-rate, got {}",
                    min_lr.unwrap_or_default()
                ));
            }
            None => Schedule {
                warmup_steps: warmup as u64,
                total_steps: max_steps as u64,
                initial_lr: learning_rate / (warmup as f64 + 1.0),
                min_lr: min_lr.unwrap_or(learning_rate / 10.0),
            },
        }),
        max_grad_norm: Some(options.grad_clip.0).filter(|&most| most > 0.0),
        dtype: options.dtype,
        accumulation: options.gradient_accumulation_steps.0 as u64,
        whole_epochs: resumed.map_or(options.epochs.is_some(), |config| config.whole_epochs),
        eval_every: Some(eval_interval),
        eval_batches: options.eval_iters.0,
        sample_every: match options.sample_interval {
            None => Some(eval_interval.saturating_mul(2)),
            Some(Count(steps)) => (steps > 0).then_some(steps as u64),
        },
        save_every: Some(options.save_interval.map_or(eval_interval, |n| n.0 as u64)),
        keep: options.keep.0,
    };
    let setup = Setup {
        options,
        model,
        vocabulary,
        training,
        data: tokens.name,
        train,
        validation,
        begin,
        prompt,
    };
    let need = setup.memory()?;
    check_model(&setup.model, &need)?;
    Ok(setup)
}

/// Returns the configuration of the windows and batches. If the user hasn't set the length or the
/// stride of the windows, the value is chosen to suit the model and the data.
fn windows(options: &TrainOptions, model: &GptConfig, tokens: &Tokens) -> DataLoaderConfig {
    let longest = match options.init_from {
        Some(_) => model.context_length.min(FINE_TUNING_WINDOW),
        None => model.context_length,
    };
    let max_length = options
        .max_length
        .map_or(tokens.window(longest), |length| length.0);
    let stride = match options.data {
        Some(_) => max_length,
        None => max_length.min(STORY_STRIDE),
    };
    DataLoaderConfig {
        batch_size: options.batch_size.0,
        max_length,
        stride: options.stride.map_or(stride, |stride| stride.0),
        shuffle: true,
        drop_last: true,
    }
}

/// Returns the token IDs of the prompt with which each sample begins, and the arguments that make
/// `gpt generate` start with the same prompt. If the user hasn't set a prompt, it is
/// [`STORY_PROMPT`] for the default story, and the beginning of the data otherwise.
fn prompt(
    options: &TrainOptions,
    vocabulary: &Vocabulary,
    data: &Corpus,
    context_length: usize,
) -> Result<(Vec<u32>, Option<String>)> {
    // If the prompt is taken from the beginning of the training data, it fills at most half of the
    // model's context, so that there is room for the tokens that the model generates.
    let most = (context_length / 2).max(1);
    let Ok(tokenizer) = vocabulary.tokenizer() else {
        let mut ids = beginning(data, None)?;
        ids.truncate(most);
        let words: Vec<String> = ids.iter().map(u32::to_string).collect();
        // The list of token IDs must be quoted, because PowerShell would split it at the commas.
        let ids_of_prompt = quoted(&words.join(","));
        return Ok((ids, ids_of_prompt.map(|ids| format!("--tokens {ids}"))));
    };
    let before = tokenizer.ids_before();
    let story = options.data.is_none().then_some(STORY_PROMPT);
    let ids = match options.prompt.as_deref().or(story) {
        Some(prompt) => {
            vocabulary.note_unknown(prompt);
            [before, &tokenizer.encode_part(prompt)?].concat()
        }
        None => {
            let mut ids = beginning(data, Some(vocabulary))?;
            ids.truncate(most.saturating_sub(before.len()).max(1));
            ids
        }
    };
    let crop = match ids.len() > context_length {
        true => " --past-context crop",
        false => "",
    };
    let text = vocabulary.text_of(ids.strip_prefix(before).unwrap_or(&ids));
    let flag = if text.starts_with('-') {
        "--prompt="
    } else {
        ""
    };
    let prompt = quoted(&text).map(|text| format!("{flag}{text}{crop}"));
    Ok((ids, prompt))
}

/// Returns the first tokens of the data, for use as a prompt. Leading special tokens and whitespace
/// are skipped. The result ends at the first line break or special token, at the first end of a
/// word after at least 20 bytes, or after about 40 bytes. Without a tokenizer, the result consists
/// of the first four tokens.
fn beginning(data: &Corpus, vocabulary: Option<&Vocabulary>) -> Result<Vec<u32>> {
    const BYTES: usize = 20;
    const MAX_BYTES: usize = 40;
    const IDS: usize = 4;
    let ids = data.read(..data.len().min(4 * MAX_BYTES))?;
    let Some((vocabulary, tokenizer)) =
        vocabulary.and_then(|all| Some((all, all.tokenizer().ok()?)))
    else {
        return Ok(ids[..ids.len().min(IDS)].to_vec());
    };
    let special_ids = vocabulary.special_ids();
    let (mut begin, mut text) = (Vec::new(), Vec::new());
    for &id in &*ids {
        let piece = tokenizer.piece(id).unwrap_or_default();
        let is_special = special_ids.contains(&id);
        if text.is_empty() && (is_special || piece.trim_ascii().is_empty()) {
            continue;
        }
        // Decides where to end the prompt. It doesn't end in the middle of a character, and it ends
        // in the middle of a word only if it would otherwise become longer than `MAX_BYTES`.
        let ends_word = piece.first().is_some_and(u8::is_ascii_whitespace);
        let is_whole = str::from_utf8(&text).is_ok();
        let is_long = text.len() >= BYTES && ends_word || text.len() >= MAX_BYTES;
        if is_special || (is_long && is_whole) || piece.contains(&b'\n') {
            break;
        }
        text.extend(piece);
        begin.push(id);
    }
    Ok(begin)
}

#[cfg(test)]
mod tests {
    use model_tokenizer::ModelTokenizer;

    use super::*;

    #[test]
    fn a_beginning_is_of_the_datas_own_tokens_and_ends_where_a_line_does() {
        let names = "\nadduser\nadwaita-icon-theme\n";
        for (text, expected) in [
            (names, "adduser"),
            ("# 標題一二三四五六七八九\n", "# 標題一二三四五六七八九"),
            (
                "One day the boats were gone, and nobody knew.",
                "One day the boats were",
            ),
            ("hi you.<|endoftext|>hi me.", "hi you."),
        ] {
            let vocabulary = Vocabulary::new(ModelTokenizer::train_chars(text).unwrap());
            let ids = Corpus::from_ids(vocabulary.encode(text).unwrap());
            let begin = beginning(&ids, Some(&vocabulary)).unwrap();
            assert_eq!(vocabulary.text_of(&begin), expected);
            assert_eq!(beginning(&ids, None).unwrap().len(), 4);
        }
    }
}
