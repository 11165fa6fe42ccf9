//! Trains a small model in the web page for section 5.2 of the book. The page controls a training
//! run step by step. A run has the same data, seed and settings as `gpt train`, so it also has the
//! same losses.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, RangeInclusive};

use anyhow::{Context, Result, ensure};
use dataloader::{Batch, Corpus, DataLoader, DataLoaderConfig, train_validation_split};
use generate::{Decoder, Inspection, Sampling};
use gpt::{DropRates, GptConfig, GptModel, Parameters};
use notebooks::text::STORY as TEXT;
use serde_json::{Map, Value, json};
use torch_rng::TorchRng;
use train::presets::{CHARACTERS, Preset, STORY, STORY_STRIDE, WORDS};
use train::{AdamWConfig, Event, Outcome, Schedule, TrainConfig, Trainer};

use crate::model::{attention_in_base64, log_sum_exp, short};
use crate::tokenizer::PageTokenizer;

const TRAIN_RATIO: f64 = 0.9;
/// Maximum number of training steps that the page can request at once. The page's worker can't
/// answer other requests until it has finished these steps, so the limit must be small.
const MAX_STEPS: u64 = 200;
const MAX_NEW_TOKENS: u64 = 200;
const SAMPLE_TEMPERATURE: f32 = 0.5;
/// Number of candidates for the next token that the page gets for each position of a training
/// window when it requests the details of a training step.
const CANDIDATES: usize = 5;
/// Maximum norm of the gradient. A gradient with a larger norm is scaled down to this norm. `gpt
/// train` uses the same maximum by default.
const MAX_GRAD_NORM: f64 = 1.0;

/// Initial content of the prompt field on the training page. The trained model continues this
/// prompt.
const PROMPT: &str = "The bell ";
/// Initial content of the first of two text fields on the training page. For the text in each of
/// these fields, the page shows the model's loss for each token. This initial text is part of the
/// training data.
const LINE: &str = "The river at Low Ferry was wide";
/// Initial content of the second of two text fields on the training page. For the text in each of
/// these fields, the page shows the model's loss for each token. This initial text is part of the
/// validation data, so the reader can compare its losses with those of the text in the first field,
/// on which the model is trained.
const HELD_OUT: &str = "Then he bent down over the page";

/// Presets that the training page offers. `gpt train --preset NAME` trains the same models.
const PRESETS: [Preset; 3] = [WORDS, CHARACTERS, STORY];

/// A setting of a preset that readers can change.
struct Setting {
    /// Name of the corresponding option of `gpt train`, without the dashes.
    option: &'static str,
    label: &'static str,
    range: RangeInclusive<f64>,
    is_whole: bool,
    get: fn(&Preset) -> f64,
    set: fn(&mut Preset, f64),
}

impl Setting {
    const fn whole(
        (option, label): (&'static str, &'static str),
        range: RangeInclusive<f64>,
        get: fn(&Preset) -> f64,
        set: fn(&mut Preset, f64),
    ) -> Self {
        Self {
            option,
            label,
            range,
            is_whole: true,
            get,
            set,
        }
    }

    /// Returns a description of the valid values of this training setting for use in messages, such
    /// as `a whole number from 1 to 6`.
    fn rule(&self) -> String {
        let (least, most) = (self.range.start(), self.range.end());
        match self.is_whole {
            true => format!("a whole number from {least} to {most}"),
            false => format!("a number from {least} to {most}"),
        }
    }
}

