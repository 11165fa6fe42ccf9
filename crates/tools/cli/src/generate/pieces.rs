//! New tokens as text, piece by piece, up to a stop string. Special tokens can be hidden, but a
//! stop string may still contain one.

use std::collections::VecDeque;

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
    shows_special: bool,
    /// Lengths of the parts of the text that haven't come out of `stops`, and whether each is
    /// shown.
    parts: VecDeque<(usize, bool)>,
    pub(crate) text: String,
}

impl<'v> Pieces<'v> {
    /// # Errors
    /// If a stop string is empty.
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

    /// True if a stop string has come.
    pub(crate) fn are_stopped(&self) -> bool {
        self.stops.is_found()
    }

    /// Adds a token and returns the text that it completes.
    pub(crate) fn push(&mut self, token: u32) -> &str {
        let special = self.tokenizer.filter(|all| all.is_special(token));
        if let (Some(tokenizer), false) = (special, self.shows_special) {
            // A character that has begun may go on after it, as in transformers and llama.cpp.
            let name = tokenizer.piece(token).unwrap_or_default();
            return self.add(&String::from_utf8_lossy(name), false);
        }
        let piece = match &mut self.decoder {
            Some(decoder) => match decoder.push(token) {
                Ok(piece) => piece,
                // It ends the incomplete character; the following bytes are separate.
                Err(_) => self.flush() + UNKNOWN,
            },
            None if self.text.is_empty() => token.to_string(),
            None => format!(" {token}"),
        };
        self.add(&piece, true)
    }

    /// Ends the text and returns its rest, which was held back.
    pub(crate) fn finish(&mut self) -> &str {
        let before = self.text.len();
        let rest = self.flush();
        self.add(&rest, true);
        let held = self.stops.finish();
        self.show(&held);
        &self.text[before..]
    }

    /// Adds a part of the text, which is shown or only compared with the stop strings. Returns the
    /// new text that can be shown.
    fn add(&mut self, part: &str, is_shown: bool) -> &str {
        let before = self.text.len();
        self.parts.push_back((part.len(), is_shown));
        let known = self.stops.push(part);
        self.show(&known);
        &self.text[before..]
    }

    /// Appends the next characters of the text, if they are shown.
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

    /// Returns the rest that the decoder held, and resets it.
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
        // tokenizers 0.23.3, decode(skip_special_tokens=True) of these ids: the crab.
        let bytes = vocabulary.encode("\u{1f980}").unwrap();
        let mut pieces = Pieces::new(&vocabulary, &[], false).unwrap();
        for id in [&bytes[..1], &[50256], &bytes[1..]].concat() {
            pieces.push(id);
        }
        assert_eq!(pieces.text, "\u{1f980}");
    }
}
