//! The run itself: events to the screen and the log, evaluations beside the run's own, and a good end.

use std::fs;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use checkpoint::{Precision, save_hugging_face};
use tensor_ops::Parameters;
use torch_rng::TorchRng;
use train::{
    Evaluation, Event, Outcome, RunFolder, TrainConfig, Trainer, latest_checkpoint, loss_until,
};

use super::data::Loaders;
use super::log::{Line, Log, read};
use super::plot;
use super::progress::Progress;
use super::start::Started;
use super::summary::{announce, one_line, sum_up};
use crate::failure::Stopped;
use crate::interrupt::Interrupt;
use crate::ranks::{Common, World};
use crate::runs::MODEL;
use crate::vocabulary::Vocabulary;

/// What Ctrl-C is answered with.
const STOPPING: &str = "\nstopping after this step and saving (Ctrl-C again stops at once)\n";

/// Who looks at a run and may stop it.
struct Watch {
    progress: Progress,
    log: Log,
    log_error: Option<anyhow::Error>,
    interrupt: Interrupt,
    vocabulary: Vocabulary,
    sampled_at: Option<u64>,
}

pub(crate) fn run(started: Started, json: bool, world: &World) -> Result<()> {
    let interrupt = Interrupt::listen(if world.is_first() { STOPPING } else { "" })?;
    let began = Instant::now();
    let Started {
        mut trainer,
        folder,
        settings,
    } = started;
    let Some(folder) = folder else {
        // Another rank shows, logs and saves.
        world.common(trainer.run(None, &mut |_| match interrupt.asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }))?;
        return Ok(());
    };
    let loaders = &settings.loaders;
    let path = folder.path();
    check_export(&path.join(MODEL))?;
    let steps_before = trainer.steps_done();
    let progress = Progress::new(
        steps_before,
        settings.training.max_steps,
        settings.tokens_per_step(),
        settings.options.free.log_interval as u64,
        json,
    );
    announce(&progress, &settings, &trainer, path);
    let mut watch = Watch {
        log: Log::open(path, steps_before)?,
        progress,
        log_error: None,
        interrupt,
        vocabulary: settings.vocabulary.clone(),
        sampled_at: None,
    };
    watch.record(&Line::Start {
        steps_done: steps_before,
        parameters: trainer.model().num_parameters(),
        tokens_per_step: settings.tokens_per_step(),
        options: settings.options.to_json()?.into(),
    })?;
    watch.progress.pause_over();

    let outcome = loop {
        let look_at = match world.ranks() {
            None => next_close_look(trainer.config(), trainer.steps_done()),
            Some(_) => None, // the others would not wait for it
        };
        // No checkpoint is due before a close look.
        let save_to = look_at.is_none().then_some(&folder);
        let outcome = trainer.run(save_to, &mut |event| watch.on(event, look_at));
        let outcome = world.common(outcome).map_err(|error| {
            watch.progress.finish();
            with_last_checkpoint(error, &folder)
        })?;
        if watch.wants_to_stop() {
            if save_to.is_none()
                && let Some(path) = &trainer.save(Some(&folder))?
            {
                let steps_done = trainer.steps_done();
                let _ = watch.on(Event::Saved { steps_done, path }, None);
            }
            break outcome;
        }
        if look_at.is_none() {
            break outcome;
        }
        let stop = &mut || watch.interrupt.asked();
        if let Some(evaluation) = side_evaluation(&trainer, loaders, stop)? {
            watch.progress.evaluation(&evaluation);
            watch.record(&Line::eval(&evaluation))?;
            watch.progress.pause_over();
        }
    };
    if let Some(error) = watch.log_error {
        watch.progress.finish();
        return Err(error);
    }

    let mut last = None;
    if outcome == Outcome::Finished {
        last = finish(&trainer, loaders, &mut watch, path)
            .map_err(|error| with_last_checkpoint(error, &folder))?;
    }
    watch.progress.finish();
    plot::draw(path)?;
    let model = path.join(MODEL);
    let end_of_text = &settings.vocabulary.end_of_text;
    save_hugging_face(trainer.model(), &model, Precision::F32, end_of_text)?;
    settings.vocabulary.save(&model)?;
    let steps = (steps_before, trainer.steps_done());
    if outcome == Outcome::Stopped {
        watch.progress.line("");
        watch.progress.line(&format!(
            "stopped after step {} and saved; to go on: gpt train --resume {}",
            steps.1,
            path.display()
        ));
        return Err(Stopped(watch.interrupt.exit_code()).into());
    }
    let first = trainer.evaluations().first().copied();
    sum_up(
        &watch.progress,
        &settings,
        &folder,
        steps,
        (first, last),
        began,
    );
    Ok(())
}

/// That the model can be written at the end, before the run begins.
fn check_export(model: &Path) -> Result<()> {
    let entries = match fs::read_dir(model) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| model.display().to_string())?,
    };
    for entry in entries {
        let entry = entry.with_context(|| model.display().to_string())?;
        if !entry.file_type()?.is_file() {
            bail!("{}: expected a file", entry.path().display());
        }
    }
    Ok(())
}

