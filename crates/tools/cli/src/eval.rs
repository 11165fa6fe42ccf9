//! Implements `gpt eval`, which measures how well a model predicts a text. It prints the mean
//! cross-entropy per token, the perplexity, and the cross-entropy in bits per byte.
//!
//! The text is divided into windows that are as long as the model's context, and the loss of each
//! token except the first is counted once. With `--stride`, the windows overlap, as in the
//! published perplexities of GPT-2. After the first window, only the tokens that weren't in the
//! previous window are counted, so each of them is predicted from at least
//! `context_length - stride` tokens.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use dataloader::Corpus;
use gpt::GptModel;
use ndarray::ArrayView2;
use serde::Serialize;
use tensor_ops::{Dtype, OPERAND_DTYPES, round_to_bf16};
use train::perplexity;

use crate::model::ModelArgs;
use crate::model::ids::{Input, TokenList, read_input};
use crate::model::vocabulary::Vocabulary;
use crate::terminal::failure::misused;
use crate::terminal::memory::check;
use crate::terminal::numbers::{AtLeast1, dtype_among};
use crate::terminal::output::{print, print_json};
use crate::terminal::threads::ThreadArgs;

#[derive(Args, Debug)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// A file with text (UTF-8) or with token IDs (.npy, or .bin as written by nanoGPT or llm.c);
    /// use - to read standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["file", "tokens"], conflicts_with_all = ["file", "tokens"])]
    text: Option<PathBuf>,
    /// The file to evaluate; this option means the same as the argument FILE
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "tokens")]
    file: Option<PathBuf>,
    /// Token IDs to evaluate instead of a file
    #[arg(long, value_name = "1,2,3")]
    tokens: Option<TokenList>,
    /// The number of tokens from the start of one window to the start of the next; with a smaller
    /// number, each token is predicted from more context [default: the context length]
    #[arg(long, value_name = "N")]
    stride: Option<AtLeast1>,
    /// The number format of the weights and of the operands of matrix products: float32 or bfloat16
    #[arg(
        long,
        value_name = "TYPE",
        value_parser = dtype_among(OPERAND_DTYPES),
        default_value_t
    )]
    dtype: Dtype,
    /// Print a JSON object with the keys loss, perplexity, tokens and, if the input is text,
    /// bits_per_byte
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
    /// Perplexity, which is `exp(loss)`.
    perplexity: f64,
    /// Number of predicted tokens. This is one less than the number of tokens in the input, because
    /// the first token isn't predicted.
    tokens: usize,
    /// Mean loss per byte of text, in bits, which can be compared between models with different
    /// vocabularies. It is `None` if the input consists of token IDs.
    #[serde(skip_serializing_if = "Option::is_none")]
    bits_per_byte: Option<f64>,
}

pub(crate) fn run(args: &EvalArgs) -> Result<()> {
    args.threads.apply()?;
    let data = args.text.as_ref().or(args.file.as_ref());
    let input = match (&args.tokens, data) {
        (Some(TokenList(ids)), _) => Input::Ids(Corpus::from_ids(ids.as_slice())),
        (None, Some(path)) => read_input(path)?,
        (None, None) => unreachable!("clap requires one of them"),
    };
    let found = args.model.find()?;
    let ids = found.vocabulary.corpus(&input)?;
    if ids.len() < 2 {
        bail!(
            "the input must have at least 2 tokens, one to predict from and one to predict, got {}",
            ids.len()
        );
    }
    let name = || data.map_or("--tokens".to_owned(), |path| path.display().to_string());
    let vocab_size = found.config().vocab_size;
    found
        .vocabulary
        .check_ids(&ids, vocab_size)
        .with_context(name)?;
    let mut model = found.load()?;
    model.set_dtype(args.dtype)?;
    if args.dtype == Dtype::BFloat16 {
        // With bfloat16, the token embedding is also rounded, as in `gpt generate`. In a model with
        // tied weights, it is the output layer as well.
        model.tok_emb.weight.mapv_inplace(round_to_bf16);
    }
    let tokens = ids.len() - 1;
    let context_length = model.config().context_length;
    let window = context_length.min(tokens);
    check(&model.config().evaluation_memory(window)?)?;
    let special_ids = found.vocabulary.special_ids();
    let stride = args.stride.map_or(context_length, |stride| stride.0);
    if stride > context_length {
        return misused(format!(
            "--stride must be at most {context_length}, the model's context length, got {stride}"
        ));
    }
    let stride = stride.min(window);
    let losses = Losses::of(&model, &ids, (window, stride), &special_ids)?;
    let loss = losses.total / tokens as f64;
    if !loss.is_finite() {
        bail!(
            "the loss is {loss}, because the model's weights are damaged; use another checkpoint"
        );
    }
    let bytes = match &input {
        Input::Text(text) => {
            predicted_bytes(text, ids.read(0..1)?[0], &special_ids, &found.vocabulary)
        }
        Input::Ids(_) => None,
    };
    let bits = |bytes| losses.between_special / (bytes as f64 * std::f64::consts::LN_2);
    let report = Report {
        loss,
        perplexity: perplexity(loss),
        tokens,
        bits_per_byte: bytes.map(bits),
    };
    if args.json {
        return print_json(&report);
    }
    found.note();
    print(format!("loss        {loss:.6}\n"))?;
    print(format!("perplexity  {:.4}\n", report.perplexity))?;
    if let Some(bits) = report.bits_per_byte {
        print(format!("bits/byte   {bits:.4}\n"))?;
    }
    Ok(print(format!("tokens      {tokens}\n"))?)
}

