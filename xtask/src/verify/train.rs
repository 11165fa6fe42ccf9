//! The tier `train`: chapter 5's ten epochs from seed 123, every row of the book's table, and the samples.
//!
//! `verify train --book-text FILE` compares; `--epochs N` shortens the run and what is compared;
//! `--dropout-build mkl` trains as a PyTorch wheel on x86 Linux would, for which nothing is printed, so it only writes the run to `--json FILE`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use dataloader::{DataLoaderConfig, create_dataloader_v1, train_validation_split};
use generate::{BookSampling, generate, generate_text_simple};
use gpt::{GptConfig, GptModel};
use serde_json::json;
use tokenizer::{Gpt2Tokenizer, text_to_token_ids, token_ids_to_text};
use torch_rng::{Build, TorchRng};
use train::{
    AdamW, AdamWConfig, Evaluation, Event, SimpleTraining, calc_loss_loader, train_model_simple,
};

use super::compare::Computed;
use super::lab::Lab;
use super::registry::Check;
use super::table::Case;

/// The tier's name.
pub(crate) const TIER: &str = "train";

/// The book's number of epochs.
const EPOCHS: u64 = 10;
/// Batches an epoch, and steps between evaluations, of the book's run.
const BATCHES: u64 = 9;
const EVAL_FREQ: u64 = 5;
const SEED: u64 = 123;
const CONTEXT: usize = 256;
const START: &str = "Every effort moves you";

pub(crate) const CHECKS: &[Check] = &[
    Check::new("ch05.n77", n77),
    Check::new("ch05.n77-greedy", n77_greedy),
    Check::new("ch05.n115", n115),
];

/// Which run: the book's, or one that is shorter or drops as another build does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainingRun {
    epochs: u64,
    build: Build,
}

/// A run that is done.
pub(crate) struct Trained {
    model: GptModel,
    batch_losses: Vec<f32>,
    evaluations: Vec<Evaluation>,
    /// The ids of each epoch's sample, prompt included.
    samples: Vec<Vec<u32>>,
    /// Training and validation loss of the untrained model.
    initial: [f64; 2],
}

impl Default for TrainingRun {
    fn default() -> Self {
        Self {
            epochs: EPOCHS,
            build: Build::Portable,
        }
    }
}

impl TrainingRun {
    /// The book's run, unless something else is asked for.
    ///
    /// # Errors
    /// The number of epochs is 0, or more than the book's.
    pub(crate) fn new(epochs: Option<u64>, build: Option<Build>) -> Result<Self> {
        let epochs = epochs.unwrap_or(EPOCHS);
        ensure!(
            (1..=EPOCHS).contains(&epochs),
            "--epochs must be from 1 to {EPOCHS}, but is {epochs}"
        );
        Ok(Self {
            epochs,
            build: build.unwrap_or_default(),
        })
    }

    /// Whether anything is printed of such a run.
    pub(crate) fn is_comparable(self) -> bool {
        self.build == Build::Portable
    }

    /// Leaves in the table what a shorter run reaches.
    pub(crate) fn shorten(self, cases: &mut Vec<Case>) {
        if self.epochs == EPOCHS {
            return;
        }
        println!(
            "the run has {} of {EPOCHS} epochs: later rows and the last samples are not compared",
            self.epochs
        );
        cases.retain(|case| case.id == "ch05.n77");
        let rows = (self.epochs * BATCHES).div_ceil(EVAL_FREQ) as usize;
        for case in cases {
            let mut samples = 0;
            case.figures.retain(|figure| {
                samples += u64::from(figure.name.starts_with("sample after"));
                samples <= self.epochs
            });
            for figure in &mut case.figures {
                if figure.name.ends_with("losses") {
                    figure.keep_first(rows);
                }
            }
        }
    }

