//! The lines before a run's first step and after its last.

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
use crate::memory::parts;
use crate::numbers::{bytes, count, short};
use crate::runs::{LOG, MODEL, PNG, SVG, typed};

/// Model, data, steps and settings.
pub(crate) fn announce(progress: &Progress, setup: &Setup, trainer: &Trainer, path: &Path) {
    let Setup {
        options,
        model,
        training,
        data,
        ..
    } = setup;
    progress.line(&format!(
        "model     {} layers, {} heads, {} features, context {}, vocabulary {}: {} parameters{}",
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
        data.name,
        tokens(&data.train),
        data.validation.as_ref().map_or(0, tokens)
    ));
    if let (Some(from), 0) = (&options.init_from, trainer.steps_done()) {
        progress.line(&format!("weights   {}", from.display()));
    }
    let batches = match training.accumulation {
        1 => String::new(),
        n => format!(" x {n} batches"),
    };
    progress.line(&format!(
        "steps     {} of {} tokens an iteration ({} windows of {} tokens{batches}), {:.1} epochs",
        training.max_steps,
        setup.tokens_per_step(),
        options.batch_size,
        setup.max_length(),
        setup.epochs()
    ));
    progress.line(&format!(
        "settings  learning rate {}, warmup {} steps, weight decay {}, clip {}, dropout {} ({}), seed {}, {} threads",
        training.optimizer.lr,
        options.warmup_steps.unwrap_or(0),
        training.optimizer.weight_decay,
        training.max_grad_norm.map_or("none".to_owned(), |norm| norm.to_string()),
        model.drop_rates,
        options.dropout_build.unwrap_or_default(),
        options.seed,
        current_num_threads()
    ));
    let need = &setup.need;
    let total = bytes(need.total() as f64);
    progress.line(&format!("memory    about {total}: {}", parts(need)));
    if setup.max_length() < model.context_length {
        progress.line(&format!(
            "note      windows of {} tokens are shorter than the context of {}",
            setup.max_length(),
            model.context_length
        ));
    }
    if setup.epochs() < 1.0 {
        progress.line(&format!(
            "note      this sees {:.0}% of the data; --epochs 1 sees all of it in {} steps",
            100.0 * setup.epochs(),
            setup.steps_per_epoch()
        ));
    }
    progress.line(&format!("folder    {}", path.display()));
    if trainer.steps_done() > 0 {
        progress.line(&format!("resumed   after step {}", trainer.steps_done()));
        if let Schedule::WarmupCosine {
            total_steps,
            min_lr,
            ..
        } = training.schedule
            && training.max_steps > total_steps
        {
            progress.line(&format!(
                "note      the learning rate's schedule ends at step {total_steps}: later steps train at {}",
                short(min_lr)
            ));
        }
    }
    progress.line("");
}

/// Sums up a finished run in four lines: what it did, its best checkpoint, its folder, and how to
/// write with it.
pub(crate) fn sum_up(
    progress: &Progress,
    setup: &Setup,
    folder: &RunFolder,
    (before, steps): (u64, u64),
    (first, last): (Option<Evaluation>, Option<Evaluation>),
    began: Instant,
) -> Result<()> {
    let path = folder.path();
    let (name, typed) = (path.display(), typed(path));
    let loss_of = |evaluation: Option<Evaluation>| evaluation.and_then(|found| found.val_loss);
    let (first, last) = (loss_of(first), loss_of(last));
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
        "folder  {name}: {MODEL}/ for transformers, {SVG}, {PNG}, {LOG}"
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