const SETTINGS: [Setting; 6] = [
    Setting {
        option: "learning-rate",
        label: "learning rate",
        range: 0.000_001..=1000.0,
        is_whole: false,
        get: |preset| preset.training.learning_rate,
        set: |preset, rate| preset.training.learning_rate = rate,
    },
    Setting::whole(
        ("batch-size", "batch size"),
        1.0..=32.0,
        |preset| preset.training.batch_size as f64,
        |preset, size| preset.training.batch_size = size as usize,
    ),
    Setting::whole(
        ("emb-dim", "width"),
        4.0..=256.0,
        |preset| preset.model.emb_dim as f64,
        |preset, width| preset.model.emb_dim = width as usize,
    ),
    Setting::whole(
        ("n-layers", "layers"),
        1.0..=6.0,
        |preset| preset.model.n_layers as f64,
        |preset, layers| preset.model.n_layers = layers as usize,
    ),
    Setting::whole(
        ("n-heads", "heads"),
        1.0..=16.0,
        |preset| preset.model.n_heads as f64,
        |preset, heads| preset.model.n_heads = heads as usize,
    ),
    Setting {
        option: "drop-rate",
        label: "dropout",
        range: 0.0..=0.9,
        is_whole: false,
        get: |preset| preset.model.drop_rates.emb,
        set: |preset, rate| preset.model.drop_rates = DropRates::all(rate),
    },
];

/// Returns the presets and settings that readers can choose on the training page, and the initial
/// contents of the page's text fields.
pub(crate) fn presets() -> Value {
    let presets = PRESETS.map(|preset| {
        let values = SETTINGS.iter().map(|setting| {
            let value = json!((setting.get)(&preset));
            (setting.option.to_owned(), value)
        });
        json!({ "name": preset.name(), "values": values.collect::<Map<_, _>>() })
    });
    let settings = SETTINGS.map(|setting| {
        json!({ "option": setting.option, "label": setting.label, "rule": setting.rule() })
    });
    json!({
        "presets": presets, "settings": settings,
        "prompt": PROMPT, "line": LINE, "held_out": HELD_OUT,
    })
}

/// Returns the preset with the changes in `values`, which maps names of options to the numbers that
/// the reader has entered. Settings that `values` doesn't contain keep the values of the preset.
///
/// # Errors
/// If some values are invalid, returns a map from the names of their options to error messages.
fn changed(mut preset: Preset, values: &Value) -> Result<Preset, Map<String, Value>> {
    let mut faults = Map::new();
    for setting in &SETTINGS {
        let value = &values[setting.option];
        let fits =
            |it: &f64| setting.range.contains(it) && !(setting.is_whole && it.fract() != 0.0);
        match value.as_f64().filter(fits) {
            Some(number) => (setting.set)(&mut preset, number),
            None if value.is_null() => {}
            None => {
                let fault = format!("must be {}, got {value}", setting.rule());
                faults.insert(setting.option.to_owned(), fault.into());
            }
        }
    }
    let (width, heads) = (preset.model.emb_dim, preset.model.n_heads);
    if faults.is_empty() && !width.is_multiple_of(heads) {
        let fault = format!(
            "the number of heads must divide the width, but {width} isn't a multiple of {heads}"
        );
        faults.insert("n-heads".to_owned(), fault.into());
    }
    match faults.is_empty() {
        true => Ok(preset),
        false => Err(faults),
    }
}

/// A training run that a page controls.
pub(crate) struct PageTraining {
    words: PageTokenizer,
    /// Characters that occur in the short story on which the model is trained and validated.
    known: BTreeSet<char>,
    trainer: Trainer,
    /// Copies of the model that is being trained, with which the page shows how the model has
    /// improved. There is a copy after 0, 1, 2, 4, 8, ... training steps, and each is paired with
    /// the number of steps.
    snapshots: Vec<(u64, GptModel)>,
}

impl PageTraining {
    /// Prepares a training run with the preset of the given name. `values` maps names of options to
    /// the numbers that the reader has entered, which replace the settings of the preset.
    ///
    /// # Errors
    /// If the preset is unknown, returns an answer with the error message in its field `fault`. If
    /// some values are invalid, returns an answer whose field `faults` contains an error message
    /// for each of them.
    pub(crate) fn new(preset: &str, values: &Value) -> Result<Self, Value> {
        let fault = |error: String| json!({ "fault": error });
        let known = PRESETS.into_iter().find(|known| known.name() == preset);
        let known = known.ok_or_else(|| {
            let names = PRESETS.map(|preset| preset.name()).join(", ");
            fault(format!("the preset must be one of {names}, got {preset}"))
        })?;
        let preset = changed(known, values).map_err(|faults| json!({ "faults": faults }))?;
        Self::start(preset).map_err(|error| fault(format!("{error:#}")))
    }

