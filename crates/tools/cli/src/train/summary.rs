//! The lines before a run's first step and after its last.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use dataloader::DataLoader;
use rayon::current_num_threads;
use tensor_ops::Parameters;
use train::{Evaluation, RunFolder, Schedule, Trainer, latest_checkpoint};

use super::progress::Progress;
use super::setup::Setup;
use crate::hints::program;
use crate::numbers::{count, short};
use crate::runs::{LOG, MODEL, SVG, typed};

/// Model, data, steps, settings and folder, a line each, and what may surprise.
pub(crate) fn announce(progress: &Progress, setup: &Setup, trainer: &Trainer, path: &Path) {
    let Setup {
        options,
        model,
        training,
        train,
        ..
    } = setup;
    let from = match &options.init_from {
        Some(from) if trainer.steps_done() == 0 => format!(", weights of {}", from.display()),
        _ => String::new(),
    };
    progress.line(&format!(
        "model     {} layers, {} heads, {} features, context {}, vocabulary {}: {} parameters{}{from}",
        model.n_layers,
        model.n_heads,
        model.emb_dim,
        model.context_length,
        model.vocab_size,
        count(trainer.model().num_parameters() as f64),
        if model.tied { ", tied head" } else { "" }
    ));
    let tokens = |part: &DataLoader| part.dataset().corpus().len();
    progress.line(&format!(
        "data      {}: {} tokens to train on, {} to validate",
        setup.data,
        tokens(train),
        setup.validation.as_ref().map_or(0, tokens)
    ));
    let (steps, accumulation) = (training.max_steps, training.accumulation);
    let per_epoch = (train.len() as u64).div_ceil(accumulation);
    let epochs = match training.whole_epochs {
        true => steps as f64 / per_epoch as f64,
        false => steps as f64 * accumulation as f64 / train.len() as f64,
    };
    let batches = match accumulation {
        1 => String::new(),
        n => format!(" x {n} batches"),
    };
    let window = train.dataset().max_length();
    progress.line(&format!(
        "steps     {steps} of {} tokens an iteration ({} windows of {window} tokens{batches}), {epochs:.1} epochs",
        setup.tokens_per_step(),
        train.batch_size(),
    ));
    let peak = training.optimizer.lr;
    let Schedule::WarmupCosine {
        warmup_steps,
        total_steps,
        min_lr,
        ..
    } = training.schedule
    else {
        unreachable!("the schedule is of the options'")
    };
    progress.line(&format!(
        "settings  learning rate {peak}, warmup {warmup_steps} steps, weight decay {}, clip {}, dropout {} ({}), seed {}, {} threads",
        training.optimizer.weight_decay,
        options.grad_clip,
        model.drop_rates,
        options.dropout_build.unwrap_or_default(),
        options.seed,
        current_num_threads()
    ));
    let resumed = match trainer.steps_done() {
        0 => String::new(),
        done => format!(", resumed after step {done}"),
    };
    progress.line(&format!("folder    {}{resumed}", path.display()));
    if window < model.context_length {
        progress.line(&format!(
            "note      windows of {window} tokens are shorter than the context of {}",
            model.context_length
        ));
    }
    if epochs < 1.0 {
        progress.line(&format!(
            "note      this sees {:.0}% of the data; --epochs 1 sees all of it in {per_epoch} steps",
            100.0 * epochs
        ));
    }
    if steps > total_steps {
        progress.line(&format!(
            "note      from step {total_steps} on the learning rate stays at {}",
            short(min_lr)
        ));
    }
    progress.line("");
}

/// Sums up a finished run in four lines: what it did, its best checkpoint, its folder, and how to
/// write with it.
pub(crate) fn sum_up(
    progress: &Progress,
    setup: &Setup,
    folder: &RunFolder,
    steps: Range<u64>,
    evaluations: &[Evaluation],
    began: Instant,
) -> Result<()> {
    let path = folder.path();
    let (name, typed) = (path.display(), typed(path));
    let (before, steps) = (steps.start, steps.end);
    let loss_of = |evaluation: Option<&Evaluation>| evaluation.and_then(|found| found.val_loss);
    let (first, last) = (loss_of(evaluations.first()), loss_of(evaluations.last()));
    progress.line("");
    if before >= steps {
        progress.line(&format!(
            "nothing was left to do: this run is finished after {steps} steps; {} train --resume {typed} --max-steps N goes on to step N",
            program()
        ));
    } else {
        let from = match before {
            0 => String::new(),
            _ => format!(", from {before} to {steps},"),
        };
        let losses = first.zip(last).map_or(String::new(), |(first, last)| {
            format!(", validation loss {first:.3} to {last:.3}")
        });
        progress.line(&format!(
            "trained {} steps{from} in {:.0} s{losses}",
            steps - before,
            began.elapsed().as_secs_f64()
        ));
    }
    progress.line(&match folder.best()? {
        None => format!("model   {}", latest_checkpoint(path)?.display()),
        Some((best, loss)) => {
            let risen = match last.filter(|&last| last > loss) {
                None => String::new(),
                Some(last) => format!(
                    "; it has risen since, to {last:.3}: the model learns its text by heart, and generate and eval take the best"
                ),
            };
            format!("best    {}, validation loss {loss:.3}{risen}", best.display())
        }
    });
    progress.line(&format!(
        "folder  {name}: {MODEL}/ for transformers, {SVG}, {LOG}"
    ));
    progress.line(&format!(
        "write   {} generate {} --model {typed}",
        program(),
        setup.prompt
    ));
    Ok(())
}

/// A text on one line of the screen.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
