//! Converts generated tokens to text, one token at a time, until a stop string occurs.
//!
//! Special tokens such as `<|endoftext|>` are hidden by default, but a stop string may contain the
//! name of such a token. All text is therefore searched for stop strings first, and hidden tokens
//! are removed from it afterwards.

use std::collections::VecDeque;

use anyhow::Result;
use generate::StopStrings;
use model_tokenizer::ModelTokenizer;
use tokenizer::StreamingDecoder;

use crate::model::vocabulary::Vocabulary;

/// Text that is shown in place of a token ID that the tokenizer doesn't know. A model can generate
/// such IDs if its vocabulary is padded to more tokens than the tokenizer has.
const UNKNOWN: &str = "\u{fffd}";

/// The text of the tokens that have been generated so far.
pub(crate) struct Pieces<'v> {
    /// Tokenizer of the model. If there is none, the text consists of token IDs, separated by
    /// spaces.
    tokenizer: Option<&'v ModelTokenizer>,
    /// Decoder, which holds back the bytes of an incomplete character.
    decoder: Option<StreamingDecoder<'v, ModelTokenizer>>,
    stops: StopStrings,
    shows_special: bool,
    /// Parts of the text that `stops` still holds back, because they may belong to a stop string.
    /// Each part is described by its length in bytes and by whether it will be shown.
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

    /// Adds a generated token and returns the text that can now be shown. Text is held back while
    /// it may belong to a stop string or to an incomplete character.
    pub(crate) fn push(&mut self, token: u32) -> &str {
        let special = self.tokenizer.filter(|all| all.is_special(token));
        if let (Some(tokenizer), false) = (special, self.shows_special) {
            // The bytes of a character may be interrupted by a hidden token. As in transformers and
            // llama.cpp, the tokens after it can still complete the character.
            let name = tokenizer.piece(token).unwrap_or_default();
            return self.add(&String::from_utf8_lossy(name), false);
        }
        let piece = match &mut self.decoder {
            Some(decoder) => match decoder.push(token) {
                Ok(piece) => piece,
                // An unknown token ends an incomplete character, so the bytes after the token begin
                // a new character.
                Err(_) => self.flush() + UNKNOWN,
            },
            None if self.text.is_empty() => token.to_string(),
            None => format!(" {token}"),
        };
        self.add(&piece, true)
    }

    /// Ends the text and returns the part of it that was held back.
    pub(crate) fn finish(&mut self) -> &str {
        let before = self.text.len();
        let rest = self.flush();
        self.add(&rest, true);
        let held = self.stops.finish();
        self.show(&held);
        &self.text[before..]
    }

    /// Adds a part of the text and returns the text that can now be shown. If `is_shown` is false,
    /// the part is only searched for stop strings and never shown.
    fn add(&mut self, part: &str, is_shown: bool) -> &str {
        let before = self.text.len();
        self.parts.push_back((part.len(), is_shown));
        let known = self.stops.push(part);
        self.show(&known);
        &self.text[before..]
    }

    /// Appends `known`, which isn't part of a stop string, to the shown text, but leaves out hidden
    /// tokens.
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

    /// Resets the decoder. Returns U+FFFD if the decoder has held back an incomplete character, and
    /// an empty string otherwise.
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
        // Version 0.23.3 of Hugging Face's `tokenizers` library also decodes these IDs to the crab
        // emoji, if `skip_special_tokens=True` is passed to `decode`.
        let bytes = vocabulary.encode("\u{1f980}").unwrap();
        let mut pieces = Pieces::new(&vocabulary, &[], false).unwrap();
        for id in [&bytes[..1], &[50256], &bytes[1..]].concat() {
            pieces.push(id);
        }
        assert_eq!(pieces.text, "\u{1f980}");
    }
}
