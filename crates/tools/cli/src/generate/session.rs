//! A text that the user and the model continue in turns.

use std::io;

use anyhow::Result;
use generate::{Decoder, DecoderWeights, FinishReason, Timings, TokenStream};
use serde::Serialize;
use torch_rng::TorchRng;

use super::options::{GenerateArgs, Settings};
use super::pieces::Pieces;
use crate::model::vocabulary::Vocabulary;
use crate::terminal::interrupt::Interrupt;

/// A text and its continuation.
pub(crate) struct Session<'m> {
    args: &'m GenerateArgs,
    settings: &'m Settings,
    vocabulary: &'m Vocabulary,
    decoder: Decoder<&'m DecoderWeights>,
    /// Shared by all turns.
    rng: TorchRng,
    /// Ends an answer.
    interrupt: &'m Interrupt,
}

/// A continuation that has ended, as `--json` prints it.
#[derive(Serialize)]
pub(crate) struct Continued<'t> {
    /// The new ids alone.
    pub(crate) tokens: &'t [u32],
    /// Their text, up to a stop string.
    pub(crate) text: &'t str,
    /// `length`, `stop` or `context`.
    pub(crate) finish: &'static str,
    /// The seed that this text is drawn with; none if nothing is drawn.
    pub(crate) seed: Option<u64>,
}

/// Returns why a continuation has ended, as `--json` calls it.
pub(crate) fn finish(pieces: &Pieces<'_>, reason: Option<FinishReason>) -> &'static str {
    match reason {
        _ if pieces.are_stopped() => "stop",
        Some(FinishReason::StopToken(_)) => "stop",
        Some(FinishReason::ContextFull) => "context",
        _ => "length",
    }
}

impl<'m> Session<'m> {
    /// No text yet.
    ///
    /// # Errors
    /// If the context size isn't one of the model's.
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

    /// True if the text is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.decoder.tokens().is_empty()
    }

    /// Adds to the text.
    pub(crate) fn add(&mut self, ids: &[u32]) -> Result<()> {
        Ok(self.decoder.push(ids)?)
    }

    /// Continues the text; `show` gets each piece as soon as it is known. Returns the times.
    ///
    /// # Errors
    /// If a logit isn't a number, or `show` fails.
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