    fn start(preset: Preset) -> Result<Self> {
        let settings = preset.training;
        let lr = settings.learning_rate;
        let (words, vocab_size) = PageTokenizer::train(TEXT, preset.tokenizer)?;
        let config = GptConfig {
            vocab_size,
            ..preset.model
        };
        let windows = DataLoaderConfig {
            batch_size: settings.batch_size,
            max_length: config.context_length,
            stride: STORY_STRIDE,
            shuffle: true,
            drop_last: true,
        };
        let in_order = DataLoaderConfig {
            shuffle: false,
            drop_last: false,
            ..windows
        };
        let (train, validation) = train_validation_split(TEXT, TRAIN_RATIO)?;
        let loader = |text: &str, windows| -> Result<DataLoader> {
            let corpus = Corpus::from_ids(words.encode(text)?);
            Ok(DataLoader::new(&corpus, windows)?)
        };
        let (train, validation) = (loader(train, windows)?, loader(validation, in_order)?);
        let warmup_steps = settings.warmup_steps as u64;
        let training = TrainConfig {
            max_steps: settings.max_steps as u64,
            optimizer: AdamWConfig {
                lr,
                ..AdamWConfig::default()
            },
            schedule: Some(Schedule {
                warmup_steps,
                total_steps: settings.max_steps as u64,
                initial_lr: lr / (warmup_steps as f64 + 1.0),
                min_lr: lr / 10.0,
            }),
            max_grad_norm: Some(MAX_GRAD_NORM),
            eval_every: Some(settings.eval_interval as u64),
            eval_batches: settings.eval_iters,
            // The trainer emits an `Event::SampleDue` after each training step. The page doesn't
            // generate samples at that time, but this event contains the model, so it is used to
            // copy the model after 1, 2, 4, 8, ... steps.
            sample_every: Some(1),
            ..TrainConfig::default()
        };
        let mut rng = TorchRng::manual_seed(123);
        let model = GptModel::new(config, &mut rng)?;
        let snapshots = vec![(0, model.clone())];
        Ok(Self {
            words,
            known: TEXT.chars().collect(),
            trainer: Trainer::new(training, model, train, Some(validation), rng)?,
            snapshots,
        })
    }

    /// Answers a request:
    /// - `{"steps": 10}` trains ten steps.
    /// - `{"parts": true}` trains one step and also returns what the step computed (see
    ///   [`train_in_parts`](Self::train_in_parts)).
    /// - `{"view": {"prompt", "tokens", "lines", "layer", "head", "snapshot"}}` returns a sample,
    ///   the loss of each token in the lines, and a head's attention weights for the first line. If
    ///   `snapshot` is an index, they are computed by this snapshot of the model, and otherwise by
    ///   the current model.
    ///
    /// # Errors
    /// Returns an error if a number in the request is out of range.
    pub(crate) fn answer(&mut self, request: &Value) -> Result<Value> {
        match request["steps"].as_u64() {
            Some(steps) => self.train(steps),
            None if request["parts"].is_boolean() => self.train_in_parts(),
            None => self.view(&request["view"]),
        }
    }

