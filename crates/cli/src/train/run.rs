//! The run itself: what is shown before, meanwhile and after.

use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use rayon::current_num_threads;
use tensor_ops::Parameters;
use torch_rng::TorchRng;
use train::{Evaluation, Event, Outcome, RunFolder, Trainer, latest_checkpoint, loss_until};

use super::config_file::to_json;
use super::data::Loaders;
use super::interrupt::Interrupt;
use super::log::{LOG, Line, Log};
use super::plot::{self, PNG, SVG};
use super::progress::Progress;
use super::start::Started;
use crate::memory::{bytes, count};
use crate::model::text_of;

pub(crate) fn run(started: Started) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let began = Instant::now();
    let Started {
        mut trainer,
        folder,
        settings,
    } = started;
    let (data, loaders) = (&settings.data, &settings.loaders);
    let path = folder.path().to_owned();
    let vocab_size = settings.model.vocab_size;
    let tokens_per_batch = (settings.batch_size * loaders.max_length) as u64;
    let tokens_per_step = settings
        .training
        .accumulation
        .saturating_mul(tokens_per_batch);
    let max_steps = settings.training.max_steps;
    let steps_before = trainer.steps_done();
    let mut progress = Progress::new(
        steps_before,
        max_steps,
        tokens_per_step,
        settings.log_interval,
    );

    let parameters = trainer.model().num_parameters();
    let model = settings.model;
    progress.line(&format!(
        "model     {} layers, {} heads, {} features, context {}, vocabulary {}: {} parameters{}",
        model.n_layers,
        model.n_heads,
        model.emb_dim,
        model.context_length,
        model.vocab_size,
        count(parameters as f64),
        if model.tied { ", tied head" } else { "" }
    ));
    progress.line(&format!(
        "data      {}: {} tokens to train on, {} to validate",
        data.name,
        data.train.len(),
        data.validation.as_ref().map_or(0, |corpus| corpus.len())
    ));
    let accumulation = settings.training.accumulation;
    progress.line(&format!(
        "steps     {max_steps} of {tokens_per_step} tokens an iteration ({} windows of {} tokens{}), {:.1} epochs",
        settings.batch_size,
        loaders.max_length,
        if accumulation > 1 { format!(" x {accumulation} batches") } else { String::new() },
        max_steps as f64 * accumulation as f64 / loaders.train.len() as f64
    ));
    progress.line(&format!(
        "settings  learning rate {}, warmup {} steps, weight decay {}, clip {}, dropout {} ({}), seed {}, {} threads",
        settings.training.optimizer.lr,
        settings.kept.warmup_steps.unwrap_or(0),
        settings.training.optimizer.weight_decay,
        settings.training.max_grad_norm.map_or("none".to_owned(), |norm| norm.to_string()),
        model.drop_rates.emb,
        settings.dropout_build,
        settings.seed,
        current_num_threads()
    ));
    let need = settings.need;
    progress.line(&format!("memory    about {}: {need}", bytes(need.total())));
    if loaders.max_length < model.context_length {
        progress.line(&format!(
            "note      windows of {} tokens are shorter than the context of {}",
            loaders.max_length, model.context_length
        ));
    }
    progress.line(&format!("folder    {}", path.display()));
    if steps_before > 0 {
        progress.line(&format!("resumed   after step {steps_before}"));
    }
    progress.line("");

    let mut log = Log::open(&path, steps_before)?;
    log.write(&Line::Start {
        steps_done: steps_before,
        parameters,
        tokens_per_step,
        options: to_json(&settings.kept)?.into(),
    })?;

    progress.pause_over();
    let mut log_error = None;
    let mut sampled_at = None;
    let outcome = trainer.run(Some(&folder), &mut |event| {
        let line = match event {
            Event::Step(report) => Some(Line::step(report, progress.step(report))),
            Event::Evaluation(evaluation) => {
                progress.evaluation(evaluation);
                Some(Line::eval(evaluation))
            }
            Event::Sample { steps_done, ids } => {
                sampled_at = Some(steps_done);
                let text = text_of(ids, vocab_size);
                progress.line(&format!("sample: {}", one_line(&text)));
                Some(Line::Sample { steps_done, text })
            }
            Event::Saved { steps_done, path } => Some(Line::Saved {
                steps_done,
                path: path.display().to_string(),
            }),
            _ => None,
        };
        let is_batch = matches!(event, Event::Batch(_));
        if let Some(line) = line {
            if !matches!(event, Event::Step(_)) {
                progress.pause_over();
            }
            log_error = log_error.take().or(log.write(&line).err());
        }
        // A batch may be in the middle of a step, which is finished first.
        match !is_batch && (interrupt.asked() || log_error.is_some()) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            progress.finish();
            return Err(with_what_is_kept(error.into(), &folder));
        }
    };
    if let Some(error) = log_error {
        progress.finish();
        return Err(error);
    }

    let mut last = None;
    if outcome == Outcome::Finished {
        let stop = &mut || interrupt.asked();
        let shown = (&mut progress, &mut log);
        last = finish(&trainer, loaders, shown, sampled_at, stop)
            .map_err(|error| with_what_is_kept(error, &folder))?;
    }
    progress.finish();
    plot::draw(&path)?;
    summary(&trainer, &progress, &folder, (outcome, last), began);
    Ok(())
}

