//! The core of training: batches to gradients, gradients to steps (book section 5.2).
//!
//! ```text
//! batch:  loss and gradients (times 1 / accumulation)
//! step:   after `accumulation` batches: clip, AdamW
//! ```
//!
//! When an evaluation, a sample or a checkpoint is due, `run.rs` knows; what a checkpoint keeps, `resume.rs`.

use std::sync::OnceLock;

use dataloader::{DataLoader, Epoch};
use gpt::{GptError, GptModel};
use torch_rng::TorchRng;

use crate::clip::clip_scale;
use crate::state::{Counters, Fingerprint};
use crate::{
    AdamW, BatchReport, Evaluation, SampleConfig, StepReport, TrainConfig, TrainError, grad_norm,
};

/// A run: model, optimizer, data and random numbers, at one moment.
#[derive(Debug)]
pub struct Trainer {
    pub(crate) config: TrainConfig,
    pub(crate) model: GptModel,
    pub(crate) optimizer: AdamW,
    /// Zeros, but between the batches of one step.
    pub(crate) grads: GptModel,
    pub(crate) rng: TorchRng,
    pub(crate) train_loader: DataLoader,
    pub(crate) val_loader: Option<DataLoader>,
    pub(crate) epoch_in_progress: Option<EpochInProgress>,
    pub(crate) counters: Counters,
    pub(crate) fingerprints: OnceLock<(Fingerprint, Option<Fingerprint>)>,
}

/// An epoch that has begun, and the generator from before it was drawn.
#[derive(Debug)]
pub(crate) struct EpochInProgress {
    pub(crate) batches: Epoch,
    pub(crate) drawn_from: TorchRng,
}

/// What one batch led to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The batch.
    pub batch: BatchReport,
    /// The step, if the batch completed one.
    pub step: Option<StepReport>,
    /// Whether it was the last batch of its epoch.
    pub epoch_end: bool,
}

impl Trainer {
    /// A run that begins with `model` and moments of zero; `rng` draws the order of the data and the dropout.
    ///
    /// # Errors
    /// If a setting is wrong, or the windows are longer than the model's context.
    pub fn new(
        config: TrainConfig,
        model: GptModel,
        train_loader: DataLoader,
        val_loader: Option<DataLoader>,
        rng: TorchRng,
    ) -> Result<Self, TrainError> {
        let optimizer = AdamW::new(config.optimizer, model.config())?;
        Self::with_optimizer(config, model, optimizer, (train_loader, val_loader), rng)
    }

    /// As [`new`](Self::new), with an optimizer that may have taken steps before; its settings replace those of `config`.
    pub(crate) fn with_optimizer(
        mut config: TrainConfig,
        model: GptModel,
        optimizer: AdamW,
        (train_loader, val_loader): (DataLoader, Option<DataLoader>),
        rng: TorchRng,
    ) -> Result<Self, TrainError> {
        config.optimizer = optimizer.config;
        config.validate()?;
        if optimizer.m.config() != model.config() || optimizer.v.config() != model.config() {
            return Err(TrainError::OtherModel {
                optimizer: format!("{:?}", optimizer.m.config()),
                model: format!("{:?}", model.config()),
            });
        }
        check_windows(&model, &train_loader, val_loader.as_ref())?;
        check_prompt(&model, config.sample.as_ref())?;
        Ok(Self {
            grads: GptModel::zeros(*model.config())?,
            config,
            model,
            optimizer,
            rng,
            train_loader,
            val_loader,
            epoch_in_progress: None,
            counters: Counters::default(),
            fingerprints: OnceLock::new(),
        })
    }

    /// One batch forward and backward, and the optimizer's step if it was the last one to be accumulated.
    ///
    /// # Errors
    /// If loss or gradient are not finite: the weights are then those from before the step.
    pub fn train_batch(&mut self) -> Result<Progress, TrainError> {
        let (batch, epoch_end) = self.next_batch()?;
        let learning_rate = self.learning_rate();
        let weight = 1.0 / self.config.accumulation as f32;
        let loss = self.model.loss_and_grads(
            &batch.input_ids,
            &batch.target_ids,
            weight,
            &mut self.rng,
            &mut self.grads,
        )?;
        if !loss.is_finite() {
            return Err(TrainError::NonFiniteLoss {
                step: self.counters.steps_done,
                loss,
                learning_rate,
            });
        }
        let tokens = batch.input_ids.len() as u64;
        let report = BatchReport {
            step: self.counters.steps_done,
            micro_step: self.counters.micro_step,
            epoch: self.counters.epoch,
            loss,
            tokens,
        };
        self.counters.tokens_seen += tokens;
        self.counters.loss_sum += f64::from(loss);
        self.counters.micro_step += 1;
        let step = if self.counters.micro_step == self.config.accumulation {
            Some(self.update(learning_rate)?)
        } else {
            None
        };
        if epoch_end {
            self.epoch_in_progress = None;
            self.counters.epoch += 1;
        }
        Ok(Progress {
            batch: report,
            step,
            epoch_end,
        })
    }

