//! New text piece by piece: tokens turned into whole characters, and stopped at stop strings.

use tokenizer::{Gpt2Tokenizer, StreamingDecoder};

use crate::{FinishReason, GenerateError, StopStrings, Timings, TokenStream};

/// What one new token added to the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The token; `None` for text that was held back until the end.
    pub token: Option<u32>,
    /// The characters that can be shown now; none while a character or what may be a stop string is incomplete.
    pub text: String,
}

/// A whole generated text.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The new tokens, those of a stop string included.
    pub tokens: Vec<u32>,
    /// What they say, up to the stop string.
    pub text: String,
    /// Why it ended.
    pub finish: FinishReason,
    /// How long it took.
    pub timings: Timings,
}

/// An iterator over the pieces of a text as they are generated.
#[derive(Debug)]
pub struct TextStream<'s, 'm> {
    tokens: TokenStream<'s, 'm>,
    decoder: Option<StreamingDecoder>,
    stops: StopStrings,
    finish: Option<FinishReason>,
}

impl<'s, 'm> TextStream<'s, 'm> {
    /// The text of these tokens, up to a stop string.
    pub fn new(tokens: TokenStream<'s, 'm>, tokenizer: &Gpt2Tokenizer, stops: StopStrings) -> Self {
        Self {
            tokens,
            decoder: Some(StreamingDecoder::new(tokenizer)),
            stops,
            finish: None,
        }
    }

    /// Why the text ended; `None` until it has.
    pub fn finish_reason(&self) -> Option<&FinishReason> {
        self.finish.as_ref()
    }

    /// How long it took so far.
    pub fn timings(&self) -> Timings {
        self.tokens.timings()
    }

    /// Generates all of it.
    ///
    /// # Errors
    /// If the model's logits are not numbers, or it chooses a token that the tokenizer doesn't know.
    pub fn finish(mut self) -> Result<Generated, GenerateError> {
        let (mut tokens, mut text) = (Vec::new(), String::new());
        for piece in &mut self {
            let piece = piece?;
            tokens.extend(piece.token);
            text.push_str(&piece.text);
        }
        Ok(Generated {
            tokens,
            text,
            timings: self.timings(),
            finish: self
                .finish
                .expect("set when the pieces end without an error"),
        })
    }
}

impl Iterator for TextStream<'_, '_> {
    type Item = Result<Piece, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        let decoder = self.decoder.as_mut()?;
        let Some(token) = self.tokens.next() else {
            let rest = self.decoder.take().map(StreamingDecoder::finish)?;
            self.finish = self.tokens.finish_reason().cloned();
            let text = self.stops.push(&rest) + &self.stops.finish();
            return (!text.is_empty()).then_some(Ok(Piece { token: None, text }));
        };
        let text = token.and_then(|token| Ok((token, decoder.push(token)?)));
        let (token, text) = match text {
            Ok(both) => both,
            Err(error) => {
                self.decoder = None;
                return Some(Err(error));
            }
        };
        let text = self.stops.push(&text);
        if let Some(stop) = self.stops.found() {
            self.finish = Some(FinishReason::StopString(stop.to_owned()));
            self.decoder = None;
        }
        Some(Ok(Piece {
            token: Some(token),
            text,
        }))
    }
}
