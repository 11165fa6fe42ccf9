//! The run: batch after batch until the last step, with evaluations, samples and checkpoints when they are due.
//!
//! It prints nothing: everything that happens is an [`Event`] for the caller's closure.

use std::ops::ControlFlow;

use crate::trainer::{Optimizer, Progress};
use crate::{Event, Outcome, RunFolder, TrainError, Trainer};

impl Trainer {
    /// Trains until `max_steps` are done or the closure breaks; saves to `folder` as the settings say, and at the end.
    ///
    /// With ranks, rank 0 has the folder and makes the samples; all stop after the step in which the closure of one breaks.
    ///
    /// # Errors
    /// If a loss is not finite, of a step or of the model that is to be saved (the checkpoints from before stay), a batch doesn't suit the model, or a checkpoint can't be written.
    pub fn run(
        &mut self,
        folder: Option<&RunFolder>,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Outcome, TrainError> {
        let saves = self.any_rank(folder.is_some());
        let alone = matches!(self.optimizer, Optimizer::Alone(_));
        let mut stop = self.evaluate_if_due(on_event)?.is_break();
        if alone && stop {
            return Ok(Outcome::Stopped);
        }
        while self.counters.steps_done < self.config.max_steps {
            let progress = self.train_batch()?;
            stop |= self.emit_events(&progress, on_event)?.is_break();
            let mut leave = (alone || progress.step.is_some()) && self.any_rank(stop);
            let finished = self.counters.steps_done >= self.config.max_steps;
            let every = self.config.save_every;
            let due = progress.step.is_some()
                && every.is_some_and(|n| self.counters.steps_done.is_multiple_of(n));
            // Who asked to stop doesn't wait for a whole evaluation: one batch shows that there is a loss.
            let saved = match saves && (due || finished || leave) {
                true if leave && !due => {
                    self.check_loss(1)?;
                    self.save_with(folder, None)?
                }
                true => self.save(folder)?,
                false => None,
            };
            if let Some(path) = &saved {
                let steps_done = self.counters.steps_done;
                stop |= on_event(Event::Saved { steps_done, path }).is_break();
                leave |= alone && stop;
            }
            if leave && (!finished || self.is_evaluation_due()) {
                return Ok(Outcome::Stopped);
            }
        }
        Ok(Outcome::Finished)
    }

    /// Whether any rank says yes.
    fn any_rank(&self, yes: bool) -> bool {
        match &self.optimizer {
            Optimizer::Alone(_) => yes,
            Optimizer::Shared(share) => share.any(yes),
        }
    }

    fn is_evaluation_due(&self) -> bool {
        let last = self.counters.steps.last().map(|step| step.step);
        let done = self.counters.evaluations.last().map(|found| found.step);
        let every = self.config.eval_every;
        self.counters.micro_step == 0
            && done != last
            && last
                .zip(every)
                .is_some_and(|(last, n)| last.is_multiple_of(n))
    }

    /// The evaluation of the last step, if one belongs to it and there is none: after the step, or, if it was interrupted, after a resume.
    fn evaluate_if_due(
        &mut self,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, TrainError> {
        if !self.is_evaluation_due() {
            return Ok(ControlFlow::Continue(()));
        }
        let mut asked = || on_event(Event::Waiting).is_break();
        Ok(match self.evaluate_until(&mut asked)? {
            Some(evaluation) => on_event(Event::Evaluation(&evaluation)),
            None => ControlFlow::Break(()),
        })
    }

    /// The events of a batch, with the evaluation and the sample that are due after it.
    fn emit_events(
        &mut self,
        progress: &Progress,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, TrainError> {
        let mut stop = on_event(Event::Batch(&progress.batch)).is_break();
        if let Some(step) = &progress.step {
            stop |= on_event(Event::Step(step)).is_break();
            stop |= self.evaluate_if_due(on_event)?.is_break();
        }
        if let Some(sample) = &self.config.sample
            && is_due(sample.every, progress)
            && self.is_first_rank()
        {
            let steps_done = self.counters.steps_done;
            let mut asked = || on_event(Event::Waiting).is_break();
            stop |= match self.sample_until(sample, &mut asked)? {
                Some(ids) => on_event(Event::Sample {
                    steps_done,
                    ids: &ids,
                })
                .is_break(),
                None => true,
            };
        }
        if progress.epoch_end {
            let epoch = progress.batch.epoch;
            stop |= on_event(Event::EpochEnd { epoch }).is_break();
        }
        Ok(match stop {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }
}

/// Whether a sample is due: after every so many steps, or after each epoch.
fn is_due(every: Option<u64>, progress: &Progress) -> bool {
    match every {
        Some(n) => progress
            .step
            .is_some_and(|step| (step.step + 1).is_multiple_of(n)),
        None => progress.epoch_end,
    }
}
