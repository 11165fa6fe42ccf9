//! New tokens as text, piece by piece, up to a stop string.

use anyhow::Result;
use generate::StopStrings;
use tokenizer::{Gpt2Tokenizer, StreamingDecoder};

/// Shown for a token that GPT-2's vocabulary doesn't have (a model's may be padded).
const UNKNOWN: &str = "\u{fffd}";

/// Tokens on their way to text.
pub(crate) struct Pieces {
    decoder: StreamingDecoder,
    stops: StopStrings,
    pub(crate) text: String,
}

impl Pieces {
    /// # Errors
    /// If a stop string is empty.
    pub(crate) fn new(stops: &[String]) -> Result<Self> {
        Ok(Self {
            decoder: StreamingDecoder::new(&Gpt2Tokenizer::new()),
            stops: StopStrings::new(stops.iter().cloned())?,
            text: String::new(),
        })
    }

    /// The stop string that has come.
    pub(crate) fn stopped_at(&self) -> Option<&str> {
        self.stops.found()
    }

    /// What one more token adds to the text.
    pub(crate) fn push(&mut self, token: u32) -> &str {
        let piece = self.decoder.push(token);
        let shown = self.stops.push(&piece.unwrap_or_else(|_| UNKNOWN.into()));
        self.add(&shown)
    }

    /// What was held back.
    pub(crate) fn finish(&mut self) -> &str {
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