    fn train(&mut self, steps: u64) -> Result<Value> {
        ensure!(
            steps <= MAX_STEPS,
            "steps must be at most {MAX_STEPS}, got {steps}"
        );
        let (mut losses, mut evaluations) = (Vec::new(), Vec::new());
        let (mut done, mut diverged) = (false, None);
        if steps > 0 {
            let outcome = self.trainer.run(None, &mut |event| {
                match event {
                    Event::Step(step) => {
                        losses.push(json!([step.step + 1, step.loss]));
                        if losses.len() as u64 >= steps {
                            return ControlFlow::Break(());
                        }
                    }
                    Event::Evaluation(now) => {
                        evaluations.push(json!([now.steps_done, now.train_loss, now.val_loss]));
                    }
                    Event::SampleDue { steps_done, model } if steps_done.is_power_of_two() => {
                        self.snapshots.push((steps_done, model.clone()));
                    }
                    _ => {}
                }
                ControlFlow::Continue(())
            });
            match outcome {
                Ok(outcome) => done = outcome == Outcome::Finished,
                Err(error) => diverged = Some(error.to_string()),
            }
        }
        let config = self.trainer.model().config();
        let snapshots = self.snapshots.iter().map(|(step, _)| step);
        Ok(json!({
            "losses": losses, "evaluations": evaluations, "step": self.trainer.steps_done(),
            "done": done, "diverged": diverged, "snapshots": snapshots.collect::<Vec<_>>(),
            "baseline": (config.vocab_size as f64).ln(), "vocab_size": config.vocab_size,
            "parameters": config.size()?.total(), "layers": config.n_layers, "heads": config.n_heads,
        }))
    }

    /// Trains one step. Returns the same answer as [`train`](Self::train), with an additional field
    /// `parts` that describes what the step has computed: the text of each window in the batch, the
    /// model's predictions for the first window, and the loss of the batch before and after the
    /// step. For each layer, it also contains the norms of the weights, of their gradient and of
    /// their change.
    fn train_in_parts(&mut self) -> Result<Value> {
        let before = self.trainer.model().clone();
        let (batch, rng) = self.trainer.next_step()?;
        let loss_and_grads = |model: &GptModel| -> Result<(f32, GptModel)> {
            let (inputs, targets) = (&batch.input_ids, &batch.target_ids);
            let mut grads = GptModel::zeros(model.config())?;
            // The losses before and after the training step can be compared only if both are
            // computed with the same dropout masks. Each computation therefore uses its own clone
            // of the random number generator, in the same state.
            let loss = model.loss_and_grads(inputs, targets, 1.0, &mut rng.clone(), &mut grads)?;
            Ok((loss, grads))
        };
        let (loss, grads) = loss_and_grads(&before)?;
        let windows = batch.input_ids.outer_iter();
        let windows: Vec<String> = windows
            .map(|ids| self.words.text_of(&ids.to_vec()))
            .collect();
        let positions = self.predictions(&before, &batch)?;
        let mut answer = self.train(1)?;
        if answer["losses"] == json!([]) {
            // The trainer took no step, because the training run is finished or the loss isn't
            // finite. Therefore, the answer doesn't get the field `parts`.
            return Ok(answer);
        }
        let after = self.trainer.model();
        let step = self.trainer.last_step().context("no step was taken")?;
        answer["parts"] = json!({
            "windows": windows, "positions": positions,
            "loss": loss, "loss_after": loss_and_grads(after)?.0,
            "layers": norms_by_layer([&before, &grads, after]),
            "grad_norm": step.grad_norm, "max_grad_norm": MAX_GRAD_NORM,
            "learning_rate": step.learning_rate,
        });
        Ok(answer)
    }

    /// Returns the predictions of the model, without dropout, for the first window of a batch. The
    /// prediction for each position consists of the token, its target, the logit and loss of the
    /// target, the number of tokens with larger logits, and the most likely next tokens with their
    /// logits and probabilities.
    fn predictions(&self, model: &GptModel, batch: &Batch) -> Result<Vec<Value>> {
        let (ids, targets) = (batch.input_ids.row(0).to_vec(), batch.target_ids.row(0));
        let text_of = |id| self.words.text_of(&[id]);
        let mut of_targets = Vec::new();
        let inspection = Inspection::of(model, &text_of, &ids, CANDIDATES, |logits| {
            let logit = logits[targets[of_targets.len()] as usize];
            let rank = logits.iter().filter(|&&other| other > logit).count();
            of_targets.push((logit, log_sum_exp(logits, 1.0) - logit, rank));
        })?;
        let positions = inspection.tokens.iter().zip(of_targets).zip(targets);
        let positions = positions.map(|((token, (logit, loss, rank)), &target)| {
            let candidates = token.next.iter();
            let candidates: Vec<Value> = candidates
                .map(|it| json!([it.text, short(it.logit), short(it.probability)]))
                .collect();
            json!({
                "token": token.text, "target": text_of(target), "logit": short(logit),
                "loss": short(loss), "rank": rank, "candidates": candidates,
            })
        });
        Ok(positions.collect())
    }

