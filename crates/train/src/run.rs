//! The run: batch after batch until the last step, with evaluations, samples and checkpoints when they are due.
//!
//! It prints nothing: everything that happens is an [`Event`] for the caller's closure.

use crate::trainer::{Optimizer, Progress};
use crate::{Event, Outcome, RunFolder, Signal, TrainError, Trainer};

impl Trainer {
    /// Trains until `max_steps` are done or the closure says stop; saves to `folder` as the settings say, and at the end.
    ///
    /// With ranks, rank 0 has the folder and makes the samples; all stop after the step in which the closure of one said so.
    ///
    /// # Errors
    /// If a loss is not finite (the last checkpoint stays), a batch doesn't suit the model, or a checkpoint can't be written.
    pub fn run(
        &mut self,
        folder: Option<&RunFolder>,
        on_event: &mut dyn FnMut(Event<'_>) -> Signal,
    ) -> Result<Outcome, TrainError> {
        let saves = self.any_rank(folder.is_some());
        let mut stop = false;
        while self.steps_done < self.config.max_steps {
            let progress = self.train_batch()?;
            stop |= self.tell_what_followed(&progress, on_event)? == Signal::Stop;
            let alone = matches!(self.optimizer, Optimizer::Alone(_));
            let mut leave = (alone || progress.step.is_some()) && self.any_rank(stop);
            let finished = self.steps_done >= self.config.max_steps;
            let every = self.config.save_every;
            let due =
                progress.step.is_some() && every.is_some_and(|n| self.steps_done.is_multiple_of(n));
            if saves
                && (due || finished || leave)
                && let Some(path) = &self.save(folder)?
            {
                let steps_done = self.steps_done;
                stop |= on_event(Event::Saved { steps_done, path }) == Signal::Stop;
                leave |= alone && stop;
            }
            if leave && !finished {
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

    /// The events of a batch, with the evaluation and the sample that are due after it.
    fn tell_what_followed(
        &mut self,
        progress: &Progress,
        on_event: &mut dyn FnMut(Event<'_>) -> Signal,
    ) -> Result<Signal, TrainError> {
        let mut stop = on_event(Event::Batch(&progress.batch)) == Signal::Stop;
        if let Some(step) = &progress.step {
            stop |= on_event(Event::Step(step)) == Signal::Stop;
            let every = self.config.eval_every;
            if every.is_some_and(|n| step.step.is_multiple_of(n)) {
                let evaluation = self.evaluate()?;
                stop |= on_event(Event::Evaluation(&evaluation)) == Signal::Stop;
            }
        }
        if let Some(sample) = &self.config.sample
            && is_due(sample.every, progress)
            && self.is_first_rank()
        {
            let (steps_done, ids) = (self.steps_done, &self.sample(sample)?[..]);
            stop |= on_event(Event::Sample { steps_done, ids }) == Signal::Stop;
        }
        if progress.epoch_end {
            let epoch = progress.batch.epoch;
            stop |= on_event(Event::EpochEnd { epoch }) == Signal::Stop;
        }
        Ok(if stop { Signal::Stop } else { Signal::Continue })
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
