//! Texts that the model continues together: the samples of one or several prompts.
//!
//! A step reads the weights once for all texts, which takes hardly longer than for one. Each text
//! depends only on its prompt and its seed, so the other texts don't change it.
//! Results are printed in order: the first text that hasn't ended is shown as it grows, and the
//! texts after it are printed when their turn comes.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use generate::{
    Decoder, DecoderState, DecoderWeights, FinishReason, Slot, StreamEvent, Timings, TokenStreams,
};
use torch_rng::TorchRng;

use super::options::{GenerateArgs, Settings, TOGETHER};
use super::pieces::Pieces;
use super::session::{Continued, finish};
use super::{note_speed, shown};
use crate::model::vocabulary::Vocabulary;
use crate::terminal::output::{print, print_json, print_text};

/// Stands between two texts, as nanoGPT prints it.
const BETWEEN: &str = "---------------\n";

/// Texts on their way to standard output.
pub(crate) struct Texts<'m> {
    args: &'m GenerateArgs,
    settings: &'m Settings,
    vocabulary: &'m Vocabulary,
    weights: &'m DecoderWeights,
    /// The prompts, as the user gave them. Each has the same number of samples.
    prompts: &'m [Vec<u32>],
    streams: TokenStreams<'m, &'m DecoderWeights>,
    slots: BTreeMap<Slot, usize>,
    /// The text of the prompt whose samples are joining, without its last token.
    begun: DecoderState,
    /// Texts that have joined and aren't printed yet, in order.
    texts: VecDeque<Text<'m>>,
    /// Number of texts that are printed.
    printed: usize,
    timings: Timings,
}

/// A text that is computed, or waits to be printed.
struct Text<'m> {
    prompt: &'m [u32],
    seed: u64,
    tokens: Vec<u32>,
    pieces: Pieces<'m>,
    /// Number of bytes that are shown; `None` before the prompt is.
    shown: Option<usize>,
    /// The reason why it has ended.
    finish: Option<&'static str>,
}

impl Text<'_> {
    fn end(&mut self, reason: Option<FinishReason>) {
        self.pieces.finish();
        self.finish = Some(finish(&self.pieces, reason));
    }
}

impl<'m> Texts<'m> {
    pub(crate) fn new(
        args: &'m GenerateArgs,
        settings: &'m Settings,
        vocabulary: &'m Vocabulary,
        weights: &'m DecoderWeights,
        prompts: &'m [Vec<u32>],
    ) -> Self {
        Self {
            args,
            settings,
            vocabulary,
            weights,
            prompts,
            streams: TokenStreams::new(weights),
            slots: BTreeMap::new(),
            begun: DecoderState::default(),
            texts: VecDeque::new(),
            printed: 0,
            timings: Timings::default(),
        }
    }

    /// Computes and prints all texts.
    ///
    /// # Errors
    /// If a logit isn't a number, or standard output fails.
    pub(crate) fn run(mut self) -> Result<()> {
        let all = self.prompts.len() * self.args.length.num_samples.0;
        while self.printed < all {
            let mut joined = self.printed + self.texts.len();
            while joined < all && self.streams.len() < TOGETHER {
                self.join(joined)?;
                joined += 1;
            }
            self.step()?;
            self.show()?;
        }
        if !self.args.output.json {
            note_speed(&self.timings);
        }
        Ok(())
    }

    /// Adds text `index` to those that are computed.
    fn join(&mut self, index: usize) -> Result<()> {
        let samples = self.args.length.num_samples.0;
        let (of, sample) = (index / samples, index % samples);
        let prompt = &self.prompts[of];
        let seed = self.settings.seed.wrapping_add(sample as u64);
        let special = self.args.output.special;
        self.texts.push_back(Text {
            prompt,
            seed,
            tokens: Vec::new(),
            pieces: Pieces::new(self.vocabulary, &self.settings.stops, special)?,
            shown: None,
            finish: None,
        });
        self.show()?; // the first prompt, before anything is computed
        let ids = self.vocabulary.begin(prompt)?;
        if sample == 0 {
            self.timings.prompt_tokens += ids.len();
            self.begun = self.beginning(ids, samples)?;
        }
        let options = self.settings.options(ids.len())?;
        let rng = TorchRng::manual_seed(seed).with_build(self.args.sampling.build);
        let state = self.begun.clone();
        let rest = &ids[state.tokens().len()..];
        let slot = self.streams.add(state, rest, options, rng)?;
        self.slots.insert(slot, index);
        Ok(())
    }

    /// Returns the state from which all samples of a prompt continue. It lacks the prompt's last
    /// token, because each sample needs the logits of that token.
    fn beginning(&mut self, ids: &[u32], samples: usize) -> Result<DecoderState> {
        let state = DecoderState::new(self.args.decoder());
        let [before @ .., _] = ids else {
            bail!("the prompt is empty; give at least one token");
        };
        if samples == 1 || before.is_empty() {
            return Ok(state); // the prompt is computed together with other prompts
        }
        let began = Instant::now();
        let mut decoder = Decoder::with_state(self.weights, state)?;
        decoder.start(before)?;
        decoder.advance()?;
        self.timings.prompt_time += began.elapsed();
        Ok(decoder.into_state())
    }

    /// Computes the next token of each text.
    fn step(&mut self) -> Result<()> {
        let decodes = self
            .texts
            .iter()
            .any(|text| !text.tokens.is_empty() && text.finish.is_none());
        let began = Instant::now();
        let events = self.streams.step();
        self.count(decodes, began.elapsed());
        for (slot, event) in events {
            // None if a stop string has ended the text.
            let Some(&index) = self.slots.get(&slot) else {
                continue;
            };
            let text = &mut self.texts[index - self.printed];
            match event {
                StreamEvent::Token(token) => {
                    self.timings.decoded_tokens += usize::from(!text.tokens.is_empty());
                    text.tokens.push(token);
                    text.pieces.push(token);
                    if !text.pieces.are_stopped() {
                        continue;
                    }
                    self.streams.remove(slot);
                    text.end(None);
                }
                StreamEvent::Ended(ended) => text.end(Some(ended.reason?)),
            }
            self.slots.remove(&slot);
        }
        Ok(())
    }

    /// Counts the time of a step.
    fn count(&mut self, decodes: bool, time: Duration) {
        match decodes {
            true => self.timings.decode_time += time,
            false => self.timings.prompt_time += time,
        }
    }

    /// Prints what is known of the first text that hasn't ended, and all texts before it.
    fn show(&mut self) -> Result<()> {
        let output = &self.args.output;
        while let Some(text) = self.texts.front_mut() {
            let known = &text.pieces.text;
            if !output.json {
                if text.shown.is_none() {
                    if self.printed > 0 {
                        print(BETWEEN)?;
                    }
                    if !output.no_display_prompt {
                        print_text(&shown(text.prompt, self.vocabulary))?;
                    }
                }
                let before = text.shown.replace(known.len()).unwrap_or(0);
                print_text(&known[before..])?;
            }
            let Some(finish) = text.finish else {
                return Ok(());
            };
            match output.json {
                true => print_json(&Continued {
                    tokens: &text.tokens,
                    text: known,
                    finish,
                    seed: self.settings.draws().then_some(text.seed),
                })?,
                false => print("\n")?,
            }
            self.texts.pop_front();
            self.printed += 1;
        }
        Ok(())
    }
}
