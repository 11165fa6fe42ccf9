//! Tests that the results for a sequence in a batch are bitwise identical to the results for the
//! same sequence alone.

use crate::common::{models, scripted, take_in};
use generate::{
    Batch, Decoder, DecoderConfig, DecoderState, DecoderWeights, Dtype, FinishReason,
    GenerateError, GenerateOptions, PastContext, Sampling, StreamEvent, TokenStream, TokenStreams,
    greedy_id,
};
use gpt::GptModel;
use ndarray::{Array1, ArrayView1};
use proptest::prelude::*;
use rayon::ThreadPoolBuilder;
use torch_rng::TorchRng;

/// A random sequence that a test adds to [`TokenStreams`] while other sequences are being
/// continued. The fields specify when the sequence is added, how it is continued, and when it is
/// removed.
#[derive(Clone, Debug)]
struct Visit {
    /// Number of generation steps that the test performs after adding the previous sequence and
    /// before adding this sequence.
    wait: usize,
    prompt: Vec<u32>,
    config: DecoderConfig,
    options: GenerateOptions,
    seed: u64,
    /// Number of generated tokens after which the test removes the sequence, unless it has ended
    /// before.
    leaves_after: usize,
}

fn visits() -> impl Strategy<Value = Vec<Visit>> {
    let visit = (
        0..3usize,
        prop::collection::vec(0..1000u32, 1..30),
        (1..=8usize, any::<bool>()),
        (0..12usize, any::<bool>(), prop::option::of(0..1000u32)),
        any::<u64>(),
        1..30usize,
    )
        .prop_map(
            |(wait, prompt, (eighths, stops), (most, draws, stop), seed, leaves_after)| {
                let past_context = if stops {
                    PastContext::Stop
                } else {
                    PastContext::Crop
                };
                Visit {
                    wait,
                    prompt,
                    config: DecoderConfig {
                        context_size: Some(eighths), // eighths of the context length
                        past_context,
                    },
                    options: GenerateOptions {
                        max_new_tokens: most,
                        sampling: Sampling {
                            temperature: if draws { 1.0 } else { 0.0 },
                            repetition_penalty: if draws { 1.0 } else { 1.2 },
                            ..Sampling::GREEDY
                        },
                        stop_ids: stop.into_iter().collect(),
                    },
                    seed,
                    leaves_after,
                }
            },
        );
    prop::collection::vec(visit, 1..14)
}

impl Visit {
    /// Adapts this random sequence to a model. Returns the sequence with token IDs that are in the
    /// model's vocabulary and with a context size of at most the model's context length. If the
    /// sequence must stop when the context is full, its prompt is shortened so that it fits in the
    /// context.
    fn to(mut self, model: &gpt::GptConfig) -> Self {
        let (vocab_size, context) = (model.vocab_size as u32, model.context_length);
        let eighths = self.config.context_size.unwrap();
        self.config.context_size = Some((context * eighths / 8).max(1));
        self.prompt.iter_mut().for_each(|id| *id %= vocab_size);
        self.options
            .stop_ids
            .iter_mut()
            .for_each(|id| *id %= vocab_size);
        if self.config.past_context == PastContext::Stop {
            self.prompt.truncate(self.config.context_size.unwrap());
        }
        self
    }
}

/// The result of continuing a sequence. It must be the same whether the sequence is continued alone
/// or together with others. The result consists of the generated tokens, the reason why the
/// sequence has ended (`None` if the test removed it first), and the logits from which the last
/// token was chosen.
type Outcome = (Vec<u32>, Option<FinishReason>, Array1<f32>);

fn alone(weights: &DecoderWeights, visit: &Visit) -> Outcome {
    let mut decoder = Decoder::with_config(weights, visit.config).unwrap();
    decoder.start(&visit.prompt).unwrap();
    let mut rng = TorchRng::manual_seed(visit.seed);
    let mut stream = TokenStream::new(&mut decoder, visit.options.clone(), &mut rng).unwrap();
    let most = visit.leaves_after;
    let tokens: Vec<u32> = stream.by_ref().take(most).map(Result::unwrap).collect();
    // If the stream returned fewer tokens than were requested, or the maximum number that its
    // options allow, the sequence has ended. However, the stream may not know the reason until
    // `next` is called once more. This call must return no further token.
    let over = tokens.len() < most || tokens.len() == visit.options.max_new_tokens;
    let reason = match stream.finish_reason() {
        None if over => stream
            .next()
            .map_or(stream.finish_reason(), |_| panic!("it is over")),
        reason => reason,
    };
    (tokens, reason, stream.state().logits().to_owned())
}

