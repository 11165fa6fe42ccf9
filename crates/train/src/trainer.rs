//! A training run (book section 5.2): batches to gradients, gradients to steps, with evaluations,
//! samples and checkpoints when they are due.
//!
//! ```text
//! batch:  loss and gradients (times 1 / batches of the step)
//! step:   after `accumulation` batches: clip, AdamW
//! ```
//!
//! It prints nothing: everything that happens is an [`Event`] for the caller's closure.
//! A run may be one of several [`Ranks`], but usually there is one; `shares.rs` divides the work.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dataloader::{Batch, DataLoader, Epoch};
use gpt::{GptConfig, GptModel};
use tensor_ops::Parameters;
use torch_rng::TorchRng;

use crate::checkpoint::{self, Checkpoint, STATE_FILE};
use crate::clip::clip_scale;
use crate::fingerprint::Fingerprint;
use crate::gradients::{MicroStep, StepGradients};
use crate::manifest::{Save, hash_of_numbers};
use crate::ranks::agree;
use crate::shares::Shares;
use crate::state::{Counters, EpochState, TrainState, rng_from_hex, rng_to_hex};
use crate::{
    AdamW, BatchReport, Evaluation, Event, OneProcess, Outcome, Ranks, RunFolder, StepReport,
    TrainConfig, TrainError,
};

/// A run: model, optimizer, data and random numbers, at one moment.
///
/// ```
/// use std::ops::ControlFlow;
/// use train::dataloader::{Corpus, DataLoader, DataLoaderConfig};
/// use train::gpt::{GptConfig, GptModel};
/// use train::torch_rng::TorchRng;
/// use train::{Event, TrainConfig, Trainer};
///
/// let corpus = Corpus::from_ids((0..200).map(|i| i % 10).collect::<Vec<u32>>());
/// let windows = DataLoaderConfig { max_length: 8, stride: 8, ..DataLoaderConfig::default() };
/// let loader = DataLoader::new(&corpus, windows)?;
/// let config = GptConfig {
///     vocab_size: 10,
///     context_length: 8,
///     emb_dim: 16,
///     n_heads: 2,
///     n_layers: 1,
///     ..GptConfig::GPT2_124M
/// };
/// let mut rng = TorchRng::manual_seed(123);
/// let model = GptModel::new(config, &mut rng)?;
/// let settings = TrainConfig { max_steps: 60, ..TrainConfig::default() };
/// let mut trainer = Trainer::new(settings, model, loader, None, rng)?;
/// let mut losses = Vec::new();
/// trainer.run(None, &mut |event| {
///     if let Event::Step(step) = event {
///         losses.push(step.loss);
///     }
///     ControlFlow::Continue(())
/// })?;
/// assert!(losses[59] < losses[0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Trainer {
    pub(crate) config: TrainConfig,
    pub(crate) model: GptModel,
    /// Moments of this rank's part.
    optimizer: AdamW,
    gradients: StepGradients,
    pub(crate) shares: Shares,
    rng: TorchRng,
    pub(crate) train_loader: DataLoader,
    pub(crate) val_loader: Option<DataLoader>,
    epoch_in_progress: Option<EpochInProgress>,
    pub(crate) counters: Counters,
    /// The training data's, and the validation data's.
    fingerprints: (Fingerprint, Option<Fingerprint>),
}

/// An epoch that has begun, and the generator from before it was drawn.
#[derive(Debug)]
struct EpochInProgress {
    batches: Epoch,
    drawn_from: TorchRng,
}

/// One batch, and the step that it completed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The batch.
    pub batch: BatchReport,
    /// The step, if the batch completed one.
    pub step: Option<StepReport>,
    /// True for the last batch of its epoch.
    pub epoch_end: bool,
}

impl Trainer {
    /// A run that begins with `model` and moments of zero.
    ///
    /// The generator is the run's from here on: it draws the order of the data and the dropout, and
    /// checkpoints keep it.
    ///
    /// # Errors
    /// If a setting is wrong, the windows are longer than the model's context, or the data can't be
    /// read.
    pub fn new(
        config: TrainConfig,
        model: GptModel,
        train_loader: DataLoader,
        val_loader: Option<DataLoader>,
        rng: TorchRng,
    ) -> Result<Self, TrainError> {
        config.validate()?;
        config.check_fits(&model, &train_loader, val_loader.as_ref())?;
        let val_data = val_loader.as_ref().map(Fingerprint::of).transpose()?;
        Ok(Self {
            fingerprints: (Fingerprint::of(&train_loader)?, val_data),
            optimizer: AdamW::new(config.optimizer, &model)?,
            gradients: StepGradients::new(&model)?,
            shares: Shares::new(Arc::new(OneProcess), &model),
            config,
            model,
            rng,
            train_loader,
            val_loader,
            epoch_in_progress: None,
            counters: Counters::default(),
        })
    }

