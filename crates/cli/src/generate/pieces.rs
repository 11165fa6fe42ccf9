//! New tokens as text, piece by piece, up to a stop string.

use anyhow::Result;
use generate::StopStrings;
use model_tokenizer::{ModelTokenizer, StreamingDecoder};

use crate::vocabulary::Vocabulary;

/// Shown for a token that the tokenizer doesn't have (a model's vocabulary may be padded).
const UNKNOWN: &str = "\u{fffd}";

/// Tokens on their way to text.
pub(crate) struct Pieces<'v> {
    /// Without one, ids are shown.
    decoder: Option<StreamingDecoder<'v>>,
    stops: StopStrings,
    pub(crate) text: String,
}

impl<'v> Pieces<'v> {
    /// # Errors
    /// If a stop string is empty.
    pub(crate) fn new(vocabulary: &'v Vocabulary, stops: &[String]) -> Result<Self> {
        Ok(Self {
            decoder: vocabulary.tokenizer().ok().map(ModelTokenizer::stream),
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
        let piece = match &mut self.decoder {
            Some(decoder) => decoder.push(token).unwrap_or_else(|_| UNKNOWN.into()),
            None if self.text.is_empty() => token.to_string(),
            None => format!(" {token}"),
        };
        let shown = self.stops.push(&piece);
        self.add(&shown)
    }

    /// What was held back.
    pub(crate) fn finish(&mut self) -> &str {
        let decoder = self.decoder.take();
        let rest = decoder.map_or_else(String::new, StreamingDecoder::finish);
        let shown = self.stops.push(&rest) + &self.stops.finish();
        self.add(&shown)
    }

    fn add(&mut self, shown: &str) -> &str {
        let before = self.text.len();
        self.text.push_str(shown);
        &self.text[before..]
    }
}