    fn view(&self, asked: &Value) -> Result<Value> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let number = |name: &str| asked[name].as_u64().unwrap_or_default();
        let (step, model) = match asked["snapshot"].as_u64() {
            Some(place) => {
                let snapshot = self.snapshots.get(place as usize);
                let (step, model) = snapshot
                    .with_context(|| format!("the run has no snapshot with the index {place}"))?;
                (*step, model)
            }
            None => (self.trainer.steps_done(), self.trainer.model()),
        };
        let prompt = text(&asked["prompt"]);
        let sample = self.sample(step, model, &prompt, number("tokens").min(MAX_NEW_TOKENS))?;
        let text_of = |id| self.words.text_of(&[id]);
        let (mut lines, mut attention) = (Vec::new(), String::new());
        for line in asked["lines"].as_array().into_iter().flatten() {
            let line = text(line);
            let mut note = self.note(&line);
            let mut ids = self.words.encode(&line)?;
            let (len, most) = (ids.len(), model.config().context_length);
            if len > most {
                note += &format!(
                    " The line has {len} tokens, but the model reads at most {most}, so the remaining tokens are ignored."
                );
                ids.truncate(most);
            }
            let mut tokens = Vec::new();
            if !ids.is_empty() {
                let inspection = Inspection::of(model, &text_of, &ids, 1, |_| ())?;
                for token in &inspection.tokens {
                    tokens.push(json!([token.text, token.loss.map(short)]));
                }
                if lines.is_empty() {
                    let mut blocks = inspection.blocks(ids.len(), 1)?;
                    let block = blocks.nth(number("layer") as usize);
                    let block = block
                        .with_context(|| format!("the model has no layer {}", number("layer")))??;
                    let mut heads = block.attention.outer_iter();
                    let head = heads.nth(number("head") as usize);
                    let head =
                        head.with_context(|| format!("the layer has no head {}", number("head")))?;
                    attention = attention_in_base64(head);
                }
            }
            lines.push(json!({ "tokens": tokens, "note": note.trim_start() }));
        }
        Ok(json!({
            "step": step, "sample": sample, "prompt_note": self.note(&prompt),
            "lines": lines, "attention": attention,
        }))
    }

    /// Returns a warning for the reader if a text is empty or contains characters that don't occur
    /// in the short story on which the model is trained. Otherwise, returns an empty string.
    fn note(&self, text: &str) -> String {
        let unknown: BTreeSet<char> = text.chars().filter(|c| !self.known.contains(c)).collect();
        let unknown: String = unknown.into_iter().collect();
        match &self.words {
            _ if text.is_empty() => "Enter at least one character.".to_owned(),
            _ if unknown.is_empty() => String::new(),
            PageTokenizer::Characters(_) => format!(
                "These characters aren't in the vocabulary: {unknown}. The model reads the unknown token \u{FFFD} instead."
            ),
            _ => format!(
                "These characters don't occur in the story, so the model has never seen them: {unknown}."
            ),
        }
    }

    /// Returns a continuation of the prompt by `new_tokens` tokens. If the prompt is empty, the
    /// continuation is empty, too. The tokens are sampled with the seed `step`, which is the number
    /// of training steps, so the same model always writes the same continuation.
    fn sample(&self, step: u64, model: &GptModel, prompt: &str, new_tokens: u64) -> Result<String> {
        let ids = self.words.encode(prompt)?;
        if ids.is_empty() {
            return Ok(String::new());
        }
        let mut decoder = Decoder::new(model);
        decoder.start(&ids)?;
        let sampling = Sampling {
            temperature: SAMPLE_TEMPERATURE,
            ..Sampling::GREEDY
        };
        let mut rng = TorchRng::manual_seed(step);
        for _ in 0..new_tokens {
            let logits = decoder.advance()?;
            let id = sampling.choose(&logits, &mut rng)?;
            decoder.push(&[id])?;
        }
        Ok(self.words.text_of(&decoder.tokens()[ids.len()..]))
    }
}

