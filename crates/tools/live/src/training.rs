//! A small model that learns in the page (book section 5.2): the run of `gpt train`, step by step.

use std::ops::ControlFlow;

use anyhow::{Context, Result, ensure};
use dataloader::{Corpus, DataLoader, DataLoaderConfig, train_validation_split};
use generate::{Decoder, Inspection, Sampling};
use gpt::{GptConfig, GptModel};
use notebooks::text::STORY as TEXT;
use serde_json::{Value, json};
use torch_rng::TorchRng;
use train::presets::{CHARACTERS, Preset, STORY, STORY_STRIDE};
use train::{AdamWConfig, Event, Schedule, TrainConfig, Trainer};

use crate::model::{attention_in_base64, short};
use crate::tokenizer::PageTokenizer;

const TRAIN_RATIO: f64 = 0.9;
/// A request may ask for this many steps, because the worker answers nothing in between.
const MAX_STEPS: u64 = 200;
const MAX_NEW_TOKENS: u64 = 200;
const SAMPLE_TEMPERATURE: f32 = 0.5;

/// The presets that a page can train. The command `gpt train --preset NAME` trains the same model.
const PRESETS: [Preset; 2] = [CHARACTERS, STORY];

/// Returns what a page shows of the presets.
pub(crate) fn presets() -> Value {
    let shown = PRESETS.map(|preset| {
        json!({
            "name": preset.name(), "arguments": format!("train --preset {preset}"),
            "learning_rate": preset.training.learning_rate,
        })
    });
    json!({ "presets": shown })
}

/// A training run that a page controls.
pub(crate) struct PageTraining {
    words: PageTokenizer,
    trainer: Trainer,
}

