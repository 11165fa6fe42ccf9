//! Converts generated tokens to text, one token at a time, until a stop string occurs.
//!
//! By default, special tokens such as `<|endoftext|>` aren't shown. Nevertheless, a stop string may
//! contain the name of a special token. Stop strings are therefore searched for in the text with
//! all special tokens, which are removed only after the search.

use std::collections::VecDeque;

use anyhow::Result;
use generate::StopStrings;
use model_tokenizer::ModelTokenizer;
use tokenizer::StreamingDecoder;

use crate::model::vocabulary::Vocabulary;

/// Text that is shown in place of a token ID that the tokenizer doesn't know. A model can generate
/// such an ID if its vocabulary is padded, so that it is larger than the tokenizer's.
const UNKNOWN: &str = "\u{fffd}";

/// The text that has been generated so far.
pub(crate) struct Pieces<'v> {
    /// Tokenizer of the model. If the model has none, the text consists of token IDs, separated by
    /// spaces.
    tokenizer: Option<&'v ModelTokenizer>,
    /// Decoder that converts token IDs to text. It holds back the first bytes of a character until
    /// the whole character has been generated. It is `None` if the model has no tokenizer.
    decoder: Option<StreamingDecoder<'v, ModelTokenizer>>,
    stops: StopStrings,
    shows_special: bool,
    /// Segments of the text that aren't shown yet because they may be the beginning of a stop
    /// string. Each element contains the length of a segment in bytes, and whether the segment will
    /// be shown. Segments that won't be shown are the names of hidden special tokens.
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

    /// Adds a generated token and returns the text that can now be shown. Text isn't returned as
    /// long as it may be the beginning of a stop string or part of an incomplete character.
    pub(crate) fn push(&mut self, token: u32) -> &str {
        let special = self.tokenizer.filter(|all| all.is_special(token));
        if let (Some(tokenizer), false) = (special, self.shows_special) {
            // A hidden token can occur between two tokens that together form a character. As in
            // transformers and llama.cpp, the decoder isn't reset by the hidden token, so the
            // character can still be completed.
            let name = tokenizer.piece(token).unwrap_or_default();
            return self.add(&String::from_utf8_lossy(name), false);
        }
        let piece = match &mut self.decoder {
            Some(decoder) => match decoder.push(token) {
                Ok(piece) => piece,
                // The tokenizer doesn't know this token ID. If the last character isn't complete
                // yet, it stays incomplete and is shown as U+FFFD, because bytes after an unknown
                // token always begin a new character.
                Err(_) => self.flush() + UNKNOWN,
            },
            None if self.text.is_empty() => token.to_string(),
            None => format!(" {token}"),
        };
        self.add(&piece, true)
    }

    /// Ends the generated text, and returns the part of it that hasn't been shown to the user yet.
    /// This part was held back because it could have been the beginning of a stop string or part of
    /// an incomplete character.
    pub(crate) fn finish(&mut self) -> &str {
        let before = self.text.len();
        let rest = self.flush();
        self.add(&rest, true);
        let held = self.stops.finish();
        self.show(&held);
        &self.text[before..]
    }

    /// Adds a segment to the text and returns the text that can now be shown. If `is_shown` is
    /// false, the segment is searched for stop strings, but is never shown.
    fn add(&mut self, part: &str, is_shown: bool) -> &str {
        let before = self.text.len();
        self.parts.push_back((part.len(), is_shown));
        let known = self.stops.push(part);
        self.show(&known);
        &self.text[before..]
    }

    /// Moves the next part of the generated text, `known`, from the text that is held back to the
    /// text that is shown to the user, but omits hidden special tokens. `known` must not contain
    /// any part of a stop string.
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

    /// Resets the decoder of the generated text. If the last bytes that it received are an
    /// incomplete character, returns U+FFFD in its place. Otherwise, returns an empty string.
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
        // In this test, a special token occurs between the tokens of a crab emoji. Version 0.23.3
        // of Hugging Face's `tokenizers` library also decodes such a sequence to the emoji if
        // `skip_special_tokens=True` is passed to `decode`.
        let bytes = vocabulary.encode("\u{1f980}").unwrap();
        let mut pieces = Pieces::new(&vocabulary, &[], false).unwrap();
        for id in [&bytes[..1], &[50256], &bytes[1..]].concat() {
            pieces.push(id);
        }
        assert_eq!(pieces.text, "\u{1f980}");
    }
}
