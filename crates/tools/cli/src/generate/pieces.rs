//! Converts new tokens to text, piece by piece, until a stop string occurs.
//!
//! Special tokens are hidden by default, but a stop string may contain the name of one. All text
//! therefore passes through the search for stop strings, and hidden parts are removed afterwards.

use std::collections::VecDeque;

use anyhow::Result;
use generate::StopStrings;
use model_tokenizer::ModelTokenizer;
use tokenizer::StreamingDecoder;

use crate::model::vocabulary::Vocabulary;

/// Replacement for a token that the tokenizer doesn't have. Such tokens exist if the model's
/// vocabulary is padded.
const UNKNOWN: &str = "\u{fffd}";

/// The text of the new tokens so far.
pub(crate) struct Pieces<'v> {
    /// Tokenizer of the model. Without a tokenizer, the text consists of token IDs.
    tokenizer: Option<&'v ModelTokenizer>,
    /// Decoder, which holds back the bytes of an incomplete character.
    decoder: Option<StreamingDecoder<'v, ModelTokenizer>>,
    stops: StopStrings,
    shows_special: bool,
    /// The parts of the text that `stops` still holds back. Each part is described by its length in
    /// bytes and by whether it is shown.
    parts: VecDeque<(usize, bool)>,
    pub(crate) text: String,
}

impl<'v> Pieces<'v> {
    /// Creates an empty text.
    ///
    /// # Errors
    /// Returns an error if a stop string is empty.
    pub(crate) fn new(
        vocabulary: &'v Vocabulary,
        stops: &[String],
        shows_special: bool,
    ) -> Result<Self> {
        let tokenizer = vocabulary.tokenizer().ok();
        Ok(Self {
            tokenizer,
            decoder: tokenizer.map(StreamingDecoder::new),
            stops: StopStrings::new(stops.iter().cloned())?,
            shows_special,
            parts: VecDeque::new(),
            text: String::new(),
        })
    }

    /// Returns true if a stop string has occurred.
    pub(crate) fn are_stopped(&self) -> bool {
        self.stops.is_found()
    }

    /// Adds a token, and returns the new text that can be shown.
    pub(crate) fn push(&mut self, token: u32) -> &str {
        let special = self.tokenizer.filter(|all| all.is_special(token));
        if let (Some(tokenizer), false) = (special, self.shows_special) {
            // A hidden token doesn't end an incomplete character. As in transformers and llama.cpp,
            // the tokens after it can complete the character.
            let name = tokenizer.piece(token).unwrap_or_default();
            return self.add(&String::from_utf8_lossy(name), false);
        }
        let piece = match &mut self.decoder {
            Some(decoder) => match decoder.push(token) {
                Ok(piece) => piece,
                // An unknown token ends an incomplete character, so the bytes after it begin a new
                // one.
                Err(_) => self.flush() + UNKNOWN,
            },
            None if self.text.is_empty() => token.to_string(),
            None => format!(" {token}"),
        };
        self.add(&piece, true)
    }

    /// Ends the text, and returns the rest that was held back.
    pub(crate) fn finish(&mut self) -> &str {
        let before = self.text.len();
        let rest = self.flush();
        self.add(&rest, true);
        let held = self.stops.finish();
        self.show(&held);
        &self.text[before..]
    }

    /// Adds a part of the text. If `is_shown` is false, the part is only compared with the stop
    /// strings. Returns the new text that can be shown.
    fn add(&mut self, part: &str, is_shown: bool) -> &str {
        let before = self.text.len();
        self.parts.push_back((part.len(), is_shown));
        let known = self.stops.push(part);
        self.show(&known);
        &self.text[before..]
    }

    /// Appends the next characters that have passed the search for stop strings, except hidden
    /// ones.
    fn show(&mut self, mut known: &str) {
        while let Some((length, is_shown)) = self.parts.front_mut().filter(|_| !known.is_empty()) {
            let (part, rest) = known.split_at(known.len().min(*length));
            if *is_shown {
                self.text.push_str(part);
            }
            *length -= part.len();
            known = rest;
            if *length == 0 {
                self.parts.pop_front();
            }
        }
    }

    /// Returns the incomplete character that the decoder holds back, and resets the decoder.
    fn flush(&mut self) -> String {
        let new = self.tokenizer.map(StreamingDecoder::new);
        let decoder = std::mem::replace(&mut self.decoder, new);
        decoder.map_or_else(String::new, StreamingDecoder::finish)
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
            let mut pieces = Pieces::new(&vocabulary, &[], false).unwrap();
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

    #[test]
    fn special_tokens_are_hidden_but_stop_strings_see_them() {
        let vocabulary = Vocabulary::new(ModelTokenizer::gpt2());
        let of = |text: &str, stops: &[&str], shows_special| {
            let stops: Vec<String> = stops.iter().map(|&stop| stop.into()).collect();
            let mut pieces = Pieces::new(&vocabulary, &stops, shows_special).unwrap();
            let mut shown = String::new();
            for id in vocabulary.encode(text).unwrap() {
                shown += pieces.push(id);
            }
            shown += pieces.finish();
            assert_eq!(shown, pieces.text);
            shown
        };
        let text = "a bell<|endoftext|> and <|endoftext|><|endoftext|>another";
        assert_eq!(of(text, &[], true), text);
        assert_eq!(of(text, &[], false), "a bell and another");
        assert_eq!(of(text, &["<|endoftext|> and"], false), "a bell");
        assert_eq!(of(text, &["<|endoftext|>", "zz"], true), "a bell");
        assert_eq!(of(text, &["|> and another"], false), "a bell and another");
        assert_eq!(
            of(text, &["> and <|endoftext|>a"], false),
            "a bell and another"
        );
        // Version 0.23.3 of the library tokenizers decodes these IDs to the crab as well, with
        // `decode(skip_special_tokens=True)`.
        let bytes = vocabulary.encode("\u{1f980}").unwrap();
        let mut pieces = Pieces::new(&vocabulary, &[], false).unwrap();
        for id in [&bytes[..1], &[50256], &bytes[1..]].concat() {
            pieces.push(id);
        }
        assert_eq!(pieces.text, "\u{1f980}");
    }
}