/// An evaluation of the finished model that leaves the run as it is: a longer one goes on as if it had not been.
///
/// None if `stop` says so meanwhile.
fn last_evaluation(
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

/// The last evaluation and the last sample, unless they were due anyway or `stop` says so; neither changes the run.
fn finish(
    trainer: &Trainer,
    loaders: &Loaders,
    (progress, log): (&mut Progress, &mut Log),
    sampled_at: Option<u64>,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<Evaluation>> {
    let steps_done = trainer.steps_done();
    let mut last = trainer.evaluations().last().copied();
    if last.is_none_or(|last| last.step + 1 < steps_done) {
        let Some(evaluation) = last_evaluation(trainer, loaders, stop)? else {
            return Ok(last);
        };
        progress.evaluation(&evaluation);
        log.write(&Line::eval(&evaluation))?;
        last = Some(evaluation);
    }
    if let Some(sample) = &trainer.config().sample
        && sampled_at != Some(steps_done)
        && let Some(ids) = trainer.sample_until(sample, stop)?
    {
        let text = text_of(&ids, trainer.model().config().vocab_size);
        progress.line(&format!("sample: {}", one_line(&text)));
        log.write(&Line::Sample { steps_done, text })?;
    }
    Ok(last)
}

fn summary(
    trainer: &Trainer,
    progress: &Progress,
    folder: &RunFolder,
    (outcome, last): (Outcome, Option<Evaluation>),
    began: Instant,
) {
    let path = folder.path();
    let name = path.display();
    let steps = trainer.steps_done();
    progress.line("");
    if outcome == Outcome::Stopped {
        progress.line(&format!(
            "stopped after step {steps} and saved; to go on: gpt train --resume {name}"
        ));
        return;
    }
    let first = trainer.evaluations().first();
    let of = |evaluation: Option<&Evaluation>| evaluation.and_then(|found| found.val_loss);
    let validation = match (of(first), of(last.as_ref())) {
        (Some(first), Some(last)) => format!(", validation loss {first:.3} to {last:.3}"),
        _ => String::new(),
    };
    let seconds = began.elapsed().as_secs_f64();
    progress.line(&format!(
        "trained {steps} steps in {seconds:.0} s{validation}"
    ));
    let checkpoint = latest_checkpoint(path).unwrap_or_else(|_| path.to_owned());
    progress.line(&format!("model   {}", checkpoint.display()));
    if let Ok(Some((best, loss))) = folder.best()
        && best != checkpoint
    {
        let best = best.display();
        progress.line(&format!("best    {best}, validation loss {loss:.3}"));
    }
    progress.line(&format!("curve   {name}/{SVG}, {name}/{PNG}"));
    progress.line(&format!("log     {name}/{LOG}"));
    progress.line(&format!("write   gpt generate \"Once\" --model {name}"));
}

/// What failed, and which checkpoints there are to go back to.
fn with_what_is_kept(error: anyhow::Error, folder: &RunFolder) -> anyhow::Error {
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
    anyhow!(
        "{error:#}; the last checkpoint is kept: {}{best}",
        checkpoint.display()
    )
}

/// A text on one line of the screen.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
