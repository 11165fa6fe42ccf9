//! The run itself: events to the screen and the log, evaluations beside the run's own, and a good
//! end.

use std::fs;
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use atomic_file::write_atomically;
use checkpoint::{Precision, save_hugging_face};
use generate::generate_text_simple;
use gpt::GptModel;
use ndarray::Array2;
use tensor_ops::Parameters;
use train::{
    Evaluation, Event, Outcome, RunFolder, SampleConfig, TrainConfig, Trainer, latest_checkpoint,
};

use super::log::{Line, Log};
use super::plot;
use super::progress::Progress;
use super::start::Started;
use super::summary::{announce, one_line, sum_up};
use crate::convert::is_ours;
use crate::failure::Stopped;
use crate::interrupt::Interrupt;
use crate::ranks::{Common, World};
use crate::runs::{MODEL, Origin, TRAINING, typed};
use crate::vocabulary::Vocabulary;

/// What Ctrl-C is answered with.
const STOPPING: &str = "\nstopping after this step and saving (Ctrl-C again stops at once)\n";

/// Who looks at a run and may stop it.
struct Watch {
    progress: Progress,
    log: Log,
    /// Why the log or a sample couldn't be written, which ends the run.
    error: Option<anyhow::Error>,
    interrupt: Interrupt,
    vocabulary: Vocabulary,
    sample: Option<SampleConfig>,
    sampled_at: Option<u64>,
    first_evaluation: Option<Evaluation>,
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
        error: None,
        interrupt,
        vocabulary: settings.vocabulary.clone(),
        sample: settings.training.sample.clone(),
        sampled_at: None,
        first_evaluation: trainer.last_evaluation().copied(),
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
        let outcome = trainer.run(save_to, &mut |event| {
            let goes_on = watch.on(event, look_at);
            folder
                .not_deleted()
                .iter()
                .for_each(|error| watch.progress.note(error));
            goes_on
        });
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
        watch.look(&trainer)?;
    };
    if let Some(error) = watch.error {
        watch.progress.finish();
        return Err(error);
    }

    let mut last = None;
    if outcome == Outcome::Finished {
        last =
            finish(&trainer, &mut watch).map_err(|error| with_last_checkpoint(error, &folder))?;
    }
    watch.progress.finish();
    plot::draw(path)?;
    let model = path.join(MODEL);
    let end_of_text = &settings.vocabulary.end_of_text;
    save_hugging_face(trainer.model(), &model, Precision::F32, end_of_text)?;
    settings.vocabulary.save(&model)?;
    let origin = serde_json::to_vec_pretty(&Origin::of(&latest_checkpoint(path)?)?)?;
    write_atomically(model.join(TRAINING), |file| file.write_all(&origin))?;
    let steps = (steps_before, trainer.steps_done());
    if outcome == Outcome::Stopped {
        watch.progress.line("");
        watch.progress.line(&format!(
            "stopped after step {} and saved; to go on: gpt train --resume {}",
            steps.1,
            typed(path)
        ));
        return Err(Stopped(watch.interrupt.exit_code()).into());
    }
    let evaluations = (watch.first_evaluation, last);
    let progress = &watch.progress;
    sum_up(progress, &settings, &folder, steps, evaluations, began);
    Ok(())
}