    /// Trains as listing 5.3 and the cells before it do; each evaluation is printed to standard error.
    pub(crate) fn run(self, text: &str, tokenizer: &Gpt2Tokenizer) -> Result<Trained> {
        let (train_text, validation_text) = train_validation_split(text, 0.9)?;
        let train_config = DataLoaderConfig {
            batch_size: 2,
            max_length: CONTEXT,
            stride: CONTEXT,
            shuffle: true,
            drop_last: true,
        };
        let validation_config = DataLoaderConfig {
            shuffle: false,
            drop_last: false,
            ..train_config
        };
        let loader = create_dataloader_v1(train_text, tokenizer, train_config)?;
        let validation = create_dataloader_v1(validation_text, tokenizer, validation_config)?;

        let mut rng = TorchRng::manual_seed(SEED).with_build(self.build);
        let config = GptConfig {
            context_length: CONTEXT,
            ..GptConfig::GPT2_124M
        };
        let mut model = GptModel::new(config, &mut rng)?;
        // Cell 71 seeds before it iterates over the loaders; the training run is not touched by it.
        let mut other = TorchRng::manual_seed(SEED);
        let initial = [
            calc_loss_loader(&loader, &model, None, &mut other)?,
            calc_loss_loader(&validation, &model, None, &mut other)?,
        ];
        let mut optimizer = AdamW::new(AdamWConfig::default(), &config)?;
        let training = SimpleTraining {
            num_epochs: self.epochs,
            eval_freq: EVAL_FREQ,
            eval_iter: 5,
            start_context: START,
            tokenizer,
        };
        let loaders = (&loader, &validation);
        let (mut batch_losses, mut evaluations, mut samples) = (vec![], vec![], vec![]);
        let on_event = |event: Event<'_>| match event {
            Event::Batch(batch) => batch_losses.extend(batch.loss),
            Event::Evaluation(evaluation) => {
                print(evaluation);
                evaluations.push(*evaluation);
            }
            Event::Sample { ids, .. } => samples.push(ids.to_vec()),
            _ => {}
        };
        let (model_ref, optimizer) = (&mut model, &mut optimizer);
        train_model_simple(model_ref, optimizer, loaders, &training, &mut rng, on_event)?;
        Ok(Trained {
            model,
            batch_losses,
            evaluations,
            samples,
            initial,
        })
    }
}

/// One line an evaluation, as the book prints them.
fn print(evaluation: &Evaluation) {
    eprintln!(
        "Ep {} (Step {:06}): Train loss {:.3}, Val loss {:.3}",
        evaluation.epoch + 1,
        evaluation.step,
        evaluation.train_loss,
        evaluation.val_loss.unwrap_or(f64::NAN)
    );
}

fn n77(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let Trained {
        evaluations,
        samples,
        initial,
        ..
    } = lab.trained()?;
    let mut computed = Computed::new()
        .number("initial training loss", initial[0])
        .number("initial validation loss", initial[1])
        .series("training losses", evaluations.iter().map(|e| e.train_loss))
        .series(
            "validation losses",
            evaluations.iter().filter_map(|e| e.val_loss),
        );
    for (epoch, ids) in samples.iter().enumerate() {
        computed = computed.ids(
            &format!("sample after epoch {}", epoch + 1),
            ids.iter().copied(),
        );
    }
    Ok(computed)
}

fn n77_greedy(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let prompt = text_to_token_ids(case.text("text")?, lab.tokenizer())?;
    let (tokens, context) = (case.count("max_new_tokens")?, case.count("context_length")?);
    let ids = generate_text_simple(&lab.trained()?.model, prompt, tokens, context)?;
    Ok(Computed::new().ids("ids", ids))
}

fn n115(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let prompt = text_to_token_ids(case.text("text")?, lab.tokenizer())?;
    let sampling = BookSampling {
        max_new_tokens: case.count("max_new_tokens")?,
        context_size: case.count("context_length")?,
        temperature: case.number("temperature")? as f32,
        top_k: Some(case.count("top_k")?),
        eos_id: None,
    };
    let mut rng = TorchRng::manual_seed(case.seed()?);
    let ids = generate(&lab.trained()?.model, prompt, sampling, &mut rng)?;
    let text = token_ids_to_text(ids.view(), lab.tokenizer())?;
    Ok(Computed::new().ids("ids", ids).text("text", text))
}

/// Writes every step of a run as JSON: its batch's loss, and both losses where it was evaluated.
///
/// # Errors
/// The file can't be written.
pub(crate) fn write_run(trained: &Trained, path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let steps: Vec<_> = (0..)
        .zip(&trained.batch_losses)
        .map(|(step, loss)| {
            let mut line = json!({ "step": step, "batch_loss": loss });
            if let Some(evaluation) = trained.evaluations.iter().find(|e| e.step == step) {
                line["train"] = json!(evaluation.train_loss);
                line["val"] = json!(evaluation.val_loss);
            }
            line
        })
        .collect();
    let [init_train, init_val] = trained.initial;
    let run = json!({
        "init_train": init_train,
        "init_val": init_val,
        "steps": steps,
        "samples": trained.samples,
    });
    let text = serde_json::to_string_pretty(&run).context("a run is valid JSON")?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}