/// Returns the name of each layer with three norms: the norm of its weights before a step, the norm
/// of their gradient, and the norm of the change that the step has made to the weights. Each
/// transformer block counts as one layer.
fn norms_by_layer([before, grads, after]: [&GptModel; 3]) -> Vec<Value> {
    let mut layers: Vec<(String, [f64; 3])> = Vec::new();
    let of_all = [before, grads, after].map(Parameters::named_parameters);
    let [before, grads, after] = of_all.map(|parameters| parameters.into_iter());
    for ((name, before), ((_, grads), (_, after))) in before.zip(grads.zip(after)) {
        let parts = name
            .split('.')
            .take(1 + usize::from(name.starts_with("trf_blocks")));
        let layer = parts.collect::<Vec<_>>().join(".");
        if layers.last().is_none_or(|(last, _)| *last != layer) {
            layers.push((layer, [0.0; 3]));
        }
        let Some((_, sums)) = layers.last_mut() else {
            continue;
        };
        for ((&before, &grad), &after) in before.iter().zip(&grads).zip(&after) {
            for (sum, x) in sums.iter_mut().zip([before, grad, after - before]) {
                *sum += f64::from(x).powi(2);
            }
        }
    }
    let with_roots = |(name, sums): (String, [f64; 3])| json!([name, sums.map(f64::sqrt)]);
    layers.into_iter().map(with_roots).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(preset: &str, values: &Value) -> PageTraining {
        PageTraining::new(preset, values).unwrap_or_else(|answer| panic!("{answer}"))
    }

    #[test]
    fn the_characters_become_words_of_the_story() {
        let mut lesson = begin("characters", &Value::Null);
        let first = lesson.answer(&json!({ "steps": 1 })).unwrap();
        let (loss, baseline) = (&first["losses"][0][1], &first["baseline"]);
        let [loss, baseline] = [loss, baseline].map(|it| it.as_f64().unwrap());
        assert!((loss - baseline).abs() < 0.5, "{loss} {baseline}");
        let view = json!({ "view": { "prompt": PROMPT, "tokens": 200, "lines": ["The river"], "layer": 1, "head": 3 } });
        let words = |sample: &Value| {
            let sample = sample.as_str().unwrap().to_owned();
            let inside = sample.split_once(' ').map_or("", |(_, rest)| rest);
            let inside = inside.rsplit_once(' ').map_or("", |(inside, _)| inside);
            let known = |word: &&str| word.len() > 2 && TEXT.contains(&format!(" {word} "));
            inside.split(' ').filter(known).count()
        };
        let before = lesson.answer(&view).unwrap();
        assert!(words(&before["sample"]) < 2, "{before}");
        for _ in 0..3 {
            lesson.answer(&json!({ "steps": 200 })).unwrap();
        }
        let after = lesson.answer(&view).unwrap();
        assert!(words(&after["sample"]) >= 10, "{after}");
        assert_eq!(after["lines"][0]["tokens"].as_array().unwrap().len(), 9);
        let mut view = view;
        view["view"]["snapshot"] = 1.into(); // Snapshot 1 is the model after the first step.
        assert_eq!(lesson.answer(&view).unwrap(), before);
    }

    #[test]
    fn the_first_model_overfits() {
        let mut lesson = begin(PRESETS[0].name(), &Value::Null);
        let (mut least, mut last) = (f64::INFINITY, 0.0);
        for _ in 0..2 {
            let answer = lesson.answer(&json!({ "steps": 200 })).unwrap();
            for evaluation in answer["evaluations"].as_array().unwrap() {
                last = evaluation[2].as_f64().unwrap();
                least = least.min(last);
            }
        }
        assert!(last > least + 0.5, "{least} {last}");
        let view = json!({ "prompt": PROMPT, "lines": [LINE, HELD_OUT] });
        let view = lesson.view(&view).unwrap();
        let mean = |place: usize| {
            let tokens = view["lines"][place]["tokens"].as_array().unwrap().iter();
            let losses: Vec<f64> = tokens.filter_map(|token| token[1].as_f64()).collect();
            losses.iter().sum::<f64>() / losses.len() as f64
        };
        assert!(mean(0) + 2.0 < mean(1), "{} {}", mean(0), mean(1));
    }

    #[test]
    fn the_lines_are_in_their_parts_of_the_data_and_fit_every_model() {
        let (train, validation) = train_validation_split(TEXT, TRAIN_RATIO).unwrap();
        assert!(train.contains(LINE) && validation.contains(HELD_OUT) && !train.contains(HELD_OUT));
        for preset in PRESETS {
            let lesson = begin(preset.name(), &Value::Null);
            let view = json!({ "prompt": PROMPT, "lines": [LINE, HELD_OUT] });
            let view = lesson.view(&view).unwrap();
            assert_eq!(view["prompt_note"], "");
            assert_eq!(
                [&view["lines"][0]["note"], &view["lines"][1]["note"]],
                ["", ""]
            );
        }
    }

    #[test]
    fn the_parts_of_a_step_are_those_of_this_step() {
        // Dropout is turned on in this test. The loss in the field `parts` is computed separately
        // from the training loss of the step, and the two are equal only if both were computed with
        // the same dropout masks.
        let values = json!({ "drop-rate": 0.2, "emb-dim": 32, "batch-size": 32 });
        let mut lesson = begin("characters", &values);
        // Examines the first two steps of the first epoch and the first two steps of the second
        // epoch. An epoch has 92 batches, so the loop skips 90 steps in between.
        for skipped in [0, 0, 90, 0] {
            lesson.answer(&json!({ "steps": skipped })).unwrap();
            let answer = lesson.answer(&json!({ "parts": true })).unwrap();
            let number = |value: &Value| value.as_f64().unwrap();
            let parts = &answer["parts"];
            let difference = number(&parts["loss"]) - number(&answer["losses"][0][1]);
            assert!(difference.abs() < 1e-4, "{answer}");
            assert!(
                number(&parts["loss_after"]) < number(&parts["loss"]),
                "{answer}"
            );
            assert_eq!(parts["windows"].as_array().unwrap().len(), 32);
            let positions = parts["positions"].as_array().unwrap();
            assert_eq!(positions.len(), 32);
            for pair in positions.windows(2) {
                assert_eq!(pair[0]["target"], pair[1]["token"]);
            }
            for position in positions {
                let first = &position["candidates"][0];
                let loss_of_first = -number(&first[2]).ln();
                let expected = loss_of_first + number(&first[1]) - number(&position["logit"]);
                assert!(
                    (number(&position["loss"]) - expected).abs() < 1e-3,
                    "{position}"
                );
                let is_first = first[0] == position["target"];
                assert_eq!(is_first, position["rank"] == 0, "{position}");
            }
            let layers = parts["layers"].as_array().unwrap();
            let names: Vec<&str> = layers.iter().map(|it| it[0].as_str().unwrap()).collect();
            assert_eq!(
                names.join(" "),
                "tok_emb pos_emb trf_blocks.0 trf_blocks.1 final_norm out_head"
            );
            let norms = |place: usize| layers.iter().map(move |layer| number(&layer[1][place]));
            let whole = norms(1).map(|norm| norm * norm).sum::<f64>().sqrt();
            assert!(
                (whole / number(&parts["grad_norm"]) - 1.0).abs() < 1e-3,
                "{answer}"
            );
            assert!(norms(0).chain(norms(2)).all(|norm| norm > 0.0), "{answer}");
        }
    }

    #[test]
    fn wrong_values_have_a_message_for_each_field() {
        let preset = |name: &str, values: Value| PageTraining::new(name, &values).err().unwrap();
        let unknown = preset("none", Value::Null);
        assert_eq!(
            unknown["fault"],
            "the preset must be one of words, characters, story, got none"
        );
        for (values, option, fault) in [
            (
                json!({ "learning-rate": 0 }),
                "learning-rate",
                "must be a number from 0.000001 to 1000, got 0",
            ),
            (
                json!({ "learning-rate": "x" }),
                "learning-rate",
                "must be a number from 0.000001 to 1000, got \"x\"",
            ),
            (
                json!({ "emb-dim": 1e9 }),
                "emb-dim",
                "must be a whole number from 4 to 256, got 1000000000.0",
            ),
            (
                json!({ "n-layers": 1.5 }),
                "n-layers",
                "must be a whole number from 1 to 6, got 1.5",
            ),
            (
                json!({ "n-heads": 5 }),
                "n-heads",
                "the number of heads must divide the width, but 64 isn't a multiple of 5",
            ),
            (
                json!({ "drop-rate": 1 }),
                "drop-rate",
                "must be a number from 0 to 0.9, got 1",
            ),
        ] {
            assert_eq!(
                preset("characters", values),
                json!({ "faults": { option: fault } })
            );
        }
        let both = preset("words", json!({ "n-layers": 0, "batch-size": -1 }));
        assert_eq!(both["faults"].as_object().unwrap().len(), 2);
    }

    #[test]
    fn a_rate_that_is_too_high_ends_the_run_with_the_losses_so_far() {
        let values = json!({ "learning-rate": 1000, "emb-dim": 8, "n-heads": 1, "n-layers": 1 });
        let mut lesson = begin("characters", &values);
        let answer = lesson.answer(&json!({ "steps": 50 })).unwrap();
        let losses = answer["losses"].as_array().unwrap();
        let last = losses.last().unwrap()[1].as_f64().unwrap();
        assert!(
            last > 2.0 * answer["baseline"].as_f64().unwrap(),
            "{answer}"
        );
    }

    #[test]
    fn wrong_requests_are_refused_and_texts_that_the_model_does_not_know_have_a_note() {
        let mut lesson = begin("characters", &Value::Null);
        for request in [
            json!({ "steps": MAX_STEPS + 1 }),
            json!({ "view": { "prompt": "a", "lines": ["a"], "layer": 2 } }),
            json!({ "view": { "prompt": "a", "lines": ["a"], "head": 4 } }),
            json!({ "view": { "prompt": "a", "lines": ["a"], "snapshot": 1 } }),
        ] {
            assert!(lesson.answer(&request).is_err(), "{request}");
        }
        let long = "a".repeat(40) + "\u{436}\u{20AC}";
        let view = lesson
            .view(&json!({ "prompt": "", "lines": [long, ""], "tokens": 5 }))
            .unwrap();
        assert_eq!(
            [&view["prompt_note"], &view["sample"]],
            ["Enter at least one character.", ""]
        );
        assert_eq!(
            view["lines"][0]["note"],
            "These characters aren't in the vocabulary: \u{436}\u{20AC}. The model reads the unknown token \u{FFFD} instead. \
             The line has 42 tokens, but the model reads at most 32, so the remaining tokens are ignored."
        );
        assert_eq!(view["lines"][1]["note"], "Enter at least one character.");
        let lesson = begin("words", &Value::Null);
        let view = lesson
            .view(&json!({ "prompt": "\u{436}", "lines": [] }))
            .unwrap();
        assert!(view["prompt_note"].as_str().unwrap().starts_with(
            "These characters don't occur in the story, so the model has never seen them: \u{436}."
        ));
    }
}
