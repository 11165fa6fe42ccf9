//! Generates one or more samples for each prompt. Many samples are generated at the same time.
//!
//! Each step computes the next token of all samples that are being generated. Because a step reads
//! the weights only once, it takes hardly longer than a step for a single sample. Each sample
//! depends only on its prompt and its seed, and not on the other samples.
//!
//! The samples are printed in order. The first unfinished sample is printed while it is being
//! generated. The samples that follow it are stored and printed later, even if they finish earlier.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use generate::{
    Decoder, DecoderState, DecoderWeights, FinishReason, Slot, StreamEvent, Timings, TokenStreams,
};
use torch_rng::TorchRng;

use super::options::{GenerateArgs, MAX_PARALLEL_TEXTS, Settings};
use super::pieces::Pieces;
use super::session::{Continued, finish};
use super::{note_speed, shown};
use crate::model::vocabulary::Vocabulary;
use crate::terminal::output::{print, print_json, print_text};

/// Line between two samples, as in nanoGPT.
const SEPARATOR: &str = "---------------\n";

/// All samples that a command generates.
pub(crate) struct Texts<'m> {
    args: &'m GenerateArgs,
    settings: &'m Settings,
    vocabulary: &'m Vocabulary,
    weights: &'m DecoderWeights,
    /// Token IDs of each prompt. The same number of samples is generated for each prompt.
    prompts: &'m [Vec<u32>],
    streams: TokenStreams<'m, &'m DecoderWeights>,
    slots: BTreeMap<Slot, usize>,
    /// Decoder state with which each sample of the current prompt begins. If there are several
    /// samples per prompt, all tokens of the prompt except the last have already been processed in
    /// this state. Otherwise, the state is empty.
    begun: DecoderState,
    /// Samples that are being generated or are waiting to be printed, in the order in which they
    /// are printed. Samples that have been printed completely are removed.
    texts: VecDeque<Text<'m>>,
    /// Number of samples that have been completely printed.
    printed: usize,
    timings: Timings,
}

/// A sample that is being generated or is waiting to be printed.
struct Text<'m> {
    prompt: &'m [u32],
    seed: u64,
    tokens: Vec<u32>,
    pieces: Pieces<'m>,
    /// Number of bytes of this sample's generated text that have already been printed, or `None` if
    /// not even the prompt has been printed.
    shown: Option<usize>,
    /// Reason why the sample has ended, or `None` if it hasn't.
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

    /// Generates and prints all samples.
    ///
    /// # Errors
    /// Returns an error if the model's output is NaN or infinite, or if the program can't write to
    /// standard output.
    pub(crate) fn run(mut self) -> Result<()> {
        let all = self.prompts.len() * self.args.length.num_samples.0;
        while self.printed < all {
            let mut joined = self.printed + self.texts.len();
            while joined < all && self.streams.len() < MAX_PARALLEL_TEXTS {
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

    /// Starts to generate the sample with this index.
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
        self.show()?; // This call prints the first prompt before anything is computed.
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

    /// Returns the decoder state with which all samples of a prompt begin. It contains the keys and
    /// values of all tokens of the prompt except the last, so these tokens are processed only once.
    /// The last token isn't processed here, because each sample needs the logits that this token
    /// produces. If there is only one sample, the state is empty.
    fn beginning(&mut self, ids: &[u32], samples: usize) -> Result<DecoderState> {
        let state = DecoderState::new(self.args.decoder());
        let [before @ .., _] = ids else {
            bail!("the prompt is empty, but it must contain at least one token");
        };
        if samples == 1 || before.is_empty() {
            // If there is only one sample per prompt, no other sample could reuse the state of a
            // processed prompt. Therefore, the state is left empty, and `step` processes the prompt
            // in the same batch as the samples of other prompts.
            return Ok(state);
        }
        let began = Instant::now();
        let mut decoder = Decoder::with_state(self.weights, state)?;
        decoder.start(before)?;
        decoder.advance()?;
        self.timings.prompt_time += began.elapsed();
        Ok(decoder.into_state())
    }

    /// Computes the next token of each sample.
    fn step(&mut self) -> Result<()> {
        let decodes = self
            .texts
            .iter()
            .any(|text| !text.tokens.is_empty() && text.finish.is_none());
        let began = Instant::now();
        let events = self.streams.step();
        self.count(decodes, began.elapsed());
        for (slot, event) in events {
            // When a stop string ends a sample, the sample's slot is removed from `slots`. If the
            // same step reports another event for this slot, the event is ignored.
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

    /// Adds `time`, the duration of a step, to the total decoding time if `decodes` is true, and
    /// otherwise to the total time for processing prompts.
    fn count(&mut self, decodes: bool, time: Duration) {
        match decodes {
            true => self.timings.decode_time += time,
            false => self.timings.prompt_time += time,
        }
    }

    /// Prints all samples that have ended, up to the first unfinished sample. Unless the output is
    /// JSON, also prints the text of the unfinished sample that has been generated so far.
    fn show(&mut self) -> Result<()> {
        let output = &self.args.output;
        while let Some(text) = self.texts.front_mut() {
            let known = &text.pieces.text;
            if !output.json {
                if text.shown.is_none() {
                    if self.printed > 0 {
                        print(SEPARATOR)?;
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