/// That the model can be written at the end, before the run begins.
fn check_export(model: &Path) -> Result<()> {
    if model.is_symlink() {
        bail!(
            "{}: expected a folder of this run, found a link",
            model.display()
        );
    }
    let entries = match fs::read_dir(model) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| model.display().to_string())?,
    };
    for entry in entries {
        let entry = entry.with_context(|| model.display().to_string())?;
        let is_written = entry.file_name().to_str().is_some_and(is_ours);
        if is_written && !entry.file_type()?.is_file() {
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
            Event::Evaluation(evaluation) => Some(self.evaluation(evaluation)),
            Event::SampleDue { steps_done, model } => self.sample(steps_done, model),
            Event::Saved { steps_done, path } => Some(Line::Saved {
                steps_done,
                path: path.display().to_string(),
            }),
            _ => None,
        };
        if let Some(line) = line {
            let error = self.record(&line).err();
            self.error = self.error.take().or(error);
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
        self.interrupt.asked() || self.error.is_some()
    }

    fn record(&mut self, line: &Line) -> Result<()> {
        self.progress.json(line);
        self.log.write(line)
    }

    fn evaluation(&mut self, evaluation: &Evaluation) -> Line {
        self.first_evaluation.get_or_insert(*evaluation);
        self.progress.evaluation(evaluation);
        Line::eval(evaluation)
    }

    /// An evaluation beside the run's own; none if the user wants to stop.
    fn look(&mut self, trainer: &Trainer) -> Result<Option<Evaluation>> {
        let evaluation = trainer.evaluate(&mut || self.interrupt.asked())?;
        if let Some(evaluation) = &evaluation {
            let line = self.evaluation(evaluation);
            self.record(&line)?;
            self.progress.pause_over();
        }
        Ok(evaluation)
    }

    /// A sample, shown; none if the user wants to stop, or it can't be made.
    fn sample(&mut self, steps_done: u64, model: &GptModel) -> Option<Line> {
        let ids = continuation(model, self.sample.as_ref()?, &self.interrupt);
        match ids {
            Ok(ids) => {
                self.sampled_at = Some(steps_done);
                let text = self.vocabulary.text_of(&ids?);
                self.progress.line(&format!("sample: {}", one_line(&text)));
                Some(Line::Sample { steps_done, text })
            }
            Err(error) => {
                self.error = self.error.take().or(Some(error));
                None
            }
        }
    }
}

/// The prompt and its most likely continuation; none if the user wants to stop before it is whole.
fn continuation(
    model: &GptModel,
    sample: &SampleConfig,
    interrupt: &Interrupt,
) -> Result<Option<Vec<u32>>> {
    let context_size = model.config().context_length;
    let mut ids = Array2::from_shape_vec((1, sample.prompt.len()), sample.prompt.clone())?;
    for _ in 0..sample.max_new_tokens {
        if interrupt.asked() {
            return Ok(None);
        }
        ids = generate_text_simple(model, ids, 1, context_size)?;
    }
    Ok(Some(ids.into_iter().collect()))
}

/// The next step after which the loss is looked at beside the run's own evaluations, as it falls
/// fastest at the start: 1, 2, 4 and so on, before the first evaluation or checkpoint is due.
fn next_close_look(config: &TrainConfig, steps_done: u64) -> Option<u64> {
    let next = (steps_done + 1).checked_next_power_of_two()?;
    let end = config.max_steps.min(config.eval_every?);
    (next < end.min(config.save_every?)).then_some(next)
}

/// The last evaluation and the last sample, unless they were due anyway or are there already, or
/// the user wants to stop; neither changes the run.
fn finish(trainer: &Trainer, watch: &mut Watch) -> Result<Option<Evaluation>> {
    let done = trainer.steps_done();
    let mut last = trainer.last_evaluation().copied();
    let is_last = last.is_some_and(|last| last.steps_done == done);
    if !is_last
        && !watch
            .log
            .ends_with(|line| matches!(line, Line::Eval { .. }))
    {
        let Some(evaluation) = watch.look(trainer)? else {
            return Ok(last);
        };
        last = Some(evaluation);
    }
    let sampled = watch.sampled_at == Some(done)
        || watch
            .log
            .ends_with(|line| matches!(line, Line::Sample { .. }));
    if !sampled && let Some(line) = watch.sample(done, trainer.model()) {
        watch.record(&line)?;
    }
    match watch.error.take() {
        Some(error) => Err(error),
        None => Ok(last),
    }
}

/// What failed, and which checkpoints there are to go back to.
fn with_last_checkpoint(error: anyhow::Error, folder: &RunFolder) -> anyhow::Error {
    let Ok(checkpoint) = latest_checkpoint(folder.path()) else {
        return error;
    };
    let best = match folder.best() {
        Some((best, loss)) if best != checkpoint => {
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
        assert_eq!(looks(25, 100, 250), [1, 2, 4, 8, 16]);
        assert_eq!(looks(25, 8, 250), [1, 2, 4]);
        assert_eq!(looks(25, 100, 3), [1, 2]);
        assert!(looks(1, 100, 250).is_empty());
    }
}