    /// The settings.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The model as it is now.
    pub fn model(&self) -> &GptModel {
        &self.model
    }

    /// The optimizer as it is now.
    pub fn optimizer(&self) -> &AdamW {
        &self.optimizer
    }

    /// The generator as it is now.
    pub fn rng(&self) -> &TorchRng {
        &self.rng
    }

    /// Optimizer steps so far.
    pub fn steps_done(&self) -> u64 {
        self.counters.steps_done
    }

    /// Input tokens so far.
    pub fn tokens_seen(&self) -> u64 {
        self.counters.tokens_seen
    }

    /// Every step so far, those before a resume included.
    pub fn steps(&self) -> &[StepReport] {
        &self.counters.steps
    }

    /// Every evaluation so far, those before a resume included.
    pub fn evaluations(&self) -> &[Evaluation] {
        &self.counters.evaluations
    }

    /// The learning rate of the step in progress, or the next one.
    pub fn learning_rate(&self) -> f64 {
        let peak_lr = self.config.optimizer.lr;
        self.config
            .schedule
            .learning_rate(self.counters.steps_done, peak_lr)
    }

    /// The next batch, of a new epoch if need be, and whether it is the last one.
    fn next_batch(&mut self) -> Result<(dataloader::Batch, bool), TrainError> {
        let epoch = self.epoch_in_progress.get_or_insert_with(|| {
            let drawn_from = self.rng.clone();
            let batches = self.train_loader.epoch(&mut self.rng);
            EpochInProgress {
                batches,
                drawn_from,
            }
        });
        let batch = epoch.batches.try_next()?;
        let batch = batch.expect("an epoch has a batch, and a used up one is put away");
        Ok((batch, epoch.batches.len() == 0))
    }

    /// Clips and takes the optimizer's step.
    fn update(&mut self, learning_rate: f64) -> Result<StepReport, TrainError> {
        let norm = grad_norm(&self.grads);
        if !norm.is_finite() {
            return Err(TrainError::NonFiniteGradient {
                step: self.counters.steps_done,
                norm,
                learning_rate,
            });
        }
        let scale = self
            .config
            .max_grad_norm
            .map_or(1.0, |max| clip_scale(norm, max));
        self.optimizer
            .step(&mut self.model, &mut self.grads, learning_rate, scale);
        let report = StepReport {
            step: self.counters.steps_done,
            epoch: self.counters.epoch,
            loss: (self.counters.loss_sum / self.config.accumulation as f64) as f32,
            learning_rate,
            grad_norm: norm,
            tokens_seen: self.counters.tokens_seen,
        };
        self.counters.steps.push(report);
        self.counters.steps_done += 1;
        self.counters.micro_step = 0;
        self.counters.loss_sum = 0.0;
        Ok(report)
    }
}

/// That the model can take the windows, before the first step is computed.
fn check_windows(
    model: &GptModel,
    train_loader: &DataLoader,
    val_loader: Option<&DataLoader>,
) -> Result<(), TrainError> {
    let context_length = model.config().context_length;
    for loader in std::iter::once(train_loader).chain(val_loader) {
        let num_tokens = loader.dataset().max_length();
        if num_tokens > context_length {
            return Err(TrainError::Gpt(GptError::TooLong {
                num_tokens,
                context_length,
            }));
        }
    }
    Ok(())
}

/// That the model knows the sample's prompt.
fn check_prompt(model: &GptModel, sample: Option<&SampleConfig>) -> Result<(), TrainError> {
    let vocab_size = model.config().vocab_size;
    let prompt = sample.map_or(&[][..], |sample| &sample.prompt);
    match prompt.iter().position(|&id| id as usize >= vocab_size) {
        None => Ok(()),
        Some(column) => Err(TrainError::Gpt(GptError::TokenOutOfRange {
            id: prompt[column],
            row: 0,
            column,
            vocab_size,
        })),
    }
}
