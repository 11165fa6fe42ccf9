//! New tokens as text, piece by piece, up to a stop string.

use anyhow::Result;
use generate::StopStrings;
use model_tokenizer::ModelTokenizer;
use tokenizer::StreamingDecoder;

use crate::model::vocabulary::Vocabulary;

/// Shown for a token that the tokenizer doesn't have (a model's vocabulary may be padded).
const UNKNOWN: &str = "\u{fffd}";

/// Tokens on their way to text.
pub(crate) struct Pieces<'v> {
    /// Without one, ids are shown.
    tokenizer: Option<&'v ModelTokenizer>,
    /// Holds the bytes of a character that has begun.
    decoder: Option<StreamingDecoder<'v, ModelTokenizer>>,
    stops: StopStrings,
    pub(crate) text: String,
}

impl<'v> Pieces<'v> {
    /// # Errors
    /// If a stop string is empty.
    pub(crate) fn new(vocabulary: &'v Vocabulary, stops: &[String]) -> Result<Self> {
        let tokenizer = vocabulary.tokenizer().ok();
        Ok(Self {
            tokenizer,
            decoder: tokenizer.map(StreamingDecoder::new),
            stops: StopStrings::new(stops.iter().cloned())?,
            text: String::new(),
        })
    }

    /// True if a stop string has come.
    pub(crate) fn are_stopped(&self) -> bool {
        self.stops.is_found()
    }

    /// Adds a token and returns the text that it completes.
    pub(crate) fn push(&mut self, token: u32) -> &str {
        let piece = match &mut self.decoder {
            Some(decoder) => match decoder.push(token) {
                Ok(piece) => piece,
                // It ends the incomplete character; the following bytes are separate.
                Err(_) => self.flush() + UNKNOWN,
            },
            None if self.text.is_empty() => token.to_string(),
            None => format!(" {token}"),
        };
        let shown = self.stops.push(&piece);
        self.add(&shown)
    }

    /// Ends the text and returns its rest, which was held back.
    pub(crate) fn finish(&mut self) -> &str {
        let rest = self.flush();
        let shown = self.stops.push(&rest) + &self.stops.finish();
        self.add(&shown)
    }

    /// Returns the rest that the decoder held, and resets it.
    fn flush(&mut self) -> String {
        let new = self.tokenizer.map(StreamingDecoder::new);
        let decoder = std::mem::replace(&mut self.decoder, new);
        decoder.map_or_else(String::new, StreamingDecoder::finish)
    }

    fn add(&mut self, shown: &str) -> &str {
        let before = self.text.len();
        self.text.push_str(shown);
        &self.text[before..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_token_within_a_character_is_no_part_of_it() {
        let vocabulary = Vocabulary::new(ModelTokenizer::gpt2());
        let bytes = vocabulary.encode("\u{1f980}").unwrap();
        assert!(bytes.len() > 1, "a crab is one token");
        let of = |ids: &[u32]| {
            let mut pieces = Pieces::new(&vocabulary, &[]).unwrap();
            ids.iter().for_each(|&id| {
                pieces.push(id);
            });
            pieces.finish();
            pieces.text
        };
        assert_eq!(of(&bytes), "\u{1f980}");
        let text = of(&[&bytes[..1], &[50300], &bytes[1..]].concat());
        assert!(
            !text.contains('\u{1f980}') && text.contains(UNKNOWN),
            "{text}"
        );
    }
}
