//! The training loop (section 5.2 of the book). It computes gradients and updates the weights. At
//! regular intervals, it also evaluates the model, asks the caller to generate a sample of text,
//! and saves a checkpoint.
//!
//! A [`Trainer`] doesn't print anything. Instead, it passes an [`Event`] to a closure, for example
//! after each step and after each evaluation. The closure can stop the run after any step, and the
//! run then saves a checkpoint. Several processes can share a run (see [`Ranks`]).

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bytemuck::cast_slice;
use dataloader::{Batch, Batches, DataLoader};
use gpt::{GptConfig, GptModel};
use sha2::{Digest, Sha256};
use tensor_ops::Parameters;
use tensor_ops::engine::row_major;
use torch_rng::TorchRng;

use crate::checkpoint;
use crate::clip::clip_scale;
use crate::diff::fields;
use crate::gradients::StepGradients;
use crate::hex::hex;
use crate::moments::{exchange_moments, moments};
use crate::ranks::{OneProcess, agree, any, of_all_batches};
use crate::shards::{gather_weights, norm_of_parts, own_parts, slices};
use crate::state::{Settings, TrainState};
use crate::{
    AdamW, Evaluation, Event, LoopState, Outcome, Ranks, RunFolder, StepReport, TrainConfig,
    TrainError,
};

/// A training run, which consists of a model, an optimizer, the training and validation data, and a
/// random number generator.
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
    settings: Settings,
    pub(crate) state: LoopState<GptModel, Batches>,
    last_step: Option<StepReport>,
    last_evaluation: Option<Evaluation>,
    gradients: StepGradients,
    pub(crate) ranks: Arc<dyn Ranks>,
    pub(crate) val_loader: Option<DataLoader>,
}

/// The work that is due after an optimizer step.
#[derive(Clone, Copy, Debug)]
struct Due {
    evaluation: bool,
    sample: bool,
    save: bool,
}

impl Trainer {
    /// Creates a run that starts with the weights of `model`. The optimizer's moments are
    /// initialized to 0.
    ///
    /// All random numbers of the run are drawn from `rng`. They determine the order of the data and
    /// the dropout masks. Each checkpoint contains the state of the random number generator.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is outside its range, if the windows of a data loader are
    /// longer than the context length of the model, or if the data can't be read.
    pub fn new(
        config: TrainConfig,
        mut model: GptModel,
        train_loader: DataLoader,
        val_loader: Option<DataLoader>,
        rng: TorchRng,
    ) -> Result<Self, TrainError> {
        let settings = Settings::new(config, model.config(), &train_loader, val_loader.as_ref())?;
        model.set_dtype(config.dtype)?;
        Ok(Self {
            settings,
            gradients: StepGradients::new(&model)?,
            state: LoopState {
                step: 0,
                rng,
                batches: Batches::new(train_loader),
                optimizers: vec![AdamW::new(config.optimizer, &model)?],
                model,
            },
            last_step: None,
            last_evaluation: None,
            ranks: Arc::new(OneProcess),
            val_loader,
        })
    }

    /// Creates a run that continues from a checkpoint. The resumed run computes bit for bit the
    /// same weights and losses as if the original run hadn't been interrupted.
    ///
    /// `checkpoint` is the path to the folder of a single checkpoint, such as the path that
    /// [`latest_checkpoint`](crate::latest_checkpoint) returns. The settings, the configuration of
    /// the model and the data must be the same as in the original run. Only the settings
    /// `max_steps`, `sample_every`, `save_every` and `keep` may differ.
    ///
    /// # Errors
    ///
    /// Returns [`TrainError::OtherRun`] if the settings, the configuration of the model or the data
    /// aren't the same as when the checkpoint was saved. Also returns an error if a file of the
    /// checkpoint is damaged, or if a tensor is missing, has the wrong shape, or contains a value
    /// that isn't finite.
    pub fn resume(
        checkpoint: impl AsRef<Path>,
        config: TrainConfig,
        model: GptConfig,
        train_loader: DataLoader,
        val_loader: Option<DataLoader>,
    ) -> Result<Self, TrainError> {
        let settings = Settings::new(config, model, &train_loader, val_loader.as_ref())?;
        let (mut model, optimizer, saved) = checkpoint::read(checkpoint.as_ref(), &settings)?;
        model.set_dtype(config.dtype)?;
        let step = saved.steps_done();
        Ok(Self {
            settings,
            gradients: StepGradients::new(&model)?,
            state: LoopState {
                step,
                rng: saved.rng,
                batches: Batches::resume(train_loader, saved.epoch.map(Into::into))?,
                optimizers: vec![optimizer],
                model,
            },
            last_step: saved.last_step,
            last_evaluation: saved.last_evaluation,
            ranks: Arc::new(OneProcess),
            val_loader,
        })
    }

