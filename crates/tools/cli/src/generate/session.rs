//! One text that a model continues: its decoder, the random numbers, and how tokens are chosen and ended.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use generate::{
    BeamConfig, Decoder, DecoderConfig, FinishReason, GenerateOptions, PastContext, Precision,
    Timings, TokenStream, beam_search,
};
use gpt::GptModel;
use torch_rng::TorchRng;

use super::options::{GenerateArgs, WhenFull};
use super::pieces::Pieces;
use crate::interrupt::Interrupt;
use crate::memory::check;
use crate::output::note;
use crate::vocabulary::Vocabulary;

/// A text and what continues it.
pub(crate) struct Session<'m> {
    args: &'m GenerateArgs,
    pub(crate) vocabulary: &'m Vocabulary,
    decoder: Decoder<'m>,
    /// Made, and its seed told, before the first token is drawn.
    rng: Option<(u64, TorchRng)>,
    /// Ends a text that is being drawn.
    pub(crate) interrupt: Interrupt,
}

/// A continuation that has ended.
pub(crate) struct Continued {
    pub(crate) tokens: Vec<u32>,
    /// What they say, up to a stop string.
    pub(crate) text: String,
    pub(crate) finish: FinishReason,
    pub(crate) timings: Timings,
}

impl<'m> Session<'m> {
    /// No text yet.
    ///
    /// # Errors
    /// If the options don't suit the model.
    pub(crate) fn new(
        args: &'m GenerateArgs,
        model: &'m GptModel,
        vocabulary: &'m Vocabulary,
    ) -> Result<Self> {
        let config = DecoderConfig {
            precision: args.precision,
            context_size: args.context_size,
            past_context: match args.past_context {
                Some(WhenFull::Stop) => PastContext::Stop,
                Some(WhenFull::Crop) | None => PastContext::Crop,
            },
        };
        let vocab_size = model.config().vocab_size;
        // Before anything is shown.
        args.sampling(vocab_size).check()?;
        if let Some(beams) = args.beams(args.stop_ids(vocabulary)) {
            beams.check(vocab_size)?;
        }
        let tokens = args.context_size.unwrap_or(model.config().context_length);
        let needed = model.config().decoding_memory(
            bits(args.precision),
            args.beams.unwrap_or(1),
            tokens.min(model.config().context_length),
        );
        check(&needed?)?;
        Ok(Self {
            args,
            vocabulary,
            decoder: Decoder::with_config(model, config)?,
            rng: None,
            interrupt: Interrupt::default(),
        })
    }

    /// Whether there is no text yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.decoder.batch() == 0
    }

    /// Adds to the text, or begins it.
    pub(crate) fn add(&mut self, ids: &[u32]) -> Result<()> {
        match self.is_empty() {
            true => self.begin(ids),
            false => Ok(self.decoder.push(0, ids)?),
        }
    }

    /// Begins a text, in place of one that was there.
    ///
    /// # Errors
    /// If the prompt has no token, or more than the context holds.
    pub(crate) fn begin(&mut self, ids: &[u32]) -> Result<()> {
        let room = self.decoder.context_size();
        if ids.is_empty() {
            bail!("the prompt is empty: expected at least one token");
        }
        if ids.len() > room && self.args.past_context != Some(WhenFull::Crop) {
            bail!(
                "the prompt has {} tokens, but the context has room for {room}; with --past-context crop the model sees its end",
                ids.len()
            );
        }
        Ok(self.decoder.start(&[ids])?)
    }

    /// Makes the generator, whose seed would else be told in the middle of the text.
    pub(crate) fn tell_seed(&mut self) {
        self.rng.get_or_insert_with(|| rng(self.args));
    }

    /// What the tokens were drawn with; none if none was drawn.
    pub(crate) fn seed(&self) -> Option<u64> {
        let drawn = self.rng.as_ref().filter(|_| !self.args.is_greedy());
        drawn.map(|(seed, _)| *seed)
    }

    /// Continues the text as the options say; `show` gets each piece as soon as it is known.
    pub(crate) fn go_on(
        &mut self,
        show: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<Continued> {
        match self.args.beams(self.args.stop_ids(self.vocabulary)) {
            Some(config) => {
                let best = self.beam(&config)?;
                show(&best.text)?;
                Ok(best)
            }
            None => self.draw(show),
        }
    }

    /// Draws token after token.
    fn draw(&mut self, show: &mut dyn FnMut(&str) -> io::Result<()>) -> Result<Continued> {
        let options = GenerateOptions {
            sampling: self.args.sampling(self.decoder.model().config().vocab_size),
            max_new_tokens: self.args.max_new_tokens,
            stop_ids: self.args.stop_ids(self.vocabulary),
        };
        let (_, rng) = self.rng.get_or_insert_with(|| rng(self.args));
        let mut stream = TokenStream::new(&mut self.decoder, options, rng)?;
        let mut pieces = Pieces::new(self.vocabulary, &self.args.stop)?;
        let mut tokens = Vec::new();
        for token in &mut stream {
            let token = token?;
            tokens.push(token);
            show(pieces.push(token))?;
            if pieces.stopped_at().is_some() || self.interrupt.asked() {
                break;
            }
        }
        show(pieces.finish())?;
        let stopped = pieces.stopped_at().map(ToOwned::to_owned);
        let finish = match (stopped, stream.finish_reason()) {
            (Some(stop), _) => FinishReason::StopString(stop),
            (None, Some(reason)) => reason.clone(),
            (None, None) => FinishReason::MaxNewTokens,
        };
        Ok(Continued {
            tokens,
            text: pieces.text,
            finish,
            timings: stream.timings(),
        })
    }

    /// The best of several continuations; it is known at the end only.
    fn beam(&mut self, config: &BeamConfig) -> Result<Continued> {
        let prompt_tokens = self.decoder.pending(0);
        let began = Instant::now();
        self.decoder.advance()?;
        let prompt_time = began.elapsed();
        let began = Instant::now();
        let best = beam_search(&mut self.decoder, config)?.into_iter().next();
        let (mut tokens, mut finish) = match best {
            Some(best) => (best.tokens, best.finish),
            None => (Vec::new(), FinishReason::MaxNewTokens),
        };
        let mut pieces = Pieces::new(self.vocabulary, &self.args.stop)?;
        for at in 0..tokens.len() {
            pieces.push(tokens[at]);
            if let Some(stop) = pieces.stopped_at() {
                finish = FinishReason::StopString(stop.to_owned());
                tokens.truncate(at + 1);
                break;
            }
        }
        pieces.finish();
        Ok(Continued {
            text: pieces.text,
            timings: Timings {
                prompt_tokens,
                prompt_time,
                decoded_tokens: tokens.len(),
                decode_time: began.elapsed(),
            },
            tokens,
            finish,
        })
    }
}

/// Bits that a rounded weight takes, with its share of a scale; none if it is the model's own.
fn bits(precision: Precision) -> Option<usize> {
    (precision != Precision::F32).then(|| precision.bits())
}

/// The generator that draws tokens, and its seed: the one asked for, or one that is told.
fn rng(args: &GenerateArgs) -> (u64, TorchRng) {
    let seed = args.seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = u64::from(now.unwrap_or(Duration::ZERO).subsec_nanos());
        if !args.is_greedy() && !args.json {
            note(&format!("seed {seed}"));
        }
        seed
    });
    (seed, TorchRng::manual_seed(seed).with_build(args.build))
}
