//! `gpt generate`: continues a text, as it comes on standard output, with timings on standard error.
//!
//! `--json` prints one object and no stream; `-i` goes on turn by turn (`interactive.rs`).

mod interactive;
mod options;
mod stream;

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::builder::styling::AnsiColor;
use generate::{
    BeamConfig, Decoder, DecoderConfig, FinishReason, PastContext, Timings, beam_search,
};
use gpt::GptModel;
use serde::Serialize;
use tokenizer::Gpt2Tokenizer;
use torch_rng::TorchRng;

use crate::failure::Usage;
use crate::ids::TextSource;
use crate::output::{coloured, print, print_json};
pub(crate) use options::GenerateArgs;
use options::WhenFull;

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    /// The new ids alone.
    tokens: Vec<u32>,
    /// What they say, up to a stop string.
    text: String,
    /// `length`, `stop` or `context`.
    finish: &'static str,
    timings: TimingsReport,
}

#[derive(Serialize)]
struct TimingsReport {
    load_seconds: f64,
    prompt_tokens: usize,
    prompt_seconds: f64,
    prompt_tokens_per_second: f64,
    decoded_tokens: usize,
    decode_seconds: f64,
    decode_tokens_per_second: f64,
}

/// A continuation that has ended.
struct Continued {
    tokens: Vec<u32>,
    text: String,
    finish: FinishReason,
    timings: Timings,
}

pub(crate) fn run(args: &GenerateArgs) -> Result<()> {
    args.threads.apply()?;
    args.check()?;
    let prompt = TextSource {
        tokens: args.tokens.as_ref(),
        file: args.file.as_ref(),
        text: args.text.as_deref().or(args.prompt.as_deref()),
    };
    // An interactive session reads its turns from standard input.
    let given = args.tokens.is_some() || args.file.is_some() || prompt.text.is_some();
    let ids = match args.interactive && !given {
        true => None,
        false => prompt.prompt()?,
    };
    let began = Instant::now();
    let model = args.model.load()?;
    let load_time = began.elapsed();
    if args.interactive {
        return interactive::run(args, &model, ids);
    }
    let Some(ids) = ids else {
        let message =
            "no prompt: give a text, a file with -f, ids with --tokens, pipe a text in, or use -i";
        return Err(Usage(message.to_owned()).into());
    };
    let mut decoder = decoder(args, &model)?;
    start(args, &mut decoder, &ids)?;
    if args.json {
        let continued = match args.beams {
            Some(beams) => beam(args, &mut decoder, beams)?,
            None => stream::text(args, &mut decoder, &mut rng(args), &mut |_| Ok(()))?,
        };
        return print_json(&report(continued, load_time));
    }
    if !args.no_display_prompt {
        print(shown(&ids))?;
    }
    let continued = match args.beams {
        Some(beams) => {
            let best = beam(args, &mut decoder, beams)?;
            print(&best.text)?;
            best
        }
        None => stream::text(args, &mut decoder, &mut rng(args), &mut |text| print(text))?,
    };
    print("\n")?;
    tell(&continued.timings, load_time);
    Ok(())
}

/// The prompt as text.
fn shown(ids: &[u32]) -> String {
    let text = Gpt2Tokenizer::new().decode_lossy(ids);
    text.unwrap_or_else(|_| format!("{ids:?}"))
}

/// A decoder as the options say.
fn decoder<'m>(args: &GenerateArgs, model: &'m GptModel) -> Result<Decoder<'m>> {
    args.sampling(model.config().vocab_size)
        .check(model.config().vocab_size)?;
    let config = DecoderConfig {
        precision: args.precision,
        context_size: args.context_size,
        past_context: match args.past_context {
            Some(WhenFull::Stop) => PastContext::Stop,
            Some(WhenFull::Crop) | None => PastContext::Crop,
        },
    };
    Ok(Decoder::with_config(model, config)?)
}

/// Hands the prompt to the decoder.
fn start(args: &GenerateArgs, decoder: &mut Decoder, ids: &[u32]) -> Result<()> {
    let room = decoder.context_size();
    if ids.is_empty() {
        bail!("the prompt is empty: expected at least one token");
    }
    if ids.len() > room && args.past_context != Some(WhenFull::Crop) {
        bail!(
            "the prompt has {} tokens, but the context has room for {room}; with --past-context crop the model sees its end",
            ids.len()
        );
    }
    Ok(decoder.start(&[ids])?)
}

/// The generator that draws tokens: of the seed asked for, or one that is told.
fn rng(args: &GenerateArgs) -> TorchRng {
    let seed = args.seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = u64::from(now.unwrap_or(Duration::ZERO).subsec_nanos());
        if !args.is_greedy() && !args.json {
            note(&format!("seed {seed}"));
        }
        seed
    });
    TorchRng::manual_seed(seed).with_build(args.build)
}

/// The best of several continuations; it is known at the end only.
fn beam(args: &GenerateArgs, decoder: &mut Decoder, num_beams: usize) -> Result<Continued> {
    let config = BeamConfig {
        num_beams,
        max_new_tokens: args.max_new_tokens,
        length_penalty: args.length_penalty,
        stop_ids: args.stop_ids(),
    };
    let prompt_tokens = decoder.pending(0);
    let began = Instant::now();
    decoder.advance()?;
    let prompt_time = began.elapsed();
    let began = Instant::now();
    let best = beam_search(decoder, &config)?.into_iter().next();
    let (tokens, finish) = match best {
        Some(best) => (best.tokens, best.finish),
        None => (Vec::new(), FinishReason::MaxNewTokens),
    };
    Ok(Continued {
        text: stream::text_up_to_stop(args, &tokens)?,
        timings: Timings {
            prompt_tokens,
            prompt_time,
            decoded_tokens: tokens.len(),
            decode_time: began.elapsed(),
        },
        tokens,
        finish,
    })
}

fn report(continued: Continued, load_time: Duration) -> Report {
    let Timings {
        prompt_tokens,
        prompt_time,
        decoded_tokens,
        decode_time,
    } = continued.timings;
    Report {
        tokens: continued.tokens,
        text: continued.text,
        finish: match continued.finish {
            FinishReason::StopToken(_) | FinishReason::StopString(_) => "stop",
            FinishReason::ContextFull => "context",
            _ => "length",
        },
        timings: TimingsReport {
            load_seconds: load_time.as_secs_f64(),
            prompt_tokens,
            prompt_seconds: prompt_time.as_secs_f64(),
            prompt_tokens_per_second: continued.timings.prompt_tokens_per_second(),
            decoded_tokens,
            decode_seconds: decode_time.as_secs_f64(),
            decode_tokens_per_second: continued.timings.decoded_tokens_per_second(),
        },
    }
}

/// How fast it was, on standard error.
fn tell(timings: &Timings, load_time: Duration) {
    note(&format!(
        "load {:.2} s; prompt {} tokens, {:.1} tokens/s; decode {} tokens, {:.1} tokens/s",
        load_time.as_secs_f64(),
        timings.prompt_tokens,
        timings.prompt_tokens_per_second(),
        timings.decoded_tokens,
        timings.decoded_tokens_per_second()
    ));
}

/// A line on standard error, which may be closed.
fn note(text: &str) {
    let _ = writeln!(
        std::io::stderr(),
        "{}",
        coloured(text, AnsiColor::BrightBlack)
    );
}