    /// Shares this run with other processes (ranks). Each process must have created or resumed the
    /// run in the same way.
    ///
    /// The processes divide the batches of each step and each evaluation among themselves. Each
    /// process stores only a part of the gradients and of the optimizer's moments, which reduces
    /// the memory that each of them needs. The results are bit for bit the same as with one
    /// process.
    ///
    /// # Errors
    ///
    /// Returns an error if an optimizer step has fewer batches than there are processes, or if the
    /// settings, the data, the weights, the moments or the states of the random number generators
    /// aren't the same in all processes. All processes return the same error.
    ///
    /// # Panics
    ///
    /// Panics if the run is already shared.
    pub fn share(mut self, ranks: Arc<dyn Ranks>) -> Result<Self, TrainError> {
        assert!(self.ranks.size() == 1, "the run is already shared");
        let mut fields = fields(&self.saved_state());
        // Compare the training and validation data before everything else. If the data differs
        // between the ranks, the weights and the random number generators usually differ as well,
        // but an error about the data is more helpful.
        for part in ["training", "validation"] {
            let (from, to) = (
                format!("settings.{part}_data."),
                format!("the {part} data's "),
            );
            for (name, _) in &mut fields {
                *name = name.replace(&from, &to);
            }
        }
        fields.sort_by_key(|(name, _)| !name.starts_with("the "));
        for (name, parameters) in [
            ("the weights", self.state.model.named_parameters()),
            ("the moments", self.optimizer().named_parameters()),
        ] {
            let mut hasher = Sha256::new();
            for (name, view) in parameters {
                let numbers = row_major(&name, view);
                hasher.update(cast_slice::<f32, u8>(numbers));
            }
            fields.push((name.to_owned(), hex(&hasher.finalize())));
        }
        agree(&*ranks, &fields)?;
        let (size, accumulation) = (ranks.size(), self.config().accumulation);
        if accumulation < size as u64 {
            let expected = format!("at least {size} (one batch for each rank)");
            let value = accumulation as f64;
            return Err(TrainError::config("accumulation", value, expected));
        }
        if size > 1 {
            self.gradients.share(&*ranks);
            self.optimizer_mut().keep_own_parts(&*ranks);
        }
        self.ranks = ranks;
        Ok(self)
    }

    pub(crate) fn config(&self) -> &TrainConfig {
        &self.settings.config
    }

    /// Returns the current model.
    pub fn model(&self) -> &GptModel {
        &self.state.model
    }

    /// Returns the current optimizer. If several processes share the run, the optimizer contains
    /// only the moments of the weights that this process updates, and it doesn't contain the names
    /// of these weights.
    pub fn optimizer(&self) -> &AdamW {
        &self.state.optimizers[0]
    }

    fn optimizer_mut(&mut self) -> &mut AdamW {
        &mut self.state.optimizers[0]
    }

    /// Returns the current random number generator.
    pub fn rng(&self) -> &TorchRng {
        &self.state.rng
    }

    /// Returns the number of optimizer steps taken so far.
    pub fn steps_done(&self) -> u64 {
        self.state.step
    }

    /// Returns what the next optimizer step will begin with: its first batch, and a copy of the
    /// random number generator in the state that it will have when the dropout masks of this batch
    /// are drawn. A program can use both to show what a step computes before it takes the step. The
    /// state of the run doesn't change.
    ///
    /// # Errors
    ///
    /// Returns an error if the batch can't be read.
    pub fn next_step(&self) -> Result<(Batch, TorchRng), TrainError> {
        let mut rng = self.state.rng.clone();
        let batch = self.state.batches.clone().next_batch(&mut rng)?;
        Ok((batch, rng))
    }

    /// Returns the report of the last optimizer step, or `None` if no step has been taken. If the
    /// run was resumed, this step may have been taken before the interruption.
    pub fn last_step(&self) -> Option<&StepReport> {
        self.last_step.as_ref()
    }

    /// Returns the result of the last evaluation, or `None` if the model hasn't been evaluated. If
    /// the run was resumed, this evaluation may have taken place before the interruption.
    pub fn last_evaluation(&self) -> Option<&Evaluation> {
        self.last_evaluation.as_ref()
    }

