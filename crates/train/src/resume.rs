//! A run into a checkpoint and out of it again, bit for bit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dataloader::DataLoader;
use gpt::GptConfig;

use crate::checkpoint::{self, Checkpoint, STATE_FILE};
use crate::latest::step_name;
use crate::state::{self, Counters, EpochState, Fingerprint, TrainState, rng_from_hex, rng_to_hex};
use crate::trainer::{EpochInProgress, Optimizer};
use crate::{RunFolder, TrainConfig, TrainError, Trainer};

impl Trainer {
    /// The run that `checkpoint` (its own folder, as [`latest_checkpoint`](crate::latest_checkpoint) finds it) was saved from, bit for bit as if it had never stopped.
    ///
    /// `max_steps`, and what draws nothing (samples, saving), may be other than in the checkpoint.
    ///
    /// # Errors
    /// If a file is damaged, if model, data or settings are not those of the checkpoint, or a tensor is missing, of another shape, or not finite.
    pub fn resume(
        checkpoint: impl AsRef<Path>,
        config: TrainConfig,
        model: &GptConfig,
        train_loader: DataLoader,
        val_loader: Option<DataLoader>,
    ) -> Result<Self, TrainError> {
        config.validate()?;
        let path = checkpoint.as_ref();
        let saved = checkpoint::read(path, model)?;
        let other = |name, saved: String, asked: String| TrainError::OtherConfig {
            path: path.to_owned(),
            name,
            saved,
            asked,
        };
        if let Some((name, saved, asked)) = saved.state.config.first_difference(&config) {
            return Err(other(name, saved, asked));
        }
        let data = fingerprints(&train_loader, val_loader.as_ref())?;
        if data.0 != saved.state.train_data {
            let saved = format!("{:?}", saved.state.train_data);
            return Err(other("the training data", saved, format!("{:?}", data.0)));
        }
        if data.1 != saved.state.val_data {
            let saved = format!("{:?}", saved.state.val_data);
            return Err(other("the validation data", saved, format!("{:?}", data.1)));
        }
        let Checkpoint {
            model,
            optimizer,
            grads,
            state,
        } = saved;
        let generator = |text: &str| {
            rng_from_hex(text).ok_or_else(|| TrainError::State {
                path: path.join(STATE_FILE),
                what: "a random state is damaged",
            })
        };
        let loaders = (train_loader, val_loader);
        let rng = generator(&state.rng)?;
        let mut trainer = Self::with_optimizer(config, model, optimizer, loaders, rng)?;
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
        trainer.grads = grads;
        trainer.counters = state.counters;
        trainer.fingerprints = OnceLock::from(data);
        Ok(trainer)
    }

    /// Saves the run as it is, between two steps or among the batches of one; returns the checkpoint's folder.
    ///
    /// The model is evaluated first, without drawing: what has no finite loss is no checkpoint, and the best stays.
    /// With ranks, all of them save at once, and rank 0 has the folder.
    ///
    /// # Errors
    /// If the loss is not finite, or the files can't be written: the checkpoints from before are then as they were.
    ///
    /// # Panics
    /// With ranks, among the batches of a step, or if another rank has the folder.
    pub fn save(&self, folder: Option<&RunFolder>) -> Result<Option<PathBuf>, TrainError> {
        let val_loss = self.check_loss(self.config.eval_batches)?;
        self.save_with(folder, val_loss)
    }

    /// As [`save`](Self::save), of a model whose loss is finite; its validation loss decides whether it is the best.
    pub(crate) fn save_with(
        &self,
        folder: Option<&RunFolder>,
        val_loss: Option<f64>,
    ) -> Result<Option<PathBuf>, TrainError> {
        let Counters {
            steps_done,
            micro_step,
            ..
        } = self.counters;
        let name = step_name(steps_done, micro_step);
        let begun = micro_step > 0;
        let moments = match &self.optimizer {
            Optimizer::Alone(optimizer) => optimizer.tensors(),
            Optimizer::Shared(share) => {
                assert!(!begun, "ranks save between steps");
                assert!(folder.is_some() == self.is_first_rank(), "rank 0 saves");
                if folder.is_none() {
                    share.send_moments(&self.model);
                }
                share.tensors(&self.model)
            }
        };
        let Some(folder) = folder else {
            return Ok(None);
        };
        let (state, grads) = (self.state()?, begun.then_some(&self.grads));
        let saved = folder.add(&name, self.config.keep, val_loss, |folder| {
            checkpoint::write(folder, &self.model, moments, grads, &state)
        });
        saved.map(Some)
    }

    pub(crate) fn state(&self) -> Result<TrainState, TrainError> {
        let known = match self.fingerprints.get() {
            Some(known) => known,
            None => {
                let known = fingerprints(&self.train_loader, self.val_loader.as_ref())?;
                self.fingerprints.get_or_init(|| known)
            }
        };
        let (train_data, val_data) = known.clone();
        Ok(TrainState {
            version: state::VERSION,
            config: self.config.clone(),
            counters: self.counters.clone(),
            optimizer_steps: match &self.optimizer {
                Optimizer::Alone(optimizer) => optimizer.steps,
                Optimizer::Shared(share) => share.steps,
            },
            epoch_in_progress: self.epoch_in_progress.as_ref().map(|epoch| EpochState {
                rng: rng_to_hex(&epoch.drawn_from),
                position: epoch.batches.position(),
            }),
            rng: rng_to_hex(&self.rng),
            train_data,
            val_data,
            unknown: BTreeMap::new(),
        })
    }
}

/// By what the loaders are known again.
fn fingerprints(
    train_loader: &DataLoader,
    val_loader: Option<&DataLoader>,
) -> Result<(Fingerprint, Option<Fingerprint>), TrainError> {
    let val_data = val_loader.map(Fingerprint::of).transpose()?;
    Ok((Fingerprint::of(train_loader)?, val_data))
}
