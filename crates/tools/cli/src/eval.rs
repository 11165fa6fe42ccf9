//! `gpt eval`: the mean cross-entropy of a text under a model, and its perplexity.
//!
//! The text goes through windows of the model's context, one every `stride` tokens.
//! Every token but the first is predicted once: by the first window in which it is a target, so
//! with a smaller stride it has more text before it.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use dataloader::Corpus;
use gpt::GptModel;
use ndarray::ArrayView2;
use serde::Serialize;
use train::perplexity;

use crate::ids::{Given, TokenList, read_given};
use crate::memory::check;
use crate::model::ModelArgs;
use crate::numbers::at_least_1;
use crate::output::{print, print_json};
use crate::threads::ThreadArgs;
use crate::vocabulary::Vocabulary;
use crate::working::Working;

#[derive(Args, Debug)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Text (UTF-8) or token ids (.bin as nanoGPT or llm.c write it, .npy); - is standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["data", "tokens"], conflicts_with_all = ["data", "tokens"])]
    text: Option<PathBuf>,
    /// The same as the argument
    #[arg(
        long,
        short = 'f',
        value_name = "FILE",
        visible_alias = "file",
        conflicts_with = "tokens"
    )]
    data: Option<PathBuf>,
    /// Ids in place of a text, in one window: the loss of predicting all but the first
    #[arg(long, value_name = "1,2,3")]
    tokens: Option<TokenList>,
    /// Tokens between the starts of two windows [default: the window's length]
    #[arg(long, value_name = "N", value_parser = at_least_1, conflicts_with = "tokens")]
    stride: Option<usize>,
    /// Tokens in a window [default: the model's context length]
    #[arg(short = 'c', long, value_name = "N", value_parser = at_least_1, visible_aliases = ["max-length", "block-size"], conflicts_with = "tokens")]
    context_size: Option<usize>,
    /// Print one JSON object: loss, perplexity, tokens
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: ThreadArgs,
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Report {
    /// Mean cross-entropy of a predicted token, in nats.
    loss: f64,
    /// e^loss
    perplexity: f64,
    /// Tokens that were predicted.
    tokens: usize,
    /// The loss of a byte in bits, which models of other vocabularies can be compared by; of a text
    /// alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    bits_per_byte: Option<f64>,
}

pub(crate) fn run(args: &EvalArgs) -> Result<()> {
    args.threads.apply()?;
    let data = args.text.as_ref().or(args.data.as_ref());
    let given = match (&args.tokens, data) {
        (Some(TokenList(ids)), _) => Given::Ids(Corpus::from_ids(ids.as_slice())),
        (None, Some(path)) => read_given(path)?,
        (None, None) => unreachable!("clap requires one of them"),
    };
    let found = args.model.find()?;
    let ids = found.corpus(&given)?;
    let marks = found.vocabulary.marks();
    let text = match given {
        Given::Text(text) => Some((
            bytes_between_marks(&text, &marks, &found.vocabulary),
            text.chars().take(HEAD).collect(),
        )),
        Given::Ids(_) => None,
    };
    if ids.len() < 2 {
        bail!(
            "a loss needs at least 2 tokens, one to predict from and one to predict, got {}",
            ids.len()
        );
    }
    let rows = found.config().vocab_size;
    let checked = found.vocabulary.check_ids(&ids, rows);
    checked.with_context(|| match data {
        Some(path) => path.display().to_string(),
        None => "--tokens".to_owned(),
    })?;
    let model = found.load()?;
    let window = args.context_size.unwrap_or(match &args.tokens {
        Some(_) => ids.len() - 1,
        None => model.config().context_length,
    });
    let stride = args.stride.unwrap_or(window);
    if stride > window {
        bail!("--stride {stride} would leave out tokens: windows have {window}");
    }
    check(&model.config().evaluation_memory(window)?)?;
    let losses = Losses::of(&model, &ids, window, stride, &marks)?;
    let loss = losses.total / (ids.len() - 1) as f64;
    if !loss.is_finite() {
        bail!("the loss is {loss}: the model's weights are no good, whatever the text");
    }
    let report = Report {
        loss,
        perplexity: perplexity(loss),
        tokens: ids.len() - 1,
        bits_per_byte: text.and_then(|text: (_, String)| {
            bits_per_byte(&found.vocabulary, &ids, text, &losses, &marks)
        }),
    };
    if args.json {
        return print_json(&report);
    }
    found.name.tell();
    print(format!("loss        {loss:.6}\n"))?;
    print(format!("perplexity  {:.4}\n", report.perplexity))?;
    if let Some(bits) = report.bits_per_byte {
        print(format!("bits/byte   {bits:.4}\n"))?;
    }
    Ok(print(format!("tokens      {}\n", report.tokens))?)
}

