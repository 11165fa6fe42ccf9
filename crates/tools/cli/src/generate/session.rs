//! Implements interactive sessions, in which the user and the model take turns extending a text.

use std::io;

use anyhow::Result;
use generate::{Decoder, DecoderWeights, FinishReason, Timings, TokenStream};
use serde::Serialize;
use torch_rng::TorchRng;

use super::options::{GenerateArgs, Settings};
use super::pieces::Pieces;
use crate::model::vocabulary::Vocabulary;
use crate::terminal::interrupt::Interrupt;

/// An interactive session. The decoder contains the text, to which the user and the model add in
/// turn.
pub(crate) struct Session<'m> {
    args: &'m GenerateArgs,
    settings: &'m Settings,
    vocabulary: &'m Vocabulary,
    decoder: Decoder<&'m DecoderWeights>,
    /// Random number generator that is used for the whole session.
    rng: TorchRng,
    /// Handler of Ctrl-C. If the model is generating text, Ctrl-C stops it.
    interrupt: &'m Interrupt,
}

/// The object that `--json` prints for a text that has ended.
#[derive(Serialize)]
pub(crate) struct Continued<'t> {
    /// IDs of the new tokens, without the prompt.
    pub(crate) tokens: &'t [u32],
    /// Text of the new tokens. If a stop string ended the text, neither the stop string nor the
    /// text after it is included.
    pub(crate) text: &'t str,
    /// Reason why the text has ended: `length`, `stop` or `context`.
    pub(crate) finish: &'static str,
    /// Seed with which the text was generated, or `None` if no random numbers were used.
    pub(crate) seed: Option<u64>,
}

/// Returns the reason why a text has ended: `stop`, `context` or `length`. With `--json`, this word
/// is part of the output.
pub(crate) fn finish(pieces: &Pieces<'_>, reason: Option<FinishReason>) -> &'static str {
    match reason {
        _ if pieces.are_stopped() => "stop",
        Some(FinishReason::StopToken(_)) => "stop",
        Some(FinishReason::ContextFull) => "context",
        _ => "length",
    }
}

impl<'m> Session<'m> {
    /// Creates a session in which the text is empty.
    ///
    /// # Errors
    /// Returns an error if the model doesn't support the requested context size.
    pub(crate) fn new(
        args: &'m GenerateArgs,
        settings: &'m Settings,
        vocabulary: &'m Vocabulary,
        weights: &'m DecoderWeights,
        interrupt: &'m Interrupt,
    ) -> Result<Self> {
        let rng = TorchRng::manual_seed(settings.seed);
        Ok(Self {
            args,
            settings,
            vocabulary,
            decoder: Decoder::with_config(weights, args.decoder())?,
            rng: rng.with_build(args.sampling.build),
            interrupt,
        })
    }

    /// Returns true if the session has no text yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.decoder.tokens().is_empty()
    }

    /// Adds tokens to the text.
    pub(crate) fn add(&mut self, ids: &[u32]) -> Result<()> {
        Ok(self.decoder.push(ids)?)
    }

    /// Lets the model continue the text, and passes each piece of new text to `show` as soon as it
    /// is available. Returns how much time was spent on processing the prompt and on generating new
    /// tokens.
    ///
    /// # Errors
    /// Returns an error if the model's output is NaN or infinite, or if `show` fails.
    pub(crate) fn continue_text(
        &mut self,
        show: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<Timings> {
        let options = self.settings.options(self.decoder.tokens().len())?;
        let special = self.args.output.special;
        let mut pieces = Pieces::new(self.vocabulary, &self.settings.stops, special)?;
        let mut stream = TokenStream::new(&mut self.decoder, options, &mut self.rng)?;
        for token in stream.by_ref() {
            show(pieces.push(token?))?;
            if pieces.are_stopped() || self.interrupt.asked() {
                break;
            }
        }
        show(pieces.finish())?;
        Ok(stream.timings())
    }
}
