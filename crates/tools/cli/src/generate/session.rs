//! One text that a model continues: its decoder, the random numbers, and how tokens are chosen and
//! ended.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use generate::{Decoder, FinishReason, GenerateOptions, Timings, TokenStream};
use serde::Serialize;
use torch_rng::TorchRng;

use super::options::{GenerateArgs, MaxTokens, Settings};
use super::pieces::Pieces;
use crate::model::vocabulary::Vocabulary;
use crate::terminal::interrupt::Interrupt;
use crate::terminal::memory::check;
use crate::terminal::output::note;

/// A text and its continuation.
pub(crate) struct Session<'m> {
    args: &'m GenerateArgs,
    settings: Settings,
    vocabulary: &'m Vocabulary,
    decoder: Decoder,
    seed: u64,
    /// Shared by all samples and turns.
    rng: TorchRng,
    /// Ends a text that is being drawn.
    pub(crate) interrupt: Interrupt,
}

/// A continuation that has ended, as `--json` prints it.
#[derive(Serialize)]
pub(crate) struct Continued {
    /// The new ids alone.
    tokens: Vec<u32>,
    /// Their text, up to a stop string.
    text: String,
    /// `length`, `stop` or `context`.
    finish: &'static str,
    /// The seed that all samples are drawn with; none if nothing is drawn.
    seed: Option<u64>,
    #[serde(skip)]
    pub(crate) timings: Timings,
}

impl<'m> Session<'m> {
    /// No text yet.
    ///
    /// # Errors
    /// If there isn't enough memory for a text.
    pub(crate) fn new(
        args: &'m GenerateArgs,
        settings: Settings,
        decoder: Decoder,
        vocabulary: &'m Vocabulary,
    ) -> Result<Self> {
        let model = decoder.model_config();
        check(&model.decoding_memory(decoder.context_size())?)?;
        let now = || SystemTime::now().duration_since(UNIX_EPOCH);
        let new_seed = || now().map_or(0, |now| now.subsec_nanos().into());
        let seed = args.sampling.seed.unwrap_or_else(new_seed);
        Ok(Self {
            args,
            settings,
            vocabulary,
            decoder,
            seed,
            rng: TorchRng::manual_seed(seed).with_build(args.sampling.build),
            interrupt: Interrupt::default(),
        })
    }

    /// True if random numbers choose the tokens.
    fn draws(&self) -> bool {
        self.settings.sampling.temperature != 0.0
    }

    /// The maximum number of tokens that the next continuation may have.
    ///
    /// # Errors
    /// If the text already has the length that its folder allows, which transformers rejects, too.
    fn max_new_tokens(&self) -> Result<usize> {
        let tokens = self.decoder.tokens().len();
        match self.settings.length {
            MaxTokens::New(most) => Ok(most),
            MaxTokens::All(most) if tokens < most => Ok(most - tokens),
            MaxTokens::All(most) => bail!(
                "the text has {tokens} tokens, but max_length in the folder's generation_config.json is {most}; --max-new-tokens overrides it"
            ),
        }
    }

    /// True if the text is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.decoder.tokens().is_empty()
    }

    /// Replaces the text; without a token, it begins with the beginning token.
    ///
    /// # Errors
    /// If there is no such token.
    pub(crate) fn begin(&mut self, ids: &[u32]) -> Result<()> {
        let ids = match ids {
            [] => self.vocabulary.special.bos.as_slice(),
            ids => ids,
        };
        if ids.is_empty() {
            bail!(
                "the prompt is empty: at least one token is needed, because this model has no beginning token"
            );
        }
        Ok(self.decoder.start(ids)?)
    }

    /// Adds to the text.
    pub(crate) fn add(&mut self, ids: &[u32]) -> Result<()> {
        Ok(self.decoder.push(ids)?)
    }

    /// Prints the seed on standard error, unless the user named it or nothing is drawn.
    pub(crate) fn note_seed(&self) {
        if self.args.sampling.seed.is_none() && self.draws() {
            note(&format!("seed {}", self.seed));
        }
    }

    /// Continues the text with the options; `show` gets each piece as soon as it is known.
    ///
    /// # Errors
    /// If a logit isn't a number, or `show` fails.
    pub(crate) fn continue_text(
        &mut self,
        show: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<Continued> {
        let args = self.args;
        let options = GenerateOptions {
            sampling: self.settings.sampling,
            max_new_tokens: self.max_new_tokens()?,
            stop_ids: args.stop_ids(self.vocabulary),
        };
        let mut pieces = Pieces::new(self.vocabulary, &self.settings.stops, args.output.special)?;
        let (mut tokens, draws) = (Vec::new(), self.draws());
        let mut stream = TokenStream::new(&mut self.decoder, options, &mut self.rng)?;
        for token in stream.by_ref() {
            let token = token?;
            tokens.push(token);
            show(pieces.push(token))?;
            if pieces.are_stopped() || self.interrupt.asked() {
                break;
            }
        }
        show(pieces.finish())?;
        Ok(Continued {
            tokens,
            finish: match stream.finish_reason() {
                _ if pieces.are_stopped() => "stop",
                Some(FinishReason::StopToken(_)) => "stop",
                Some(FinishReason::ContextFull) => "context",
                _ => "length",
            },
            text: pieces.text,
            seed: draws.then_some(self.seed),
            timings: stream.timings(),
        })
    }
}