    /// Trains the model until `max_steps` optimizer steps have been taken or `on_event` returns
    /// `Break(())`. If a `folder` is passed, checkpoints are saved in it according to the settings
    /// of the run, and a final checkpoint is saved at the end of the training.
    ///
    /// If several processes share the run, only one of them may pass a folder. If the closure of
    /// any process returns `Break(())`, all processes stop after the same step.
    ///
    /// # Errors
    ///
    /// Returns an error if a loss or the norm of a gradient isn't finite, if a batch can't be read
    /// or isn't valid for the model, if a checkpoint can't be written, or if this process no longer
    /// owns the folder. After an error, the run has the weights and the moments of the last
    /// completed step, and existing checkpoints remain unchanged.
    pub fn run(
        &mut self,
        folder: Option<&RunFolder>,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Outcome, TrainError> {
        let (ranks, max_steps) = (Arc::clone(&self.ranks), self.config().max_steps);
        let stop = Cell::new(false);
        let notify: &mut dyn FnMut(Event<'_>) -> bool = &mut |event| {
            let breaks = on_event(event).is_break();
            stop.set(breaks || stop.get());
            breaks
        };
        let saves = any(&*ranks, folder.is_some());
        if self.due().evaluation {
            // The run was stopped during an evaluation and is now being continued. The closure
            // canceled the evaluation, which was due after the last step, so repeat it now.
            self.evaluate_as_due(notify)?;
        }
        while !any(&*ranks, stop.get()) && self.steps_done() < max_steps {
            let step = self.step().inspect_err(|_| self.gradients.clear())?;
            let due = self.due();
            notify(Event::Step(&step));
            if due.evaluation {
                self.evaluate_as_due(notify)?;
            }
            if due.sample {
                let (steps_done, model) = (self.steps_done(), self.model());
                notify(Event::SampleDue { steps_done, model });
            }
            let validated = due.save || self.is_best_of(folder);
            if saves && (validated || any(&*ranks, stop.get())) {
                self.save(folder, validated, notify)?;
            }
        }
        match self.steps_done() >= max_steps && !self.due().evaluation {
            true => Ok(Outcome::Finished),
            false => Ok(Outcome::Stopped),
        }
    }

    fn due(&self) -> Due {
        let (steps, config) = (self.steps_done(), self.config());
        let is_turn = |every: Option<u64>| steps > 0 && every.is_some_and(|n| steps % n == 0);
        Due {
            evaluation: is_turn(config.eval_every) && self.evaluation_now().is_none(),
            sample: is_turn(config.sample_every),
            save: is_turn(config.save_every) || steps >= config.max_steps,
        }
    }

    /// Takes one optimizer step: performs the forward and backward passes of several batches, clips
    /// the gradient, and updates the weights with AdamW.
    ///
    /// If an error occurs, the weights aren't changed.
    fn step(&mut self) -> Result<StepReport, TrainError> {
        let (ranks, config) = (Arc::clone(&self.ranks), *self.config());
        let (step, learning_rate) = (self.steps_done(), self.learning_rate());
        let num_batches = match config.whole_epochs {
            true => (self.state.batches.left_in_epoch() as u64).min(config.accumulation),
            false => config.accumulation,
        };
        let (mut losses, mut tokens) = (Vec::new(), 0);
        for i in 0..num_batches {
            let LoopState {
                rng,
                batches,
                model,
                ..
            } = &mut self.state;
            let batch = batches.next_batch(rng)?;
            tokens += batch.input_ids.len() as u64;
            let rank = (i % ranks.size() as u64) as usize;
            let in_sum = i == 0 && ranks.size() == 1;
            losses.push(match rank == ranks.rank() {
                true => {
                    let weight = 1.0 / num_batches as f32;
                    let gradients = &mut self.gradients;
                    f64::from(gradients.compute(model, &batch, weight, in_sum, rng)?)
                }
                false => {
                    model.skip_draws(&batch.input_ids, rng);
                    0.0
                }
            });
            let ends_round = rank + 1 == ranks.size() || i + 1 == num_batches;
            if ends_round && !in_sum {
                self.gradients.add_round(model, &*ranks, rank + 1);
            }
        }

        let losses = of_all_batches(&*ranks, &losses);
        if let Some(i) = losses.iter().position(|loss| !loss.is_finite()) {
            let error = self.not_finite(format!("loss of step {}", step + 1), losses[i]);
            return Err(match ranks.size() {
                1 => error,
                size => TrainError::OnRank {
                    rank: i % size,
                    source: Box::new(error),
                },
            });
        }
        let grad_norm = norm_of_parts(
            &*ranks,
            &self.gradients.own_sums(&*ranks),
            &self.state.model,
        );
        if !grad_norm.is_finite() {
            let what = format!("gradient norm of step {}", step + 1);
            return Err(self.not_finite(what, grad_norm));
        }
        let max_norm = config.max_grad_norm;
        let scale = max_norm.map_or(1.0, |max_norm| clip_scale(grad_norm, max_norm));
        let LoopState {
            batches,
            model,
            optimizers,
            ..
        } = &mut self.state;
        let optimizer = &mut optimizers[0];
        optimizer.config.lr = learning_rate;
        let weights = own_parts(&*ranks, slices(model));
        let sums = self.gradients.own_sums(&*ranks);
        optimizer.update(weights, sums, scale);
        gather_weights(&*ranks, model);

        let report = StepReport {
            step,
            epoch: batches.epoch_number(),
            loss: (losses.iter().sum::<f64>() / num_batches as f64) as f32,
            learning_rate,
            grad_norm,
            tokens_seen: self.tokens_seen().saturating_add(tokens),
        };
        self.last_step = Some(report);
        self.state.step += 1;
        Ok(report)
    }

    /// Returns the learning rate of the next step.
    fn learning_rate(&self) -> f64 {
        let (step, peak_lr) = (self.steps_done(), self.config().optimizer.lr);
        let schedule = self.config().schedule;
        schedule.map_or(peak_lr, |schedule| schedule.learning_rate(step, peak_lr))
    }

    /// Returns the result of the evaluation after the last step, or `None` if the model hasn't been
    /// evaluated since that step.
    fn evaluation_now(&self) -> Option<&Evaluation> {
        self.last_evaluation()
            .filter(|last| last.steps_done == self.steps_done())
    }

    /// Returns the contents of state.json.
    fn saved_state(&self) -> TrainState {
        TrainState {
            settings: self.settings.clone(),
            rng: self.state.rng.clone(),
            epoch: self.state.batches.position().map(Into::into),
            last_step: self.last_step,
            last_evaluation: self.last_evaluation,
        }
    }

    /// Evaluates the model after a step and stores the result. If the closure returns `Break(())`
    /// during the evaluation, nothing is stored, and the evaluation is repeated when the run is
    /// continued or resumed.
    fn evaluate_as_due(
        &mut self,
        notify: &mut dyn FnMut(Event<'_>) -> bool,
    ) -> Result<(), TrainError> {
        let mut rng = self.state.rng.clone();
        let stop = &mut || notify(Event::EvaluationBatch);
        if let Some(evaluation) = self.losses(&*self.ranks, &mut rng, stop)? {
            self.state.rng = rng;
            self.last_evaluation = Some(evaluation);
            notify(Event::Evaluation(&evaluation));
        }
        Ok(())
    }

    /// Returns whether the model has been evaluated after the last step and its validation loss is
    /// lower than the validation losses of all checkpoints in the folder. All ranks return the same
    /// value.
    fn is_best_of(&self, folder: Option<&RunFolder>) -> bool {
        let val_loss = self.evaluation_now().and_then(|now| now.val_loss);
        val_loss.is_some_and(|loss| {
            let is_best = folder.is_some_and(|folder| match folder.best() {
                Ok(best) => best.is_none_or(|(_, lowest)| loss < lowest),
                // If the folder can't be read, return true, so that the run tries to save a
                // checkpoint. That attempt then reports the error.
                Err(_) => true,
            });
            any(&*self.ranks, is_best)
        })
    }

    /// Saves a checkpoint, unless the current loss of the model isn't finite.
    ///
    /// If the model has already been evaluated after the last step, the validation loss of that
    /// evaluation is stored in the checkpoint. Otherwise, if `validated` is true, the validation
    /// loss is computed first. If `validated` is false, the user is waiting for the run to stop. In
    /// that case, only the loss of a single batch is checked, and no validation loss is stored.
    fn save(
        &self,
        folder: Option<&RunFolder>,
        validated: bool,
        notify: &mut dyn FnMut(Event<'_>) -> bool,
    ) -> Result<(), TrainError> {
        let TrainConfig {
            eval_batches, keep, ..
        } = *self.config();
        let val_loss = match (self.evaluation_now(), validated) {
            (Some(now), _) => now.val_loss,
            (None, true) => self.check_loss(eval_batches)?,
            (None, false) => self.check_loss(1)?.and(None),
        };
        let moments = moments(&*self.ranks, self.model(), self.optimizer());
        let Some(folder) = folder else {
            exchange_moments(moments); // another rank writes the checkpoint
            return Ok(());
        };
        let steps_done = self.steps_done();
        let (path, not_deleted) = folder.add(steps_done, val_loss, keep, |path| {
            checkpoint::write(
                path,
                self.model(),
                &folder.tokens,
                moments,
                &self.saved_state(),
            )
        })?;
        notify(Event::Saved {
            steps_done,
            path: &path,
            not_deleted: &not_deleted,
        });
        Ok(())
    }

    pub(crate) fn tokens_seen(&self) -> u64 {
        self.last_step().map_or(0, |last| last.tokens_seen)
    }

    pub(crate) fn not_finite(&self, what: String, value: f64) -> TrainError {
        let last = self.last_step().map(|last| last.learning_rate);
        let learning_rate = last.unwrap_or(self.learning_rate());
        TrainError::NotFinite {
            what,
            value,
            learning_rate,
        }
    }
}