    /// The run that `checkpoint` was saved from, bit for bit as if it had never stopped.
    ///
    /// `checkpoint` is its own folder, as [`latest_checkpoint`](crate::latest_checkpoint) finds it.
    /// `max_steps`, and what draws nothing (samples, saving), may be other than in the checkpoint.
    ///
    /// # Errors
    /// If a file is damaged, if model or settings ([`TrainError::OtherConfig`]) or data
    /// ([`TrainError::OtherData`]) are not those of the checkpoint, or a tensor is missing, of
    /// another shape, or not finite.
    pub fn resume(
        checkpoint: impl AsRef<Path>,
        config: TrainConfig,
        model: GptConfig,
        train_loader: DataLoader,
        val_loader: Option<DataLoader>,
    ) -> Result<Self, TrainError> {
        config.validate()?;
        let path = checkpoint.as_ref();
        let Checkpoint {
            model,
            optimizer,
            grads,
            state,
        } = checkpoint::read(path, model)?;
        let generator = |text: &str| {
            let damaged =
                || TrainError::damaged(path.join(STATE_FILE), "a random state is damaged");
            rng_from_hex(text).ok_or_else(damaged)
        };
        let rng = generator(&state.rng)?;
        let mut trainer = Self::new(config, model, train_loader, val_loader, rng)?;
        state.refuse_another_run(path, &trainer.config, &trainer.fingerprints)?;
        trainer.epoch_in_progress = match state.epoch_in_progress {
            None => None,
            Some(EpochState { rng, position }) => {
                let drawn_from = generator(&rng)?;
                let mut batches = trainer.train_loader.epoch(&mut drawn_from.clone());
                batches.seek(position)?;
                Some(EpochInProgress {
                    batches,
                    drawn_from,
                })
            }
        };
        trainer.optimizer = optimizer;
        if let Some(grads) = grads {
            trainer.gradients.resume(grads, state.counters.micro_step);
        }
        trainer.counters = state.counters;
        Ok(trainer)
    }

    /// Shares this run with other processes that have begun, or resumed, the same one: each step's
    /// batches, evaluations, and the optimizer's moments.
    ///
    /// All results are bit for bit those of one process. For one rank nothing changes.
    ///
    /// # Errors
    /// On all ranks alike, if there are more of them than batches in a step, or if settings, data,
    /// random state, weights or moments are not the same everywhere.
    pub fn share(mut self, ranks: Arc<dyn Ranks>) -> Result<Self, TrainError> {
        let (size, accumulation) = (ranks.size(), self.config.accumulation);
        if size == 1 {
            return Ok(self);
        }
        agree(&*ranks, &self.fields())?;
        if accumulation < size as u64 {
            let expected = format!("at least {size}, a batch for each of the {size} ranks");
            return Err(TrainError::config(
                "accumulation",
                accumulation as f64,
                expected,
            ));
        }
        self.shares = Shares::new(ranks, &self.model);
        self.optimizer
            .keep_part(|moments| self.shares.part(moments));
        self.gradients.share(&self.shares);
        Ok(self)
    }

    /// Everything that decides the numbers of the run, by names for people.
    fn fields(&self) -> Vec<(String, String)> {
        let mut fields = self.state().fields();
        let weights = self.model.named_parameters();
        let weights = weights.iter().filter_map(|(_, view)| view.as_slice());
        fields.push(("the weights".to_owned(), hash_of_numbers(weights)));
        let AdamW { steps, m, v, .. } = &self.optimizer;
        if *steps > 0 {
            let moments = hash_of_numbers([&m[..], v].into_iter());
            fields.push(("the moments".to_owned(), moments));
        }
        fields
    }

    /// The settings.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The model as it is now.
    pub fn model(&self) -> &GptModel {
        &self.model
    }

    /// The optimizer as it is now; among ranks, without moments to be visited.
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

    /// The last step, which may have been before a resume.
    pub fn last_step(&self) -> Option<&StepReport> {
        self.counters.last_step.as_ref()
    }

    /// The last evaluation, which may have been before a resume.
    pub fn last_evaluation(&self) -> Option<&Evaluation> {
        self.counters.last_evaluation.as_ref()
    }

    /// The learning rate of the step in progress, or the next one.
    pub fn learning_rate(&self) -> f64 {
        let peak_lr = self.config.optimizer.lr;
        self.config
            .schedule
            .learning_rate(self.counters.steps_done, peak_lr)
    }

