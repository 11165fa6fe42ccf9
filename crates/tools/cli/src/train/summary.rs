//! Formats the lines that are printed before the first step and after the last step of a training
//! run.

use std::io::{IsTerminal, stdout};
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use console::Term;
use dataloader::DataLoader;
use rayon::current_num_threads;
use tensor_ops::{Parameters, has_bf16};
use train::{Dtype, Evaluation, RunFolder, Schedule, Trainer, latest_checkpoint};

use super::setup::Setup;
use crate::terminal::numbers::{count, short};
use crate::terminal::shell::{program, shell_quoted};
use crate::train::runs::{LOG, SVG};

/// Returns the lines that are printed before the first step. They describe the model, the data, the
/// number of steps, the settings and the folder of the run. Notes about settings that may have
/// unexpected consequences follow.
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
        (Some(from), 0) => format!(
            "{}, starting with the weights of {}",
            path.display(),
            from.display()
        ),
        (None, 0) => path.display().to_string(),
        (_, done) => format!("{}, resumed after step {done}", path.display()),
    };
    let mut lines = vec![
        format!(
            "model     {} layers, {} heads, {} features, a context of {} tokens and a vocabulary of {} tokens: {} parameters",
            model.n_layers,
            model.n_heads,
            model.emb_dim,
            model.context_length,
            model.vocab_size,
            count(trainer.model().num_parameters() as f64)
        ),
        format!(
            "data      {}: {} tokens for training and {} for validation",
            setup.data,
            tokens(train),
            setup.validation.as_ref().map_or(0, tokens)
        ),
        match accumulation {
            1 => format!(
                "training  {steps} steps ({epochs:.1} epochs), each with {} tokens: one batch of {} windows of {window} tokens",
                setup.tokens_per_step(),
                train.batch_size()
            ),
            _ => format!(
                "training  {steps} steps ({epochs:.1} epochs), each with {} tokens: {accumulation} batches of {} windows of {window} tokens",
                setup.tokens_per_step(),
                train.batch_size()
            ),
        },
        format!(
            "settings  learning rate {}, weight decay {}, gradient clipping {}, dropout {} ({}), seed {}, {}, {}",
            options.learning_rate,
            options.weight_decay,
            options.grad_clip,
            model.drop_rates,
            options.dropout_build.unwrap_or_default(),
            options.seed,
            options.dtype,
            match current_num_threads() {
                1 => "1 thread".to_owned(),
                threads => format!("{threads} threads"),
            }
        ),
        format!("folder    {folder}"),
    ];
    if options.dtype == Dtype::BFloat16 && !has_bf16() {
        lines.push(
            "note      this CPU has no bf16 instructions, so bfloat16 is slower than float32"
                .to_owned(),
        );
    }
    if window < model.context_length {
        lines.push(format!(
            "note      the windows have {window} tokens, so the later positions in the context of {} tokens aren't trained",
            model.context_length
        ));
    }
    if epochs < 1.0 {
        let part = 100.0 * epochs;
        lines.push(format!(
            "note      this run covers {part:.0}% of the data; --epochs 1 ({per_epoch} steps) covers all of it"
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
            "note      from step {total_steps} on, the learning rate stays at {least}"
        ));
    }
    let lines = lines.iter().map(|line| wrapped(line, width()));
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// Returns the width of the terminal in columns, or `None` if standard output isn't a terminal.
fn width() -> Option<usize> {
    let size = Term::stdout().size_checked();
    size.filter(|_| stdout().is_terminal())
        .map(|(_, columns)| columns.into())
}

/// Wraps a line between words. Continuation lines are indented to align with the text that follows
/// the label at the beginning of the line.
fn wrapped(line: &str, columns: Option<usize>) -> String {
    const INDENT: usize = 10;
    let columns = columns.unwrap_or(usize::MAX).max(2 * INDENT);
    let (mut text, mut column) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if column > INDENT && column + length > columns {
            text.truncate(text.trim_end().len());
            text += &format!("\n{}", " ".repeat(INDENT));
            column = INDENT;
        }
        text += word;
        column += word.chars().count();
    }
    text
}

/// Returns the summary of a finished training run. It contains the number of steps, the folder of
/// the run, the Python code that loads the last checkpoint, and the command that generates text
/// with this checkpoint. If an earlier checkpoint had a lower validation loss than the last one,
/// the summary also contains the path of the best checkpoint.
pub(crate) fn sum_up(
    setup: &Setup,
    folder: &RunFolder,
    steps: Range<u64>,
    last: Option<Evaluation>,
    began: Instant,
) -> Result<String> {
    let path = folder.path();
    let (gpt, run) = (program(), shell_quoted(path));
    let (before, steps) = (steps.start, steps.end);
    let done = match before < steps {
        true => format!(
            "trained from step {before} to step {steps} in {:.0} s",
            began.elapsed().as_secs_f64()
        ),
        false => format!(
            "this run has already completed all of its {steps} steps; to continue it up to step N, use: {gpt} train --resume {run} --max-steps N"
        ),
    };
    let best = match (folder.best()?, last.and_then(|last| last.val_loss)) {
        (Some((best, loss)), Some(last)) if last > loss => format!(
            "best    {}: the validation loss was {loss:.3} at this checkpoint, but it has since risen to {last:.3} (overfitting); to use this checkpoint, pass its path to --model or --init-from\n",
            best.display()
        ),
        _ => String::new(),
    };
    let model = latest_checkpoint(path)?;
    // A JSON string is also a valid Python string.
    let model = serde_json::to_string(&model.to_string_lossy())?;
    let folder = path.display();
    let write = match &setup.prompt {
        Some(prompt) => format!("{gpt} generate {prompt} --model {run}"),
        None => format!(
            "{gpt} generate -i --model {run}\n\
            note    -i reads the prompt from the terminal, because the prompt used for the samples can't be quoted in a shell command"
        ),
    };
    Ok(format!(
        "\n{done}\n{best}folder  {folder}, with the loss curve in {SVG} and the log in {LOG}\n\
        python  to load the model, use: AutoModelForCausalLM.from_pretrained({model})\n\
        shell   to generate text, use: {write}"
    ))
}

/// Formats a sample as a single line. The prompt is enclosed in brackets, and each line break is
/// replaced with a visible symbol.
pub(crate) fn sample(prompt: &str, continuation: &str) -> String {
    let one_line = |text: &str| text.replace('\n', "\u{23ce}");
    format!("sample: [{}]{}", one_line(prompt), one_line(continuation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        let line = "model     2 layers, 4 heads, 192 features, 64 tokens";
        let expected = "model     2 layers,\n          4 heads,\n          192\n          \
            features,\n          64 tokens";
        assert_eq!(wrapped(line, Some(20)), expected);
        assert_eq!(wrapped(line, None), line);
    }

    #[test]
    fn a_sample_shows_its_prompt_and_its_lines() {
        assert_eq!(sample("em", "ma\nann"), "sample: [em]ma\u{23ce}ann");
    }
}
