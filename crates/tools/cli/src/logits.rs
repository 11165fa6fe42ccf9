//! `gpt logits`: the scores of the token that comes after a text, all of them or the best.

use anyhow::Result;
use clap::Args;
use generate::{Decoder, DecoderConfig, PastContext, likeliest, softmax_with_temperature};
use serde::Serialize;

use crate::ids::TextArgs;
use crate::memory::check;
use crate::model::ModelArgs;
use crate::output::{print, print_json};
use crate::threads::ThreadArgs;

#[derive(Args, Debug)]
pub(crate) struct LogitsArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    text: TextArgs,
    /// The number of best tokens to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Print one JSON object with all logits of the last position
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: ThreadArgs,
}

/// The object that `--json` prints: an f32 read back from it is the same f32.
#[derive(Serialize)]
struct Report {
    /// (vocab_size)
    logits: Vec<f32>,
}

pub(crate) fn run(args: &LogitsArgs) -> Result<()> {
    args.threads.apply()?;
    let given = args.text.given()?;
    let found = args.model.find()?;
    let ids = found.prompt(given, found.config().context_length, "")?;
    let model = found.load()?;
    let config = DecoderConfig {
        past_context: PastContext::Stop,
        ..DecoderConfig::default()
    };
    let context_length = model.config().context_length;
    check(&model.config().decoding_memory(1, context_length)?)?;
    let mut decoder = Decoder::with_config(&model, config)?;
    decoder.start(&[&ids])?;
    decoder.advance()?;
    let logits = decoder.logits(0); // (vocab_size)
    if args.json {
        return print_json(&Report {
            logits: logits.to_vec(),
        });
    }
    found.name.tell();
    let probabilities = softmax_with_temperature(&logits, 1.0)?; // (vocab_size)
    let mut table = String::from("    id     logit  probability  token\n");
    for id in likeliest(&logits, args.top) {
        let (logit, probability) = (logits[id as usize], probabilities[id as usize]);
        let token = found.vocabulary.text_of(&[id]);
        table += &format!("{id:>6}  {logit:>8.4}  {probability:>11.5}  {token:?}\n");
    }
    Ok(print(table)?)
}
