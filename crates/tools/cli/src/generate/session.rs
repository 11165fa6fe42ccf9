//! One text that a model continues: its decoder, the random numbers, and how tokens are chosen and
//! ended.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use generate::{BatchStream, Decoder, FinishReason, GenerateOptions, Timings};
use torch_rng::TorchRng;

use super::options::GenerateArgs;
use super::pieces::Pieces;
use crate::ids::Given;
use crate::interrupt::Interrupt;
use crate::memory::check;
use crate::model::Found;
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
    /// Their text, up to a stop string.
    pub(crate) text: String,
    pub(crate) finish: FinishReason,
    pub(crate) timings: Timings,
}

impl<'m> Session<'m> {
    /// No text yet.
    ///
    /// # Errors
    /// If there is no memory for so many `texts_at_once`.
    pub(crate) fn new(
        args: &'m GenerateArgs,
        decoder: Decoder<'m>,
        vocabulary: &'m Vocabulary,
        texts_at_once: usize,
    ) -> Result<Self> {
        let model = decoder.model_config();
        check(&model.decoding_memory(texts_at_once, decoder.context_size())?)?;
        Ok(Self {
            args,
            vocabulary,
            decoder,
            rng: None,
            interrupt: Interrupt::default(),
        })
    }

    /// True if there is no text yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.decoder.batch() == 0
    }

    /// The ids of a turn of the user's.
    ///
    /// # Errors
    /// If the context has no room for the first one; of the others it is cropped.
    pub(crate) fn turn(&self, found: &Found, line: String) -> Result<Vec<u32>> {
        match self.is_empty() {
            true => self.args.prompt(found, Given::Text(line)),
            false => found.turn(&line),
        }
    }

    /// Adds to the text, or begins it.
    pub(crate) fn add(&mut self, ids: &[u32]) -> Result<()> {
        match self.is_empty() {
            true => self.begin(&[ids.to_vec()]),
            false => Ok(self.decoder.push(0, ids)?),
        }
    }

    /// Begins texts, in place of those that were there; one without a token begins behind the token
    /// that begins a text.
    ///
    /// # Errors
    /// If there is no such token.
    pub(crate) fn begin(&mut self, prompts: &[Vec<u32>]) -> Result<()> {
        let whole = prompts.iter().map(|ids| match self.vocabulary.special.bos.as_slice() {
            [] if ids.is_empty() => bail!(
                "the prompt is empty: expected at least one token, as this model has none that begins a text"
            ),
            bos if ids.is_empty() => Ok(bos),
            _ => Ok(&ids[..]),
        });
        let whole = whole.collect::<Result<Vec<_>>>()?;
        Ok(self.decoder.start(&whole)?)
    }

    /// Makes the generator, whose seed would else be told in the middle of the text.
    pub(crate) fn tell_seed(&mut self) {
        self.rng.get_or_insert_with(|| rng(self.args));
    }

    /// The seed of the tokens; none if none was drawn.
    pub(crate) fn seed(&self) -> Option<u64> {
        let drawn = self
            .rng
            .as_ref()
            .filter(|_| !self.args.sampling.is_greedy());
        drawn.map(|(seed, _)| *seed)
    }

    /// Continues the texts as the options say, each as it would be continued alone; `show` gets
    /// each piece as soon as it is known.
    ///
    /// # Errors
    /// If the logits are no numbers, or `show` fails.
    pub(crate) fn go_on(
        &mut self,
        show: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<Vec<Continued>> {
        self.tell_seed();
        let (seed, rng) = self.rng.take().context("the seed has been told")?;
        let mut rngs = vec![rng.clone(); self.decoder.batch()];
        let drawn = self.draw(&mut rngs, show);
        // One generator goes on through all samples and turns; of several prompts each has its own.
        let next = rngs.pop().filter(|_| self.args.input.prompts.is_none());
        self.rng = Some((seed, next.unwrap_or(rng)));
        drawn
    }

    /// Draws token after token of all texts, which share `show`.
    fn draw(
        &mut self,
        rngs: &mut [TorchRng],
        show: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<Vec<Continued>> {
        let (args, vocabulary) = (self.args, self.vocabulary);
        let options = GenerateOptions {
            sampling: args.sampling.of(self.decoder.model_config().vocab_size),
            max_new_tokens: args.length.max_new_tokens,
            stop_ids: args.stop_ids(vocabulary),
        };
        let text = |_: &TorchRng| -> Result<_> {
            Ok((Vec::new(), Pieces::new(vocabulary, &args.length.stop)?))
        };
        let mut texts = rngs.iter().map(text).collect::<Result<Vec<_>>>()?;
        let mut stream = BatchStream::new(&mut self.decoder, options, rngs)?;
        while let Some(step) = stream.next() {
            for (row, token) in step? {
                let (tokens, pieces) = &mut texts[row];
                tokens.push(token);
                show(pieces.push(token))?;
                if let Some(stop) = pieces.stopped_at() {
                    stream.end(row, FinishReason::StopString(stop.to_owned()));
                }
            }
            if self.interrupt.asked() {
                break;
            }
        }
        let mut continued = Vec::with_capacity(texts.len());
        for (row, (tokens, mut pieces)) in texts.into_iter().enumerate() {
            show(pieces.finish())?;
            let finish = stream.finish_reason(row).cloned();
            continued.push(Continued {
                tokens,
                text: pieces.text,
                finish: finish.unwrap_or(FinishReason::MaxNewTokens),
                timings: stream.timings(),
            });
        }
        Ok(continued)
    }
}

/// The generator that draws tokens, and its seed: the one asked for, or one that is told.
fn rng(args: &GenerateArgs) -> (u64, TorchRng) {
    let seed = args.sampling.seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = u64::from(now.unwrap_or(Duration::ZERO).subsec_nanos());
        if !args.sampling.is_greedy() && !args.output.json {
            note(&format!("seed {seed}"));
        }
        seed
    });
    (
        seed,
        TorchRng::manual_seed(seed).with_build(args.sampling.build),
    )
}
