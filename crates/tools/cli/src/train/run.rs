//! The run itself: events to the screen and the log, and a good end.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use checkpoint::{Precision, save_hugging_face};
use generate::generate_text_simple;
use gpt::GptModel;
use ndarray::Array2;
use tensor_ops::Parameters;
use toml::Table;
use train::{Evaluation, Event, Outcome, RunFolder, Trainer, latest_checkpoint};

use super::log::{Line, Log};
use super::plot;
use super::progress::Progress;
use super::setup::Setup;
use super::start::Started;
use super::summary::{announce, one_line, sum_up};
use crate::convert::is_ours;
use crate::failure::Stopped;
use crate::hints::program;
use crate::interrupt::Interrupt;
use crate::ranks::{Common, World};
use crate::runs::{MODEL, names, typed};

/// The answer to Ctrl-C.
const STOPPING: &str = "\nstopping after this step and saving (Ctrl-C again stops at once)\n";

/// The listener of a run, which may stop it.
struct Watch<'s> {
    setup: &'s Setup,
    progress: Progress,
    log: Log,
    /// The first failure to write the log or a sample, which ends the run.
    error: Option<anyhow::Error>,
    interrupt: Interrupt,
    first_evaluation: Option<Evaluation>,
}

pub(crate) fn run(started: Started, json: bool, world: &World) -> Result<()> {
    let interrupt = Interrupt::listen(if world.is_first() { STOPPING } else { "" })?;
    let began = Instant::now();
    let Started {
        mut trainer,
        folder,
        setup,
    } = started;
    let Some(folder) = folder else {
        // Another rank shows, logs and saves.
        world.common(trainer.run(None, &mut |_| unless(interrupt.asked())))?;
        return Ok(());
    };
    let path = folder.path();
    check_export(&path.join(MODEL))?;
    let steps_before = trainer.steps_done();
    let progress = Progress::new(&setup, steps_before, json);
    announce(&progress, &setup, &trainer, path);
    let mut watch = Watch {
        setup: &setup,
        log: Log::open(path, steps_before)?,
        progress,
        error: None,
        interrupt,
        first_evaluation: trainer.last_evaluation().copied(),
    };
    watch.record(Line::Start {
        steps_done: steps_before,
        parameters: trainer.model().num_parameters(),
        tokens_per_step: setup.tokens_per_step(),
        options: serde_json::to_value(Table::try_from(&setup.options)?)?,
    })?;
    watch.progress.pause_over();

    let outcome = trainer.run(Some(&folder), &mut |event| {
        let goes_on = watch.on(event);
        let not_deleted = folder.not_deleted();
        not_deleted
            .iter()
            .for_each(|error| watch.progress.note(error));
        goes_on
    });
    let outcome = world.common(outcome);
    let outcome = outcome.map_err(|error| with_last_checkpoint(error, &folder))?;
    if let Some(error) = watch.error {
        return Err(error);
    }
    let last = match outcome {
        Outcome::Finished => finish(&trainer, &mut watch),
        _ => Ok(None),
    };
    let last = last.map_err(|error| with_last_checkpoint(error, &folder))?;
    folder.check()?;
    let model = path.join(MODEL);
    let vocabulary = &setup.vocabulary;
    save_hugging_face(trainer.model(), &model, Precision::F32, &vocabulary.special)?;
    vocabulary.save(&model)?;
    plot::draw(path)?;
    let steps = (steps_before, trainer.steps_done());
    if outcome == Outcome::Stopped {
        watch.progress.line("");
        watch.progress.line(&format!(
            "stopped after step {} and saved; to go on: {} train --resume {}",
            steps.1,
            program(),
            typed(path)
        ));
        return Err(Stopped(watch.interrupt.exit_code()).into());
    }
    let evaluations = (watch.first_evaluation, last);
    let progress = watch.progress;
    sum_up(&progress, &setup, &folder, steps, evaluations, began)?;
    progress.finish()
}