/// Returns the number of bytes of `text` that the model predicts. The first token, whose ID is
/// `first`, and the names of special tokens such as `<|endoftext|>` don't count. Returns `None` if
/// no bytes remain or if the model has no tokenizer.
fn predicted_bytes(
    text: &str,
    first: u32,
    special_ids: &[u32],
    vocabulary: &Vocabulary,
) -> Option<usize> {
    let tokenizer = vocabulary.tokenizer().ok()?;
    let names = special_ids.iter().filter_map(|&id| tokenizer.piece(id));
    let names = names.filter_map(|name| std::str::from_utf8(name).ok());
    let names = names.filter(|name| !name.is_empty());
    let of_special: usize = names
        .map(|name| name.len() * text.matches(name).count())
        .sum();
    let of_first = match special_ids.contains(&first) {
        true => 0,
        false => first_bytes(tokenizer.piece(first)?, text),
    };
    let bytes = text.len().checked_sub(of_special + of_first);
    bytes.filter(|&bytes| bytes > 0)
}

/// Returns the number of bytes at the beginning of `text` that the first token represents. `piece`
/// contains the bytes of this token. A leading space that the tokenizer adds to each text isn't
/// counted. If the token replaces an unknown character, the result is the length of that character.
fn first_bytes(piece: &[u8], text: &str) -> usize {
    match piece {
        _ if text.as_bytes().starts_with(piece) => piece.len(),
        [b' ', piece @ ..] if text.as_bytes().starts_with(piece) => piece.len(),
        _ => text.chars().next().map_or(0, char::len_utf8),
    }
}

/// Sums of the losses of a text's tokens, in nats. The first token has no loss, because nothing
/// precedes it.
#[derive(Default)]
struct Losses {
    total: f64,
    /// Sum of the losses of all tokens that aren't special tokens.
    between_special: f64,
}

impl Losses {
    /// Sums up the token losses, which are computed in windows of `window` tokens. A new window
    /// begins every `stride` tokens. If a token is in several windows, only its loss in the first
    /// of them is counted.
    fn of(
        model: &GptModel,
        ids: &Corpus,
        (window, stride): (usize, usize),
        special_ids: &[u32],
    ) -> Result<Self> {
        let targets = ids.len() - 1;
        let (mut sums, mut counted) = (Self::default(), 0);
        for start in (0..targets).step_by(stride) {
            let end = (start + window).min(targets);
            let ids = ids.read(start..end + 1)?;
            let row = |first| {
                let ids = &ids[first..first + end - start];
                ArrayView2::from_shape((1, ids.len()), ids).expect("one row of as many ids")
            };
            // The targets are the inputs shifted by one position, because each position predicts
            // the next token.
            let losses = model.token_losses(&row(0), &row(1))?;
            for (&loss, id) in losses.iter().zip(&ids[1..]).skip(counted - start) {
                sums.total += f64::from(loss);
                if !special_ids.contains(id) {
                    sums.between_special += f64::from(loss);
                }
            }
            counted = end;
            if end == targets {
                break;
            }
        }
        Ok(sums)
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