fn together(weights: &DecoderWeights, visits: &[Visit]) -> Vec<Outcome> {
    let mut streams = TokenStreams::new(weights);
    let mut outcomes: Vec<Outcome> = vec![(Vec::new(), None, Array1::zeros(0)); visits.len()];
    let (mut guests, mut next, mut waited) = (Vec::new(), 0, 0);
    while next < visits.len() || !streams.is_empty() {
        while let Some(visit) = visits.get(next).filter(|visit| visit.wait <= waited) {
            let state = DecoderState::new(visit.config);
            let rng = TorchRng::manual_seed(visit.seed);
            let slot = streams.add(state, &visit.prompt, visit.options.clone(), rng);
            guests.push((slot.unwrap(), next));
            (next, waited) = (next + 1, 0);
        }
        waited += 1;
        for (slot, event) in streams.step() {
            let (_, i) = guests.iter().find(|guest| guest.0 == slot).unwrap();
            let (tokens, reason, logits) = &mut outcomes[*i];
            match event {
                StreamEvent::Token(token) => {
                    tokens.push(token);
                    if tokens.len() == visits[*i].leaves_after
                        && let Some(state) = streams.remove(slot)
                    {
                        *logits = state.logits().to_owned();
                    }
                }
                StreamEvent::Ended(ended) => {
                    *reason = Some(ended.reason.unwrap());
                    *logits = ended.state.logits().to_owned();
                }
            }
        }
    }
    outcomes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn texts_that_join_and_leave_have_the_bits_that_each_has_alone(
        model in models(), visits in visits(), threads in 1..=8usize,
    ) {
        let visits: Vec<Visit> = visits.into_iter().map(|visit| visit.to(&model.config())).collect();
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for &precision in Dtype::ALL {
            let weights = DecoderWeights::new(&model, precision).unwrap();
            let outcomes = pool.install(|| together(&weights, &visits));
            for (visit, outcome) in visits.iter().zip(outcomes) {
                prop_assert_eq!(outcome, alone(&weights, visit), "{} {:?}", precision, visit);
            }
        }
    }

    #[test]
    fn a_text_has_the_same_bits_however_its_tokens_arrive(
        model in models(), ids in prop::collection::vec(0..1000u32, 1..40), cuts in prop::collection::vec(1..20usize, 8),
    ) {
        let vocab_size = model.config().vocab_size as u32;
        let most = ids.len().min(model.config().context_length);
        let ids: Vec<u32> = ids[..most].iter().map(|id| id % vocab_size).collect();
        for &precision in Dtype::ALL {
            let weights = DecoderWeights::new(&model, precision).unwrap();
            let mut whole = Decoder::new(&weights);
            whole.start(&ids).unwrap();
            whole.advance().unwrap();
            let mut parts = Decoder::new(&weights);
            let mut rest = &ids[..];
            for &cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (part, others) = rest.split_at(cut.min(rest.len()));
                parts.push(part).unwrap();
                parts.advance().unwrap();
                rest = others;
                // Check that a clone of a decoder continues the text like the original: append the
                // same tokens to both and compare their logits. Then remove these tokens from the
                // original, so that the test can continue with its own text.
                let (len, tried) = (parts.tokens().len(), vec![0; cut]);
                let mut fork = parts.clone();
                for decoder in [&mut parts, &mut fork] {
                    decoder.push(&tried).unwrap();
                    decoder.advance().unwrap();
                }
                prop_assert_eq!(parts.logits(), fork.logits(), "{}", precision);
                parts.truncate(len);
                parts.truncate(len + 1);
            }
            prop_assert_eq!(parts.tokens(), &ids[..]);
            parts.advance().unwrap();
            prop_assert_eq!(parts.logits(), whole.logits(), "{}", precision);
        }
    }
}

