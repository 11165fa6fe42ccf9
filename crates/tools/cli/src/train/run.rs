//! Runs the training loop. Shows the trainer's events to the user, writes them to the log, and
//! prints a summary at the end.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use atomic_file::write_atomically;
use generate::generate_text_simple;
use gpt::GptModel;
use ndarray::Array2;
use tensor_ops::Parameters;
use train::runs::{CHECKPOINTS, LOCK, RUN_FILE};
use train::{Evaluation, Event, Outcome, RunFolder, Trainer};

use super::StartedRun;
use super::log::{Line, Log};
use super::plot;
use super::progress::Progress;
use super::setup::Setup;
use super::summary::{announce, sample, sum_up};
use crate::mpi::group::ProcessGroup;
use crate::terminal::failure::Stopped;
use crate::terminal::interrupt::Interrupt;
use crate::terminal::output::note_missing_support;
use crate::terminal::shell::{program, shell_quoted};
use crate::train::runs::{self, LOG, OPTIONS, OPTIONS_BEGIN, finished};

/// Message that is printed after the first Ctrl-C or other signal that asks the program to end.
const STOPPING: &str =
    "\nstopping after this step and saving; press Ctrl-C again to stop without saving\n";

/// Handles the events of a training run. It can also tell the trainer to stop the run.
struct RunListener<'s> {
    setup: &'s Setup,
    folder: &'s RunFolder,
    progress: Progress,
    log: Log,
    /// First error that occurred while the listener was writing the log or generating a sample. The
    /// listener then tells the trainer to stop, and the command ends with this error.
    error: Option<anyhow::Error>,
    interrupt: Interrupt,
    /// Last evaluation.
    evaluation: Option<Evaluation>,
    /// Number of training steps that had been done when the most recent sample was generated, or 0
    /// if there is no sample yet.
    sampled: u64,
    /// Error messages about old checkpoints and unfinished files that couldn't be deleted. The
    /// trainer reports such a message again each time it saves a checkpoint, so the messages that
    /// have already been printed are stored here in order to print each one only once.
    noted: BTreeSet<String>,
}

/// Trains until the last step or until the user stops the run. Only the first MPI rank shows the
/// progress, writes the log and saves checkpoints.
pub(crate) fn run(started: StartedRun, world: &ProcessGroup) -> Result<()> {
    let (setup, mut trainer) = (&started.setup, started.trainer);
    let began = Instant::now();
    let interrupt = Interrupt::listen(if world.is_first() { STOPPING } else { "" })?;
    if !world.is_first() {
        world.common(trainer.run(None, &mut |_| break_if(interrupt.asked())))?;
        return Ok(());
    }
    let folder = match started.folder {
        Some(folder) => folder,
        None => open_folder(started.out_dir.as_deref())?,
    };
    note_missing_support(&folder.path().join(RUN_FILE))?;
    keep_options(folder.path(), setup)?;
    let folder = folder
        .with_files(setup.vocabulary.files()?)
        .with_special_tokens(setup.vocabulary.special.clone());
    let path = folder.path();
    let steps_before = trainer.steps_done();
    let mut listener = RunListener {
        setup,
        folder: &folder,
        log: Log::open(path, steps_before)?,
        progress: Progress::new(
            steps_before,
            setup.training.max_steps,
            setup.tokens_per_step(),
        ),
        error: None,
        interrupt,
        evaluation: None,
        sampled: 0,
        noted: BTreeSet::new(),
    };
    listener.progress.line(&announce(setup, &trainer, path));
    listener.log(&Line::Start {
        steps_done: steps_before,
        parameters: trainer.model().num_parameters(),
        tokens_per_step: setup.tokens_per_step(),
        options: serde_json::to_value(&setup.options)?,
    })?;
    listener.progress.pause_over();

    let outcome = trainer.run(Some(&folder), &mut |event| listener.on(event));
    let outcome = world.common(outcome)?;
    if let Some(error) = listener.error {
        return Err(error);
    }
    let steps = steps_before..trainer.steps_done();
    if outcome == Outcome::Finished && !steps.is_empty() {
        listener.finish(&trainer)?;
    }
    folder.check()?;
    plot::draw(path)?;
    if outcome == Outcome::Stopped {
        let (done, gpt, run) = (steps.end, program(), shell_quoted(path));
        listener.progress.line(&format!(
            "\nstopped after step {done} and saved a checkpoint; to resume the run, use: {gpt} train --resume {run}"
        ));
        return Err(Stopped(listener.interrupt.exit_code()).into());
    }
    let summary = sum_up(setup, &folder, steps, listener.evaluation, began)?;
    listener.progress.line(&summary);
    Ok(())
}

/// Creates and locks the folder of a new run.
fn open_folder(out_dir: Option<&Path>) -> Result<RunFolder> {
    let path = match out_dir {
        Some(path) => path.to_owned(),
        None => runs::create(Path::new(runs::RUNS))?,
    };
    refuse_full(&path)?;
    let folder = RunFolder::open(&path)?;
    // Checks again that the folder can be used for a new run. Between the first check and the
    // moment when this process locked the folder, another process may have saved a complete run in
    // it, which must not be overwritten.
    refuse_full(&path)?;
    Ok(folder)
}

