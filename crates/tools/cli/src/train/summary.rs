//! What is said of a run before its first step and after its last.

use std::path::Path;
use std::time::Instant;

use dataloader::DataLoader;
use rayon::current_num_threads;
use tensor_ops::Parameters;
use train::{Evaluation, RunFolder, Schedule, Trainer, latest_checkpoint, steps_of};

use super::progress::Progress;
use super::settings::{Settings, beginning};
use crate::memory::parts;
use crate::numbers::{bytes, count};
use crate::runs::{LOG, MODEL, PNG, SVG, typed};

/// Model, data, steps and settings.
pub(crate) fn announce(progress: &Progress, settings: &Settings, trainer: &Trainer, path: &Path) {
    let Settings {
        options,
        model,
        training,
        data,
        ..
    } = settings;
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
    if let (Some(from), 0) = (&options.model.init_from, trainer.steps_done()) {
        progress.line(&format!("weights   {}", from.display()));
    }
    let batches = match training.accumulation {
        1 => String::new(),
        n => format!(" x {n} batches"),
    };
    progress.line(&format!(
        "steps     {} of {} tokens an iteration ({} windows of {} tokens{batches}), {:.1} epochs",
        training.max_steps,
        settings.tokens_per_step(),
        options.training.batch_size,
        settings.max_length(),
        settings.epochs()
    ));
    progress.line(&format!(
        "settings  learning rate {}, warmup {} steps, weight decay {}, clip {}, dropout {} ({}), seed {}, {} threads",
        training.optimizer.lr,
        options.training.warmup_steps.unwrap_or(0),
        training.optimizer.weight_decay,
        training.max_grad_norm.map_or("none".to_owned(), |norm| norm.to_string()),
        model.drop_rates,
        options.training.dropout_build,
        options.training.seed,
        current_num_threads()
    ));
    let need = &settings.need;
    let total = bytes(need.total() as f64);
    progress.line(&format!("memory    about {total}: {}", parts(need)));
    if settings.max_length() < model.context_length {
        progress.line(&format!(
            "note      windows of {} tokens are shorter than the context of {}",
            settings.max_length(),
            model.context_length
        ));
    }
    if settings.epochs() < 1.0 {
        progress.line(&format!(
            "note      this sees {:.0}% of the data; --epochs 1 sees all of it in {} steps",
            100.0 * settings.epochs(),
            settings.steps_per_epoch()
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
                "note      the learning rate's schedule ends at step {total_steps}: later steps train at {min_lr}"
            ));
        }
    }
    progress.line("");
}

/// What a finished run did, what it left, and what can come next.
pub(crate) fn sum_up(
    progress: &Progress,
    settings: &Settings,
    folder: &RunFolder,
    (before, steps): (u64, u64),
    (first, last): (Option<Evaluation>, Option<Evaluation>),
    began: Instant,
) {
    let path = folder.path();
    let (name, typed) = (path.display(), typed(path));
    progress.line("");
    if before >= steps {
        progress.line(&format!(
            "nothing was left to do: this run is finished after {steps} steps; gpt train --resume {typed} --max-steps N goes on to step N"
        ));
    } else {
        let trained = match before {
            0 => format!("trained {steps} steps"),
            _ => format!(
                "trained {} steps, from {before} to {steps},",
                steps - before
            ),
        };
        let of = |evaluation: Option<Evaluation>| evaluation.and_then(|found| found.val_loss);
        let validation = match (of(first), of(last)) {
            (Some(first), Some(last)) => format!(", validation loss {first:.3} to {last:.3}"),
            _ => String::new(),
        };
        let seconds = began.elapsed().as_secs_f64();
        progress.line(&format!("{trained} in {seconds:.0} s{validation}"));
    }
    if settings.epochs() < 1.0
        && let Some(time) = progress.time_of(settings.steps_per_epoch())
    {
        progress.line(&format!(
            "data    {:.0}% of it was seen; all of it (--epochs 1) takes about {time}",
            100.0 * settings.epochs()
        ));
    }
    let checkpoint = latest_checkpoint(path).unwrap_or_else(|_| path.to_owned());
    progress.line(&format!("model   {}", checkpoint.display()));
    progress.line(&format!("        {name}/{MODEL} for transformers"));
    if let Some((best, loss)) = folder.best()
        && best != checkpoint
    {
        let place = best.display();
        progress.line(&format!("best    {place}, validation loss {loss:.3}"));
        if let (Some(at), Some(last)) = (steps_of(&best), last.and_then(|last| last.val_loss))
            && last > loss
        {
            progress.line(&format!(
                "note    the validation loss was lowest after step {at} and has risen since, to {last:.3}:"
            ));
            progress.line(
                "        the model learns its text by heart; generate and eval take the best checkpoint",
            );
        }
    }
    progress.line(&format!("curve   {name}/{SVG}, {name}/{PNG}"));
    progress.line(&format!("log     {name}/{LOG}"));
    let prompt = match &settings.options.data.data {
        None => "The bell", // of the story that comes with the program
        Some(_) => settings.options.free.prompt.as_deref().unwrap_or_default(),
    };
    let prompt = match beginning(prompt) {
        words if words.is_empty() => "--tokens 0".to_owned(), // there is no text
        words => format!("\"{words}\""),
    };
    progress.line(&format!("write   gpt generate {prompt} --model {typed}"));
}

/// A text on one line of the screen.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
