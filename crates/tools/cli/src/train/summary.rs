//! The lines before a run's first step and after its last.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use dataloader::DataLoader;
use rayon::current_num_threads;
use tensor_ops::Parameters;
use train::{Evaluation, RunFolder, Schedule, Trainer, latest_checkpoint};

use super::setup::Setup;
use crate::hints::program;
use crate::numbers::{count, short};
use crate::runs::{LOG, MODEL, SVG, typed};

/// Model, data, steps, settings and folder, a line each, and what may surprise.
pub(crate) fn announce(setup: &Setup, trainer: &Trainer, path: &Path) -> String {
    let (options, model, training) = (&setup.options, &setup.model, &setup.training);
    let tokens = |part: &DataLoader| part.dataset().corpus().len();
    let (train, window) = (&setup.train, setup.train.dataset().max_length());
    let (steps, accumulation) = (training.max_steps, training.accumulation);
    let per_epoch = (train.len() as u64).div_ceil(accumulation);
    let epochs = match training.whole_epochs {
        true => steps as f64 / per_epoch as f64,
        false => steps as f64 * accumulation as f64 / train.len() as f64,
    };
    let folder = match (&options.init_from, trainer.steps_done()) {
        (Some(from), 0) => format!("{}, weights of {}", path.display(), from.display()),
        (None, 0) => path.display().to_string(),
        (_, done) => format!("{}, resumed after step {done}", path.display()),
    };
    let mut lines = vec![
        format!(
            "model     {} layers, {} heads, {} features, context {}, vocabulary {}: {} parameters",
            model.n_layers,
            model.n_heads,
            model.emb_dim,
            model.context_length,
            model.vocab_size,
            count(trainer.model().num_parameters() as f64)
        ),
        format!(
            "data      {}: {} tokens to train on, {} to validate",
            setup.data,
            tokens(train),
            setup.validation.as_ref().map_or(0, tokens)
        ),
        format!(
            "steps     {steps} of {} tokens an iteration ({accumulation} x {} windows of {window} tokens), {epochs:.1} epochs",
            setup.tokens_per_step(),
            train.batch_size()
        ),
        format!(
            "settings  learning rate {}, weight decay {}, clip {}, dropout {} ({}), seed {}, {} threads",
            options.learning_rate,
            options.weight_decay,
            options.grad_clip,
            model.drop_rates,
            options.dropout_build.unwrap_or_default(),
            options.seed,
            current_num_threads()
        ),
        format!("folder    {folder}"),
    ];
    if window < model.context_length {
        lines.push(format!(
            "note      windows of {window} tokens are shorter than the context of {}",
            model.context_length
        ));
    }
    if epochs < 1.0 {
        let part = 100.0 * epochs;
        lines.push(format!(
            "note      this sees {part:.0}% of the data; --epochs 1 sees all of it in {per_epoch} steps"
        ));
    }
    if let Some(Schedule {
        total_steps,
        min_lr,
        ..
    }) = training.schedule
        && steps > total_steps
    {
        let least = short(min_lr);
        lines.push(format!(
            "note      from step {total_steps} on the learning rate stays at {least}"
        ));
    }
    lines.join("\n") + "\n"
}

/// Sums up a finished run in four lines: what it did, its best checkpoint, its folder, and how to
/// write with it.
pub(crate) fn sum_up(
    setup: &Setup,
    folder: &RunFolder,
    steps: Range<u64>,
    last: Option<Evaluation>,
    began: Instant,
) -> Result<String> {
    let path = folder.path();
    let (gpt, typed) = (program(), typed(path));
    let (before, steps) = (steps.start, steps.end);
    let done = match before < steps {
        true => format!(
            "trained from step {before} to {steps} in {:.0} s",
            began.elapsed().as_secs_f64()
        ),
        false => format!(
            "finished after {steps} steps, nothing was left to do; {gpt} train --resume {typed} --max-steps N goes on to step N"
        ),
    };
    let model = match (folder.best()?, last.and_then(|last| last.val_loss)) {
        (None, _) => format!("model   {}", latest_checkpoint(path)?.display()),
        (Some((best, loss)), last) => {
            let best = best.display();
            let risen = match last.filter(|&last| last > loss) {
                None => String::new(),
                Some(last) => format!(
                    "; it has risen since, to {last:.3}: the model learns its text by heart, and generate and eval take the best"
                ),
            };
            format!("best    {best}, validation loss {loss:.3}{risen}")
        }
    };
    let (folder, prompt) = (path.display(), &setup.prompt);
    Ok(format!(
        "\n{done}\n{model}\nfolder  {folder}: {MODEL}/ for transformers, {SVG}, {LOG}\n\
        write   {gpt} generate {prompt} --model {typed}"
    ))
}

/// A text on one line of the screen.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