impl PageTraining {
    /// Prepares a run with a preset and a peak learning rate; `None` means the preset's.
    ///
    /// # Errors
    /// The preset is unknown, or the learning rate isn't between 0 and 1.
    pub(crate) fn new(preset: &str, learning_rate: Option<f64>) -> Result<Self> {
        let names = PRESETS.map(|preset| preset.name()).join(", ");
        let preset = PRESETS.into_iter().find(|known| known.name() == preset);
        let preset = preset.with_context(|| format!("the presets are {names}"))?;
        let settings = preset.training;
        let lr = learning_rate.unwrap_or(settings.learning_rate);
        ensure!(
            lr > 0.0 && lr <= 1.0,
            "the learning rate must be above 0 and at most 1, got {lr}"
        );
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
            max_grad_norm: Some(1.0),
            eval_every: Some(settings.eval_interval as u64),
            eval_batches: settings.eval_iters,
            ..TrainConfig::default()
        };
        let mut rng = TorchRng::manual_seed(123);
        let model = GptModel::new(config, &mut rng)?;
        let trainer = Trainer::new(training, model, train, Some(validation), rng)?;
        Ok(Self { words, trainer })
    }

    /// Answers a request: `{"steps": 10}` trains; `{"view": {"prompt", "line", "layer", "head"}}`
    /// shows a sample, the loss of each token in a line, and a head's attention to that line.
    ///
    /// # Errors
    /// The request has a number out of range, or training diverges.
    pub(crate) fn answer(&mut self, request: &Value) -> Result<Value> {
        match request["steps"].as_u64() {
            Some(steps) => self.train(steps),
            None => self.view(&request["view"]),
        }
    }

    fn train(&mut self, steps: u64) -> Result<Value> {
        ensure!(
            steps <= MAX_STEPS,
            "at most {MAX_STEPS} steps at once, got {steps}"
        );
        let (mut losses, mut evaluations) = (Vec::new(), Vec::new());
        if steps > 0 {
            self.trainer.run(None, &mut |event| {
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
                    _ => {}
                }
                ControlFlow::Continue(())
            })?;
        }
        let config = self.trainer.model().config();
        Ok(json!({
            "losses": losses, "evaluations": evaluations, "step": self.trainer.steps_done(),
            "done": steps > 0 && losses.is_empty(),
            "baseline": (config.vocab_size as f64).ln(), "vocab_size": config.vocab_size,
            "parameters": config.size()?.total(), "layers": config.n_layers, "heads": config.n_heads,
        }))
    }

    fn view(&self, asked: &Value) -> Result<Value> {
        let model = self.trainer.model();
        let text = |name: &str| asked[name].as_str().unwrap_or_default();
        let number = |name: &str| asked[name].as_u64().unwrap_or_default();
        let sample = self.sample(text("prompt"), number("tokens").min(MAX_NEW_TOKENS))?;

        let mut ids = self.words.encode(text("line"))?;
        ensure!(!ids.is_empty(), "the line is empty");
        ids.truncate(model.config().context_length);
        let text_of = |id| self.words.text_of(&[id]);
        let inspection = Inspection::of(model, &text_of, &ids, Inspection::TOP, |_| ())?;
        let tokens = inspection.tokens.iter();
        let tokens: Vec<Value> = tokens
            .map(|token| json!([token.text, token.loss.map(short)]))
            .collect();
        let block = inspection
            .blocks(ids.len(), 1)?
            .nth(number("layer") as usize);
        let block = block.context("the model has no such layer")??;
        let mut heads = block.attention.outer_iter();
        let head = heads.nth(number("head") as usize);
        let head = head.context("the model has no such head")?;
        Ok(json!({ "sample": sample, "tokens": tokens, "attention": attention_in_base64(head) }))
    }

    /// Draws a continuation of the prompt, the same one for the same step.
    fn sample(&self, prompt: &str, new_tokens: u64) -> Result<String> {
        let ids = self.words.encode(prompt)?;
        ensure!(!ids.is_empty(), "the prompt is empty");
        let mut decoder = Decoder::new(self.trainer.model());
        decoder.start(&ids)?;
        let sampling = Sampling {
            temperature: SAMPLE_TEMPERATURE,
            ..Sampling::GREEDY
        };
        let mut rng = TorchRng::manual_seed(self.trainer.steps_done());
        for _ in 0..new_tokens {
            let logits = decoder.advance()?;
            let id = sampling.choose(&logits, &mut rng)?;
            decoder.push(&[id])?;
        }
        Ok(self.words.text_of(&decoder.tokens()[ids.len()..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_characters_become_words_of_the_story() {
        let mut lesson = PageTraining::new("characters", None).unwrap();
        let first = lesson.answer(&json!({ "steps": 1 })).unwrap();
        let (loss, baseline) = (&first["losses"][0][1], &first["baseline"]);
        let [loss, baseline] = [loss, baseline].map(|it| it.as_f64().unwrap());
        assert!((loss - baseline).abs() < 0.5, "{loss} {baseline}");
        let view = json!({ "view": { "prompt": "The bell ", "tokens": 200, "line": "The river", "layer": 1, "head": 3 } });
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
        assert_eq!(after["tokens"].as_array().unwrap().len(), 9);
    }

    #[test]
    fn wrong_requests_are_refused() {
        assert!(PageTraining::new("none", None).is_err());
        for rate in [0.0, -1.0, f64::NAN, 2.0] {
            assert!(
                PageTraining::new("characters", Some(rate)).is_err(),
                "{rate}"
            );
        }
        let mut lesson = PageTraining::new("characters", None).unwrap();
        for view in [
            json!({ "steps": MAX_STEPS + 1 }),
            json!({ "view": { "prompt": "", "line": "a" } }),
            json!({ "view": { "prompt": "a", "line": "" } }),
            json!({ "view": { "prompt": "a", "line": "a", "layer": 2 } }),
            json!({ "view": { "prompt": "a", "line": "a", "head": 4 } }),
        ] {
            assert!(lesson.answer(&view).is_err(), "{view}");
        }
    }
}