/// Goes on, unless somebody wants to stop.
fn unless(stop: bool) -> ControlFlow<()> {
    match stop {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Checks, before the run begins, that the model can be written at its end.
fn check_export(model: &Path) -> Result<()> {
    if model.is_symlink() {
        bail!(
            "{}: expected a folder of this run, found a link",
            model.display()
        );
    }
    for name in names(model)?.iter().filter(|name| is_ours(name)) {
        let path = model.join(name);
        let found = fs::symlink_metadata(&path).with_context(|| path.display().to_string())?;
        if !found.is_file() {
            bail!("{}: expected a file", path.display());
        }
    }
    Ok(())
}

impl Watch<'_> {
    /// Shows and logs what happened.
    fn on(&mut self, event: Event<'_>) -> ControlFlow<()> {
        let line = match event {
            Event::Step(report) => Ok(Some(Line::Step {
                report: *report,
                tokens_per_second: self.progress.step(report),
            })),
            Event::Evaluation(evaluation) => Ok(Some(self.evaluated(*evaluation))),
            Event::SampleDue { steps_done, model } => self.sample(steps_done, model),
            Event::Saved { steps_done, path } => Ok(Some(Line::Saved {
                steps_done,
                path: path.display().to_string(),
            })),
            _ => Ok(None),
        };
        let is_pause = !matches!(event, Event::Step(_)) && !matches!(line, Ok(None));
        let done = line.and_then(|line| line.map_or(Ok(()), |line| self.record(line)));
        self.error = self.error.take().or(done.err());
        if is_pause {
            self.progress.pause_over();
        }
        // A batch may be in the middle of a step, which is finished first.
        let may_stop = !matches!(event, Event::Batch(_));
        unless(may_stop && (self.interrupt.asked() || self.error.is_some()))
    }

    fn record(&mut self, line: Line) -> Result<()> {
        self.progress.json(&line);
        self.log.write(&line)
    }

    fn evaluated(&mut self, evaluation: Evaluation) -> Line {
        self.first_evaluation.get_or_insert(evaluation);
        self.progress.evaluation(&evaluation);
        Line::Eval(evaluation)
    }

    /// A sample, shown; none if none is wanted, or the user wants to stop.
    fn sample(&mut self, steps_done: u64, model: &GptModel) -> Result<Option<Line>> {
        let Some(ids) = self.continuation(model)? else {
            return Ok(None);
        };
        let text = self.setup.vocabulary.text_of(&ids);
        self.progress.line(&format!("sample: {}", one_line(&text)));
        Ok(Some(Line::Sample { steps_done, text }))
    }

    /// The prompt and its most likely continuation; none if the user wants to stop before it is
    /// whole.
    fn continuation(&self, model: &GptModel) -> Result<Option<Vec<u32>>> {
        let Some(sample) = &self.setup.training.sample else {
            return Ok(None);
        };
        let context_size = model.config().context_length;
        let mut ids = Array2::from_shape_vec((1, sample.prompt.len()), sample.prompt.clone())?;
        for _ in 0..sample.max_new_tokens {
            if self.interrupt.asked() {
                return Ok(None);
            }
            ids = generate_text_simple(model, ids, 1, context_size)?;
        }
        Ok(Some(ids.into_iter().collect()))
    }
}

/// The last evaluation and the last sample, unless the log has them or the user wants to stop;
/// neither changes the run.
fn finish(trainer: &Trainer, watch: &mut Watch<'_>) -> Result<Option<Evaluation>> {
    let steps_done = trainer.steps_done();
    let mut last = watch.log.evaluation;
    last.take_if(|last| last.steps_done != steps_done);
    if last.is_none() {
        last = trainer.evaluate(&mut || watch.interrupt.asked())?;
        if let Some(evaluation) = last {
            let line = watch.evaluated(evaluation);
            watch.record(line)?;
        }
    }
    if !watch.log.has_sample(steps_done)
        && let Some(line) = watch.sample(steps_done, trainer.model())?
    {
        watch.record(line)?;
    }
    Ok(last.or(trainer.last_evaluation().copied()))
}

/// Adds to an error which checkpoints there are to go back to, unless they are another run's.
fn with_last_checkpoint(error: anyhow::Error, folder: &RunFolder) -> anyhow::Error {
    let (Ok(()), Ok(checkpoint)) = (folder.check(), latest_checkpoint(folder.path())) else {
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