#[test]
fn a_long_prompt_is_spread_over_steps_in_which_other_texts_go_on() {
    let config = gpt::GptConfig {
        vocab_size: 40,
        context_length: 700,
        emb_dim: 8,
        n_heads: 1,
        n_layers: 2,
        ..gpt::GptConfig::GPT2_124M
    };
    let model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
    let weights = DecoderWeights::new(&model, Dtype::Int8).unwrap();
    let long: Vec<u32> = (0..600).map(|i| i % 40).collect();
    let mut batch = Batch::new(&weights);
    let [short, slot] = [0, 1].map(|_| batch.add(DecoderState::default()).unwrap());
    assert_eq!(batch.advance(), []);
    batch.push(short, &[1, 2]).unwrap();
    batch.push(slot, &long).unwrap();
    for (pending, ready) in [
        (344, vec![short]),
        (87, vec![short]),
        (0, vec![short, slot]),
    ] {
        assert_eq!(batch.advance(), ready);
        assert_eq!(batch.get(slot).unwrap().pending(), pending);
        batch.push(short, &[3]).unwrap();
    }
    let mut alone = Decoder::new(&weights);
    take_in(&mut alone, &long);
    let state = batch.remove(slot).unwrap();
    assert_eq!(state.logits(), alone.logits());
    assert!(batch.get(slot).is_none() && batch.len() == 1);
    let error = batch.truncate(slot, 1).unwrap_err();
    assert_eq!(error, GenerateError::UnknownSlot(slot));
    assert_ne!(batch.add(state).unwrap(), slot);
}

#[test]
fn a_text_that_fails_ends_alone_and_one_that_cannot_begin_is_refused() {
    let model = scripted(&[11, 12, 13, 14]);
    let mut streams = TokenStreams::new(&model);
    let options = GenerateOptions {
        max_new_tokens: 2,
        ..GenerateOptions::default()
    };
    let fails = |_: &[u32], _: ArrayView1<f32>| Err(GenerateError::EmptyStopString);
    let [new, begun] = [DecoderState::default(), Decoder::new(&model).into_state()];
    let failing = streams
        .add_with_sampler(new, &[1], options.clone(), fails)
        .unwrap();
    let greedy = |_: &[u32], logits: ArrayView1<f32>| greedy_id(&logits);
    let good = streams
        .add_with_sampler(begun, &[1], options.clone(), greedy)
        .unwrap();
    let mut add = |tokens: &[u32], options| {
        streams.add(
            DecoderState::default(),
            tokens,
            options,
            TorchRng::manual_seed(1),
        )
    };
    assert_eq!(add(&[], options.clone()), Err(GenerateError::EmptyPrompt));
    assert!(add(&[60_000], options.clone()).is_err());
    let none = GenerateOptions {
        max_new_tokens: 0,
        ..options
    };
    let over = add(&[1], none).unwrap();
    let mut seen = Vec::new();
    while !streams.is_empty() {
        for (slot, event) in streams.step() {
            seen.push((
                slot,
                match event {
                    StreamEvent::Token(token) => Ok(token),
                    StreamEvent::Ended(ended) => Err(ended.reason),
                },
            ));
        }
    }
    let limit = Err(Ok(FinishReason::MaxNewTokens));
    let expected = [
        (over, limit.clone()),
        (failing, Err(Err(GenerateError::EmptyStopString))),
        (good, Ok(11)),
        (good, Ok(12)),
        (good, limit),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_hook_sees_every_text_after_each_block_and_what_it_changes_counts() {
    let model = scripted(&[5, 6, 7, 8]);
    let texts: [&[u32]; 2] = [&[1, 2, 3], &[4]];
    let mut batch = Batch::new(&model);
    let slots = [0, 1].map(|_| batch.add(DecoderState::default()).unwrap());
    let mut alone = texts.map(|_| Decoder::new(&model));
    for (i, text) in texts.iter().enumerate() {
        batch.push(slots[i], text).unwrap();
        take_in(&mut alone[i], text);
    }
    let mut seen = Vec::new();
    batch.advance_with(|slot, blocks, rows| seen.push((slot, blocks, rows.nrows())));
    let expected = [(0, 0, 3), (1, 0, 1), (0, 1, 3), (1, 1, 1)];
    assert_eq!(
        seen,
        expected.map(|(i, blocks, rows)| (slots[i], blocks, rows))
    );
    for (slot, alone) in slots.iter().zip(&alone) {
        assert_eq!(batch.get(*slot).unwrap().logits(), alone.logits());
    }
    // Check that a hook can change the prediction. The hook makes the output of the last block at
    // position 1 look like the output at position 3, so the model must predict the token 8, which
    // follows position 3, instead of the token 6.
    let mut decoder = Decoder::new(&model);
    decoder.start(&[1, 2]).unwrap();
    let steered = decoder.advance_with(|blocks, mut rows| {
        if blocks == 1 {
            rows.row_mut(1).fill(0.0);
            rows[[1, 3]] = 9.0; // as in the embedding of position 3
        }
    });
    assert_eq!(greedy_id(&steered.unwrap()).unwrap(), 8);
}