impl Watch {
    /// Shows and logs what happened; breaks to stop the run, or after the step to look at.
    fn on(&mut self, event: Event<'_>, look_at: Option<u64>) -> ControlFlow<()> {
        let mut due = false;
        let line = match event {
            Event::Step(report) => {
                due = look_at == Some(report.step + 1);
                Some(Line::step(report, self.progress.step(report)))
            }
            Event::Evaluation(evaluation) => {
                self.progress.evaluation(evaluation);
                Some(Line::eval(evaluation))
            }
            Event::Sample { steps_done, ids } => Some(self.sample(steps_done, ids)),
            Event::Saved { steps_done, path } => Some(Line::Saved {
                steps_done,
                path: path.display().to_string(),
            }),
            _ => None,
        };
        if let Some(line) = line {
            let error = self.record(&line).err();
            self.log_error = self.log_error.take().or(error);
            if !matches!(event, Event::Step(_)) {
                self.progress.pause_over();
            }
        }
        // A batch may be in the middle of a step, which is finished first.
        match !matches!(event, Event::Batch(_)) && (due || self.wants_to_stop()) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn wants_to_stop(&self) -> bool {
        self.interrupt.asked() || self.log_error.is_some()
    }

    fn record(&mut self, line: &Line) -> Result<()> {
        self.progress.json(line);
        self.log.write(line)
    }

    fn sample(&mut self, steps_done: u64, ids: &[u32]) -> Line {
        self.sampled_at = Some(steps_done);
        let text = self.vocabulary.text_of(ids);
        self.progress.line(&format!("sample: {}", one_line(&text)));
        Line::Sample { steps_done, text }
    }
}

/// The next step after which the loss is looked at beside the run's own evaluations, as it falls fastest at the start: 2, 4, 8 and so on, before the first evaluation or checkpoint is due.
fn next_close_look(config: &TrainConfig, steps_done: u64) -> Option<u64> {
    let next = (steps_done + 1).max(2).checked_next_power_of_two()?;
    let end = config.max_steps.min(config.eval_every?);
    (next < end.min(config.save_every?)).then_some(next)
}

/// An evaluation that leaves the run as it is: it goes on as if it had not been.
///
/// None if `stop` says so meanwhile.
fn side_evaluation(
    trainer: &Trainer,
    loaders: &Loaders,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<Evaluation>> {
    let (model, batches) = (trainer.model(), Some(trainer.config().eval_batches));
    let mut rng = TorchRng::manual_seed(0);
    let mut losses = Vec::new();
    for loader in std::iter::once(&loaders.train).chain(&loaders.validation) {
        match loss_until(loader, model, batches, &mut rng, stop)? {
            Some(loss) if loss.is_finite() => losses.push(loss),
            Some(loss) => bail!("the loss after the last step is {loss}"),
            None => return Ok(None),
        }
    }
    let last = trainer.steps().last();
    Ok(Some(Evaluation {
        step: trainer.steps_done().saturating_sub(1),
        epoch: last.map_or(0, |step| step.epoch),
        train_loss: losses[0],
        val_loss: losses.get(1).copied(),
        tokens_seen: trainer.tokens_seen(),
    }))
}

/// The last evaluation and the last sample, unless they were due anyway or are there already, or the user wants to stop; neither changes the run.
fn finish(
    trainer: &Trainer,
    loaders: &Loaders,
    watch: &mut Watch,
    path: &Path,
) -> Result<Option<Evaluation>> {
    let done = trainer.steps_done();
    let (mut evaluated, mut sampled) = (false, watch.sampled_at == Some(done));
    for line in read(path)? {
        match line {
            Line::Eval { step, .. } => evaluated |= step + 1 == done,
            Line::Sample { steps_done, .. } => sampled |= steps_done == done,
            _ => {}
        }
    }
    let mut last = trainer.evaluations().last().copied();
    let interrupt = watch.interrupt.clone();
    let stop = &mut || interrupt.asked();
    if !evaluated {
        let Some(evaluation) = side_evaluation(trainer, loaders, stop)? else {
            return Ok(last);
        };
        watch.progress.evaluation(&evaluation);
        watch.record(&Line::eval(&evaluation))?;
        last = Some(evaluation);
    }
    if let Some(sample) = &trainer.config().sample
        && !sampled
        && let Some(ids) = trainer.sample_until(sample, stop)?
    {
        let line = watch.sample(done, &ids);
        watch.record(&line)?;
    }
    Ok(last)
}

/// What failed, and which checkpoints there are to go back to.
fn with_last_checkpoint(error: anyhow::Error, folder: &RunFolder) -> anyhow::Error {
    let Ok(checkpoint) = latest_checkpoint(folder.path()) else {
        return error;
    };
    let best = match folder.best() {
        Ok(Some((best, loss))) if best != checkpoint => {
            format!(
                ", and the best, {}, validation loss {loss:.3}",
                best.display()
            )
        }
        _ => String::new(),
    };
    let kept = anyhow!(
        "{error:#}; the last checkpoint is kept: {}{best}",
        checkpoint.display()
    );
    match error.is::<Common>() {
        true => Common(kept).into(),
        false => kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_looks_come_before_the_first_evaluation_and_checkpoint() {
        let looks = |eval_every, save_every, max_steps| {
            let config = TrainConfig {
                eval_every: Some(eval_every),
                save_every: Some(save_every),
                max_steps,
                ..TrainConfig::default()
            };
            (0..100)
                .filter(|&done| next_close_look(&config, done - done.min(1)) == Some(done))
                .collect::<Vec<u64>>()
        };
        assert_eq!(looks(25, 100, 250), [2, 4, 8, 16]);
        assert_eq!(looks(25, 8, 250), [2, 4]);
        assert_eq!(looks(25, 100, 3), [2]);
        assert!(looks(2, 100, 250).is_empty());
    }
}
