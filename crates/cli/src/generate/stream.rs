//! New tokens as text, piece by piece, up to a stop string.

use std::io;

use anyhow::Result;
use generate::{Decoder, FinishReason, GenerateOptions, StopStrings, TokenStream};
use tokenizer::{Gpt2Tokenizer, StreamingDecoder};
use torch_rng::TorchRng;

use super::{Continued, GenerateArgs};

/// Shown for a token that GPT-2's vocabulary doesn't have (a model's may be padded).
const UNKNOWN: &str = "\u{fffd}";

/// Continues what the decoder holds; `show` gets each piece of text as it is known.
pub(super) fn text(
    args: &GenerateArgs,
    decoder: &mut Decoder,
    rng: &mut TorchRng,
    show: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<Continued> {
    let options = GenerateOptions {
        sampling: args.sampling(decoder.model().config().vocab_size),
        max_new_tokens: args.max_new_tokens,
        stop_ids: args.stop_ids(),
    };
    let mut stream = TokenStream::new(decoder, options, rng)?;
    let mut pieces = Pieces::new(args)?;
    let mut tokens = Vec::new();
    for token in &mut stream {
        let token = token?;
        tokens.push(token);
        show(pieces.push(token))?;
        if pieces.stops.found().is_some() {
            break;
        }
    }
    show(pieces.finish())?;
    let stopped = pieces.stops.found().map(ToOwned::to_owned);
    let finish = match (stopped, stream.finish_reason()) {
        (Some(stop), _) => FinishReason::StopString(stop),
        (None, Some(reason)) => reason.clone(),
        (None, None) => FinishReason::MaxNewTokens,
    };
    Ok(Continued {
        tokens,
        text: pieces.text,
        finish,
        timings: stream.timings(),
    })
}

/// The text of tokens that are all there, up to a stop string.
pub(super) fn text_up_to_stop(args: &GenerateArgs, tokens: &[u32]) -> Result<String> {
    let mut pieces = Pieces::new(args)?;
    for &token in tokens {
        pieces.push(token);
    }
    pieces.finish();
    Ok(pieces.text)
}

/// Tokens on their way to text.
struct Pieces {
    decoder: StreamingDecoder,
    stops: StopStrings,
    text: String,
}

impl Pieces {
    fn new(args: &GenerateArgs) -> Result<Self> {
        Ok(Self {
            decoder: StreamingDecoder::new(&Gpt2Tokenizer::new()),
            stops: StopStrings::new(args.stop.iter().cloned())?,
            text: String::new(),
        })
    }

    /// What one more token adds to the text.
    fn push(&mut self, token: u32) -> &str {
        let piece = self.decoder.push(token);
        let shown = self.stops.push(&piece.unwrap_or_else(|_| UNKNOWN.into()));
        self.add(&shown)
    }

    /// What was held back.
    fn finish(&mut self) -> &str {
        let decoder = StreamingDecoder::new(&Gpt2Tokenizer::new());
        let rest = std::mem::replace(&mut self.decoder, decoder).finish();
        let shown = self.stops.push(&rest) + &self.stops.finish();
        self.add(&shown)
    }

    fn add(&mut self, shown: &str) -> &str {
        let before = self.text.len();
        self.text.push_str(shown);
        &self.text[before..]
    }
}