    /// Trains until `max_steps` are done or the closure breaks; saves to `folder` as the settings
    /// say, and at the end.
    ///
    /// With ranks, rank 0 has the folder and is told of samples; all stop after the step in which
    /// the closure of one breaks.
    ///
    /// # Errors
    /// If a loss is not finite, of a step or of the model that is to be saved (the checkpoints from
    /// before stay), a batch doesn't suit the model, a checkpoint can't be written, or the folder
    /// is no longer this run's.
    pub fn run(
        &mut self,
        folder: Option<&RunFolder>,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Outcome, TrainError> {
        let listener = &mut Listener {
            on_event,
            has_stopped: false,
        };
        let saves = self.shares.any(folder.is_some());
        // That of the last step, if it was interrupted before a resume.
        self.evaluate_if_due(listener)?;
        let mut stop = self.shares.any(listener.has_stopped);

        while !stop && self.counters.steps_done < self.config.max_steps {
            let progress = self.train_batch()?;
            listener.hear(Event::Batch(&progress.batch));
            if let Some(step) = &progress.step {
                listener.hear(Event::Step(step));
            }
            self.evaluate_if_due(listener)?;
            if self.is_sample_due(&progress) {
                listener.hear(Event::SampleDue {
                    steps_done: self.counters.steps_done,
                    model: &self.model,
                });
            }
            if progress.epoch_end {
                let epoch = progress.batch.epoch;
                listener.hear(Event::EpochEnd { epoch });
            }

            // Ranks stop between steps: the sum of a step's gradients is spread over them.
            let may_stop = self.shares.is_alone() || progress.step.is_some();
            stop = may_stop && self.shares.any(listener.has_stopped);
            let due = self.save_due(&progress, folder, stop);
            if saves && let Some(val_loss) = self.loss_of_save(due)? {
                if let Some(path) = self.save_with(folder, val_loss)? {
                    listener.hear(Event::Saved {
                        steps_done: self.counters.steps_done,
                        path: &path,
                    });
                }
                stop = may_stop && self.shares.any(listener.has_stopped);
            }
        }
        let finished = self.counters.steps_done >= self.config.max_steps;
        match finished && !self.is_evaluation_due() {
            true => Ok(Outcome::Finished),
            false => Ok(Outcome::Stopped),
        }
    }

    /// The save that is due after a batch, with its evaluations and samples.
    fn save_due(&self, progress: &Progress, folder: Option<&RunFolder>, stop: bool) -> SaveDue {
        let done = self.counters.steps_done;
        let every = self.config.save_every;
        let is_its_turn = progress.step.is_some() && every.is_some_and(|n| done.is_multiple_of(n));
        if is_its_turn || self.is_best_of(folder) {
            SaveDue::Evaluated
        } else if stop {
            SaveDue::Soon
        } else if done >= self.config.max_steps {
            SaveDue::Evaluated
        } else {
            SaveDue::None
        }
    }

    /// The validation loss to be saved with the model as it is, which must have a finite loss;
    /// `None` if no save is due.
    fn loss_of_save(&self, due: SaveDue) -> Result<Option<Option<f64>>, TrainError> {
        Ok(match (due, self.evaluation_now()) {
            (SaveDue::None, _) => None,
            (_, Some(now)) => Some(now.val_loss),
            (SaveDue::Evaluated, None) => Some(self.check_loss(self.config.eval_batches)?),
            (SaveDue::Soon, None) => {
                self.check_loss(1)?;
                Some(None)
            }
        })
    }

    /// One batch forward and backward, and the optimizer's step if it was the last of a step.
    ///
    /// # Errors
    /// If the batch can't be read: it is read again by the next call.
    /// If it doesn't suit the model, or loss or gradient are not finite: the weights are then those
    /// from before the step, which the next batch begins anew.
    pub fn train_batch(&mut self) -> Result<Progress, TrainError> {
        let (batch, left) = self.next_batch()?;
        let micro_step = self.counters.micro_step;
        let of = match self.config.whole_epochs {
            true => self.config.accumulation.min(micro_step + 1 + left),
            false => self.config.accumulation,
        };
        let micro_step = MicroStep {
            number: micro_step,
            of,
        };
        let done = self.accumulate(&batch, micro_step);
        if left == 0 {
            self.epoch_in_progress = None;
            self.counters.epoch += 1;
        }
        if done.is_err() {
            self.gradients.give_up();
            self.counters.micro_step = 0;
            self.counters.loss_sum = 0.0;
        }
        let (batch, step) = done?;
        Ok(Progress {
            batch,
            step,
            epoch_end: left == 0,
        })
    }

    /// The next batch, of a new epoch if need be, and how many are left of the epoch.
    fn next_batch(&mut self) -> Result<(Batch, u64), TrainError> {
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
        Ok((batch, epoch.batches.len() as u64))
    }

    /// Adds a batch's gradients to those of its step, and takes the step behind its last batch.
    fn accumulate(
        &mut self,
        batch: &Batch,
        micro_step: MicroStep,
    ) -> Result<(BatchReport, Option<StepReport>), TrainError> {
        let (model, shares, rng) = (&self.model, &self.shares, &mut self.rng);
        let gradients = &mut self.gradients;
        let loss = gradients.add_batch(model, batch, micro_step, shares, rng)?;
        let tokens = batch.input_ids.len() as u64;
        let report = BatchReport {
            step: self.counters.steps_done,
            micro_step: micro_step.number,
            epoch: self.counters.epoch,
            loss,
            tokens,
        };
        self.counters.tokens_seen += tokens;
        self.counters.micro_step += 1;
        for (rank, loss) in self.gradients.end_batch(micro_step, &self.shares) {
            if !loss.is_finite() {
                let what = format!("loss of step {}", report.step + 1);
                let error = TrainError::NotFinite {
                    what,
                    value: loss.into(),
                    learning_rate: Some(self.learning_rate()),
                };
                return Err(self.shares.on_rank(rank, error));
            }
            self.counters.loss_sum += f64::from(loss);
        }
        let step = match self.counters.micro_step == micro_step.of {
            true => Some(self.update(micro_step.of)?),
            false => None,
        };
        Ok((report, step))
    }

    /// Clips and takes the optimizer's step, after so many batches.
    fn update(&mut self, batches: u64) -> Result<StepReport, TrainError> {
        let (learning_rate, step) = (self.learning_rate(), self.counters.steps_done);
        let sum = self.gradients.own_sum(&self.shares);
        let norm = self.shares.norm(&sum);
        if !norm.is_finite() {
            return Err(TrainError::NotFinite {
                what: format!("gradient's norm of step {}", step + 1),
                value: norm,
                learning_rate: Some(learning_rate),
            });
        }
        let max_norm = self.config.max_grad_norm;
        let scale = max_norm.map_or(1.0, |max_norm| clip_scale(norm, max_norm));
        self.optimizer.config.lr = learning_rate;
        self.optimizer
            .update(self.shares.own(&mut self.model), sum, scale);
        self.shares.spread(&mut self.model);
        let report = StepReport {
            step,
            epoch: self.counters.epoch,
            loss: (self.counters.loss_sum / batches as f64) as f32,
            learning_rate,
            grad_norm: norm,
            tokens_seen: self.counters.tokens_seen,
        };
        self.counters.last_step = Some(report);
        self.counters.steps_done += 1;
        self.counters.micro_step = 0;
        self.counters.loss_sum = 0.0;
        Ok(report)
    }

    /// True if an evaluation belongs to the last step, and there is none.
    fn is_evaluation_due(&self) -> bool {
        let Counters {
            steps_done,
            micro_step,
            ..
        } = self.counters;
        let since_first = steps_done.checked_sub(self.config.eval_first);
        let is_its_turn = since_first
            .zip(self.config.eval_every)
            .is_some_and(|(steps, every)| steps.is_multiple_of(every));
        micro_step == 0 && is_its_turn && self.evaluation_now().is_none()
    }

    /// The evaluation of the model as it is, if there was one.
    fn evaluation_now(&self) -> Option<&Evaluation> {
        let last = self.last_evaluation();
        let is_now = |last: &&Evaluation| last.steps_done == self.counters.steps_done;
        last.filter(|last| is_now(last) && self.counters.micro_step == 0)
    }

    /// True if an evaluation has just found the lowest validation loss so far, so that its model is
    /// worth a checkpoint.
    fn is_best_of(&self, folder: Option<&RunFolder>) -> bool {
        let val_loss = self.evaluation_now().and_then(|now| now.val_loss);
        val_loss.is_some_and(|loss| {
            let is_lowest = |best: Option<(PathBuf, f64)>| best.is_none_or(|best| loss < best.1);
            let best = folder.and_then(|folder| folder.best().ok());
            self.shares.any(best.is_some_and(is_lowest))
        })
    }

    /// The evaluation of the last step, if it is due and hasn't been; it waits for a resume if the
    /// closure breaks meanwhile.
    fn evaluate_if_due(&mut self, listener: &mut Listener<'_>) -> Result<(), TrainError> {
        if !self.is_evaluation_due() {
            return Ok(());
        }
        let mut rng = self.rng.clone();
        let mut stop = || listener.hear(Event::Waiting);
        if let Some(evaluation) = self.losses(&self.shares, &mut rng, &mut stop)? {
            self.rng = rng;
            self.counters.last_evaluation = Some(evaluation);
            listener.hear(Event::Evaluation(&evaluation));
        }
        Ok(())
    }

    /// True if a sample is due on this rank: after every so many steps, or after each epoch.
    fn is_sample_due(&self, progress: &Progress) -> bool {
        let Some(sample) = self
            .config
            .sample
            .as_ref()
            .filter(|_| self.shares.is_first())
        else {
            return false;
        };
        match (sample.every, progress.step) {
            (Some(every), Some(step)) => (step.step + 1).is_multiple_of(every),
            (Some(_), None) => false,
            (None, _) => progress.epoch_end,
        }
    }

    /// An evaluation beside those of the run: it leaves the run as it is, and isn't remembered.
    ///
    /// `None` if `stop` says so, which is asked before each batch.
    /// Among ranks each may ask for one when it likes: it computes all batches itself.
    ///
    /// # Errors
    /// If a loss is not finite.
    pub fn evaluate(
        &self,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Evaluation>, TrainError> {
        let alone = Shares::new(Arc::new(OneProcess), &self.model);
        self.losses(&alone, &mut TorchRng::manual_seed(0), stop)
    }

    /// Saves the run as it is, between two steps or among the batches of one; returns the
    /// checkpoint's folder.
    ///
    /// The model is evaluated first, without drawing: a model without a finite loss is not saved.
    /// With ranks, all of them save at once, and rank 0 has the folder.
    ///
    /// # Errors
    /// If the loss is not finite, the files can't be written, or the folder is no longer this
    /// run's: the checkpoints from before are then as they were.
    ///
    /// # Panics
    /// With ranks, among the batches of a step, or if another rank has the folder.
    pub fn save(&self, folder: Option<&RunFolder>) -> Result<Option<PathBuf>, TrainError> {
        let val_loss = self.loss_of_save(SaveDue::Evaluated)?;
        self.save_with(folder, val_loss.flatten())
    }

    /// Does [`save`](Self::save) for a model whose loss is finite; its validation loss decides
    /// whether it is the best.
    fn save_with(
        &self,
        folder: Option<&RunFolder>,
        val_loss: Option<f64>,
    ) -> Result<Option<PathBuf>, TrainError> {
        let (model, AdamW { m, v, .. }) = (&self.model, &self.optimizer);
        let begun = self.counters.micro_step > 0;
        assert!(self.shares.is_alone() || !begun, "ranks save between steps");
        let mut moments = self.shares.tensors("m.", model, m);
        moments.extend(self.shares.tensors("v.", model, v));
        let Some(folder) = folder else {
            if !self.shares.is_first() {
                self.shares.exchange(moments);
            }
            return Ok(None);
        };
        assert!(self.shares.is_first(), "rank 0 saves");
        let (state, grads) = (self.state(), begun.then(|| self.gradients.whole_sum()));
        let save = Save {
            number: 0, // which the folder knows
            step: self.counters.steps_done,
            batch: self.counters.micro_step,
            val_loss,
        };
        let saved = folder.add(save, self.config.keep, |folder, save| {
            checkpoint::write(folder, save, model, moments, grads, &state)
        });
        saved.map(Some)
    }

    fn state(&self) -> TrainState {
        let begun = self.epoch_in_progress.as_ref();
        let (train_data, val_data) = self.fingerprints.clone();
        TrainState {
            config: self.config.clone(),
            counters: self.counters,
            optimizer_steps: self.optimizer.steps,
            epoch_in_progress: begun.map(|epoch| EpochState {
                rng: rng_to_hex(&epoch.drawn_from),
                position: epoch.batches.position(),
            }),
            rng: rng_to_hex(&self.rng),
            train_data,
            val_data,
        }
    }
}

/// The save that is due after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SaveDue {
    None,
    /// One whose validation loss is known, so that it may be the best.
    Evaluated,
    /// One without an evaluation, as somebody waits for the end. A batch shows that
    /// there is a loss.
    Soon,
}

/// The closure that hears of a run, and whether it has asked to stop.
struct Listener<'a> {
    on_event: &'a mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    has_stopped: bool,
}

impl Listener<'_> {
    /// Reports an event; returns whether the closure asks to stop.
    fn hear(&mut self, event: Event<'_>) -> bool {
        let stops = (self.on_event)(event).is_break();
        self.has_stopped |= stops;
        stops
    }
}
