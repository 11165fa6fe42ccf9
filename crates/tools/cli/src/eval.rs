//! Implements `gpt eval`, which measures how well a model predicts a text. The command prints the
//! mean cross-entropy per token, the perplexity, and the cross-entropy in bits per byte.
//!
//! The text is divided into windows that are as long as the model's context. Each token except the
//! first is counted once.
//!
//! With `--stride`, consecutive windows overlap, as in many published evaluations of GPT-2. In all
//! windows but the first, only the tokens that weren't in the previous window are counted. Each of
//! these tokens is predicted from at least `context_length - stride` preceding tokens, which
//! usually lowers the loss.

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
    /// A text file (UTF-8) or a file of token IDs (.npy, or .bin as written by nanoGPT or llm.c);
    /// use - to read standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["file", "tokens"], conflicts_with_all = ["file", "tokens"])]
    text: Option<PathBuf>,
    /// The file to evaluate (equivalent to the FILE argument)
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "tokens")]
    file: Option<PathBuf>,
    /// Token IDs to evaluate instead of a file
    #[arg(long, value_name = "1,2,3")]
    tokens: Option<TokenList>,
    /// The number of tokens from the start of one window to the start of the next; with a smaller
    /// stride, tokens are predicted from more context [default: the context length]
    #[arg(long, value_name = "N")]
    stride: Option<AtLeast1>,
    /// The number format of the weights and of the inputs to matrix products: float32 or bfloat16
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
    /// Number of predicted tokens, which is one less than the number of tokens in the input because
    /// the first token isn't predicted.
    tokens: usize,
    /// Mean loss per byte of text, in bits. Unlike the loss per token, this value can be compared
    /// between models with different vocabularies. It is `None` if the input consists of token IDs.
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
            "the input must have at least 2 tokens (one as context and one to predict), got {}",
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
        // With `--dtype bfloat16`, `set_dtype` rounds only the inputs to matrix products. `gpt
        // generate` also rounds the token embedding, so it is rounded here as well. In a model with
        // tied weights, the token embedding is also the weight matrix of the output layer.
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

/// Returns the number of bytes by which the loss is divided to get bits per byte. This is the
/// length of `text` without the first token, which isn't predicted and whose ID is `first`, and
/// without the names of special tokens such as `<|endoftext|>`. Returns `None` if no bytes remain
/// or if the model has no tokenizer.
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

/// Returns how many bytes at the beginning of `text` belong to the first token, which decodes to
/// the bytes `piece`. A space that the tokenizer adds before each text isn't counted. If `text`
/// doesn't begin with `piece`, because the token stands for an unknown character, the function
/// returns the length of the first character.
fn first_bytes(piece: &[u8], text: &str) -> usize {
    match piece {
        _ if text.as_bytes().starts_with(piece) => piece.len(),
        [b' ', piece @ ..] if text.as_bytes().starts_with(piece) => piece.len(),
        _ => text.chars().next().map_or(0, char::len_utf8),
    }
}

/// Sums of the losses of all tokens in a text, in nats. The first token has no loss, because there
/// is nothing from which it could be predicted.
#[derive(Default)]
struct Losses {
    total: f64,
    /// Sum of the losses of all tokens except special tokens.
    between_special: f64,
}

impl Losses {
    /// Adds up the losses of all tokens. The losses are computed in windows of `window` tokens, and
    /// a new window begins every `stride` tokens. If a token is in several windows, only its loss
    /// in the first of these windows is counted.
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
            // At each position, the model predicts the next token, so the targets are the input
            // tokens shifted by one position.
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