/// Checks that a new run can be saved in a folder. The folder must be empty, or contain only files
/// of a run that ended before it saved its first checkpoint. The new run overwrites these files.
fn refuse_full(folder: &Path) -> Result<()> {
    let mut inside = finished(folder)?;
    let is_empty = finished(&folder.join(CHECKPOINTS))?.is_empty();
    let ours: &[&str] = match runs::never_saved(folder)? {
        true => &[LOCK, RUN_FILE, OPTIONS, LOG],
        false => &[LOCK, RUN_FILE],
    };
    let is_ours = |name: &OsString| ours.iter().any(|ours| name == ours);
    inside.retain(|name| !(is_ours(name) || is_empty && name == CHECKPOINTS));
    let Some(found) = inside.first() else {
        return Ok(());
    };
    bail!(
        "{}: a new run requires an empty folder, but this folder contains {}; to resume the run in this folder, use: {} train --resume {}",
        folder.display(),
        found.display(),
        program(),
        shell_quoted(folder)
    )
}

/// Writes the options of a run to its folder.
fn keep_options(path: &Path, setup: &Setup) -> Result<()> {
    let text = format!("{OPTIONS_BEGIN}\n{}", toml::to_string(&setup.options)?);
    write_atomically(path.join(OPTIONS), |file| file.write_all(text.as_bytes()))?;
    Ok(())
}

/// Returns the value with which a listener answers the trainer after an event: `Break`, which makes
/// the trainer stop the training run, if `stop` is true, and `Continue` otherwise.
fn break_if(stop: bool) -> ControlFlow<()> {
    match stop {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

impl RunListener<'_> {
    /// Adds a line to the log of the run. Returns an error if another process has taken over the
    /// run's folder since this process locked it, so that two processes never write to the same
    /// log.
    fn log(&mut self, line: &Line) -> Result<()> {
        self.folder.check()?;
        self.log.write(line)
    }

    /// Shows an event to the user and writes it to the log.
    fn on(&mut self, event: Event<'_>) -> ControlFlow<()> {
        let done = match event {
            Event::Step(report) => {
                let tokens_per_second = self.progress.step(report);
                self.log(&Line::Step {
                    report: *report,
                    tokens_per_second,
                })
            }
            Event::Evaluation(evaluation) => self.evaluated(*evaluation),
            Event::SampleDue { steps_done, model } => self.sample(steps_done, model),
            Event::Saved {
                steps_done,
                path,
                not_deleted,
            } => {
                for error in not_deleted.iter().map(ToString::to_string) {
                    if self.noted.insert(error.clone()) {
                        self.progress.note(&error);
                    }
                }
                let path = path.display().to_string();
                self.log(&Line::Saved { steps_done, path })
            }
            _ => Ok(()),
        };
        self.error = self.error.take().or(done.err());
        if matches!(
            event,
            Event::SampleDue { .. } | Event::Saved { .. } | Event::Evaluation(_)
        ) {
            self.progress.pause_over();
        }
        break_if(self.interrupt.asked() || self.error.is_some())
    }

    fn evaluated(&mut self, evaluation: Evaluation) -> Result<()> {
        self.evaluation = Some(evaluation);
        self.progress.evaluation(&evaluation);
        self.log(&Line::Eval(evaluation))
    }

    /// Generates a sample, shows it to the user, and writes it to the log. Does nothing if samples
    /// are disabled or if the user has stopped the run.
    fn sample(&mut self, steps_done: u64, model: &GptModel) -> Result<()> {
        let Some(ids) = self.continuation(model)? else {
            return Ok(());
        };
        self.sampled = steps_done;
        let vocabulary = &self.setup.vocabulary;
        let text = vocabulary.text_of(&ids);
        let (begin, rest) = ids.split_at(self.setup.begin.len());
        let [begin, mut rest] = [begin, rest].map(|ids| vocabulary.text_of(ids));
        if vocabulary.tokenizer().is_err() {
            // Without a tokenizer, a sample is shown as a list of token IDs separated by spaces.
            // The list is made of two parts, the IDs of the prompt and the IDs of its continuation,
            // so a space is added between them.
            rest.insert(0, ' ');
        }
        self.progress.line(&sample(&begin, &rest));
        self.log(&Line::Sample { steps_done, text })
    }

    /// Evaluates the model and generates a sample after the last training step, unless this has
    /// already been done for that step or the user has stopped the run. The trainer's state doesn't
    /// change.
    fn finish(&mut self, trainer: &Trainer) -> Result<()> {
        let steps_done = trainer.steps_done();
        let last = trainer.last_evaluation().map(|last| last.steps_done);
        if last != Some(steps_done)
            && let Some(evaluation) = trainer.evaluate(&mut || self.interrupt.asked())?
        {
            self.evaluated(evaluation)?;
        }
        match self.sampled == steps_done {
            true => Ok(()),
            false => self.sample(steps_done, trainer.model()),
        }
    }

    /// Continues the prompt of the samples with greedy decoding. Returns the token IDs of the
    /// prompt and its continuation, or `None` if samples are disabled or the user has stopped the
    /// run.
    fn continuation(&self, model: &GptModel) -> Result<Option<Vec<u32>>> {
        let begin = &self.setup.begin;
        let tokens = self.setup.options.sample_tokens.0;
        if begin.is_empty() || tokens == 0 {
            return Ok(None);
        }
        let context_size = model.config().context_length;
        let mut ids = Array2::from_shape_vec((1, begin.len()), begin.clone())?;
        for _ in 0..tokens {
            if self.interrupt.asked() {
                return Ok(None);
            }
            ids = generate_text_simple(model, ids, 1, context_size)?;
        }
        Ok(Some(ids.into_iter().collect()))
    }
}
