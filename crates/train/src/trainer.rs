//! The core of training: batches to gradients, gradients to steps (book section 5.2).
//!
//! ```text
//! batch:  loss and gradients (times 1 / accumulation)
//! step:   after `accumulation` batches: clip, AdamW
//! ```
//!
//! Each batch's gradients are computed from zero and added to those before: the bits of a step don't depend on who computed which batch.
//! When an evaluation, a sample or a checkpoint is due, `run.rs` knows; what a checkpoint keeps, `resume.rs`.

use std::sync::OnceLock;

use dataloader::{Batch, DataLoader, Epoch};
use gpt::{BatchParts, GptError, GptModel, move_gradients};
use tensor_ops::{KeepBuffers, Parameters};
use torch_rng::TorchRng;

use crate::clip::clip_scale;
use crate::share::Share;
use crate::state::{Counters, Fingerprint};
use crate::{
    AdamW, BatchReport, Evaluation, SampleConfig, StepReport, TrainConfig, TrainError, grad_norm,
};

/// A run: model, optimizer, data and random numbers, at one moment.
#[derive(Debug)]
pub struct Trainer {
    pub(crate) config: TrainConfig,
    pub(crate) model: GptModel,
    pub(crate) optimizer: Optimizer,
    /// The sum over the batches of one step; zeros between steps, and where ranks share the sums.
    pub(crate) grads: GptModel,
    /// Zeros to compute a step's second batch into, and those after it.
    batch_grads: Option<GptModel>,
    parts: BatchParts,
    pub(crate) rng: TorchRng,
    pub(crate) train_loader: DataLoader,
    pub(crate) val_loader: Option<DataLoader>,
    pub(crate) epoch_in_progress: Option<EpochInProgress>,
    pub(crate) counters: Counters,
    pub(crate) fingerprints: OnceLock<(Fingerprint, Option<Fingerprint>)>,
    /// A step finds the memory of the one before.
    buffers: KeepBuffers,
}

/// The optimizer, or this rank's share of it.
#[derive(Debug)]
pub(crate) enum Optimizer {
    Alone(Box<AdamW>),
    Shared(Share),
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
            batch_grads: None,
            parts: BatchParts::new(&model),
            config,
            model,
            optimizer: Optimizer::Alone(Box::new(optimizer)),
            rng,
            train_loader,
            val_loader,
            epoch_in_progress: None,
            counters: Counters::default(),
            fingerprints: OnceLock::new(),
            buffers: KeepBuffers::new(),
        })
    }

    /// One batch forward and backward, and the optimizer's step if it was the last one to be accumulated.
    ///
    /// # Errors
    /// If the batch can't be read: it is read again by the next call.
    /// If it doesn't suit the model, or loss or gradient are not finite: the weights are then those from before the step, which the next batch begins anew.
    pub fn train_batch(&mut self) -> Result<Progress, TrainError> {
        let (batch, epoch_end) = self.next_batch()?;
        let done = self.learn(&batch);
        if epoch_end {
            self.epoch_in_progress = None;
            self.counters.epoch += 1;
        }
        if done.is_err() {
            self.give_up_step();
        }
        let (batch, step) = done?;
        Ok(Progress {
            batch,
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

    /// The optimizer as it is now; `None` if ranks share its moments.
    pub fn optimizer(&self) -> Option<&AdamW> {
        match &self.optimizer {
            Optimizer::Alone(optimizer) => Some(optimizer),
            Optimizer::Shared(_) => None,
        }
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
    fn next_batch(&mut self) -> Result<(Batch, bool), TrainError> {
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

    /// What a batch leads to.
    fn learn(&mut self, batch: &Batch) -> Result<(BatchReport, Option<StepReport>), TrainError> {
        let learning_rate = self.learning_rate();
        let loss = match &self.optimizer {
            Optimizer::Shared(share) if !share.computes(self.counters.micro_step) => {
                self.model.skip_draws(batch.input_ids.dim(), &mut self.rng);
                None
            }
            _ => Some(self.add_gradients(batch)?),
        };
        self.buffers.end_step();
        let tokens = batch.input_ids.len() as u64;
        let report = BatchReport {
            step: self.counters.steps_done,
            micro_step: self.counters.micro_step,
            epoch: self.counters.epoch,
            loss,
            tokens,
        };
        self.counters.tokens_seen += tokens;
        self.counters.micro_step += 1;
        self.add_losses(loss, learning_rate)?;
        let step = match self.counters.micro_step == self.config.accumulation {
            true => Some(self.update(learning_rate)?),
            false => None,
        };
        Ok((report, step))
    }

    /// Forgets the batches of the step in progress.
    fn give_up_step(&mut self) {
        self.grads.fill_zero();
        self.counters.micro_step = 0;
        self.counters.loss_sum = 0.0;
        if let Optimizer::Shared(share) = &mut self.optimizer {
            share.give_up_step();
        }
    }

    /// One batch forward and backward: adds to the step's gradients, and returns the loss.
    fn add_gradients(&mut self, batch: &Batch) -> Result<f32, TrainError> {
        let shared = matches!(self.optimizer, Optimizer::Shared(_));
        let first = self.counters.micro_step == 0 || shared;
        if !first && self.batch_grads.is_none() {
            self.batch_grads = Some(GptModel::zeros(*self.model.config())?);
        }
        let grads = match &mut self.batch_grads {
            Some(grads) if !first => grads,
            _ => &mut self.grads,
        };
        let weight = 1.0 / self.config.accumulation as f32;
        let (inputs, targets) = (&batch.input_ids, &batch.target_ids);
        let (model, rng) = (&self.model, &mut self.rng);
        let loss = self
            .parts
            .loss_and_grads(model, inputs, targets, weight, rng, grads)?;
        if let Some(grads) = self.batch_grads.as_mut().filter(|_| !first) {
            move_gradients(grads, &mut self.grads);
        }
        Ok(loss)
    }

    /// Adds a batch's loss to the step's; with ranks, those of a round at its end.
    fn add_losses(&mut self, loss: Option<f32>, learning_rate: f64) -> Result<(), TrainError> {
        let step = self.counters.steps_done;
        let not_finite = |loss| TrainError::NonFiniteLoss {
            step,
            loss,
            learning_rate,
        };
        match &mut self.optimizer {
            Optimizer::Alone(_) => {
                let loss = loss.expect("alone, each batch is ours");
                if !loss.is_finite() {
                    return Err(not_finite(loss));
                }
                self.counters.loss_sum += f64::from(loss);
            }
            Optimizer::Shared(share) => {
                let batches = (self.counters.micro_step, self.config.accumulation);
                for (rank, loss) in share.batch_done(loss, batches, &mut self.grads) {
                    if !loss.is_finite() {
                        let source = Box::new(not_finite(loss));
                        return Err(TrainError::OnRank { rank, source });
                    }
                    self.counters.loss_sum += f64::from(loss);
                }
            }
        }
        Ok(())
    }

    /// Clips and takes the optimizer's step.
    fn update(&mut self, learning_rate: f64) -> Result<StepReport, TrainError> {
        let norm = match &self.optimizer {
            Optimizer::Alone(_) => grad_norm(&self.grads),
            Optimizer::Shared(share) => share.grad_norm(),
        };
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
        match &mut self.optimizer {
            Optimizer::Alone(optimizer) => {
                optimizer.step(&mut self.model, &mut self.grads, learning_rate, scale);
            }
            Optimizer::Shared(share) => share.step(&mut self.model, learning_rate, scale),
        }
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