/// The bytes of a text, but for the names of marks.
fn bytes_between_marks(text: &str, marks: &[u32], vocabulary: &Vocabulary) -> usize {
    let tokenizer = vocabulary.tokenizer().ok();
    let names = marks.iter().filter_map(|&mark| {
        let name = tokenizer?.piece(mark)?;
        std::str::from_utf8(name)
            .ok()
            .filter(|name| !name.is_empty())
    });
    let of_marks = names.map(|name| name.len() * text.matches(name).count());
    text.len() - of_marks.sum::<usize>()
}

/// The bits that a predicted byte takes of a text with so many, which begins with `head`.
fn bits_per_byte(
    vocabulary: &Vocabulary,
    ids: &Corpus,
    (bytes, head): (usize, String),
    losses: &Losses,
    marks: &[u32],
) -> Option<f64> {
    let first = ids.read(0..1).ok()?[0];
    // The first token is not predicted.
    let first = match marks.contains(&first) {
        true => 0,
        false => first_bytes(vocabulary.tokenizer().ok()?.piece(first)?, &head),
    };
    let bytes = bytes.checked_sub(first).filter(|&bytes| bytes > 0)?;
    Some(losses.between_marks / (bytes as f64 * std::f64::consts::LN_2))
}

/// Characters of a text that its first token may have at most.
const HEAD: usize = 4096;

/// The bytes of a text that its first token stands for: those of its piece, without the blank that
/// some tokenizers put before a text; of a character that the vocabulary does not have, that
/// character's.
fn first_bytes(piece: &[u8], head: &str) -> usize {
    match piece {
        _ if head.as_bytes().starts_with(piece) => piece.len(),
        [b' ', piece @ ..] if head.as_bytes().starts_with(piece) => piece.len(),
        _ => head.chars().next().map_or(0, char::len_utf8),
    }
}

/// Sums of the losses of predicting each token but the first, in nats.
struct Losses {
    total: f64,
    /// Without those of marks.
    between_marks: f64,
}

impl Losses {
    fn of(
        model: &GptModel,
        ids: &Corpus,
        window: usize,
        stride: usize,
        marks: &[u32],
    ) -> Result<Self> {
        let targets = ids.len() - 1;
        let (mut total, mut between_marks) = (0.0, 0.0);
        let mut done = 0; // targets that have been predicted
        let mut start = 0;
        let working = Working::on("evaluating", targets as u64);
        while done < targets {
            let end = (start + window).min(targets);
            let ids = ids.read(start..end + 1)?;
            let row = |first| {
                let ids = &ids[first..first + end - start];
                ArrayView2::from_shape((1, ids.len()), ids).expect("one row of as many ids")
            };
            // Input i predicts id i + 1.
            let losses = model.token_losses(&row(0), &row(1))?;
            for (&loss, id) in losses.iter().zip(&ids[1..]).skip(done - start) {
                total += f64::from(loss);
                if !marks.contains(id) {
                    between_marks += f64::from(loss);
                }
            }
            done = end;
            working.has_done(done as u64);
            start += stride;
        }
        Ok(Self {
            total,
            between_marks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_token_has_the_bytes_that_it_stands_for() {
        assert_eq!(first_bytes(b"The", "The bell"), 3);
        assert_eq!(first_bytes(b" bell", "bell"), 4);
        assert_eq!(first_bytes(b"<|unk|>", "\u{20ac}5"), 3);
        assert_eq!(
            first_bytes("\u{20ac}".as_bytes()[..2].as_ref(), "\u{20ac}5"),
            2
        );
    }
}
