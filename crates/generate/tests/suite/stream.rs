//! Tests of [`TokenStream`] and [`StopStrings`]: which tokens a stream generates, and when and why
//! it ends.

use crate::common::scripted;
use generate::{
    Decoder, DecoderConfig, FinishReason, GenerateError, GenerateOptions, PastContext, StopStrings,
    TokenStream, greedy_id,
};
use ndarray::ArrayView1;
use proptest::prelude::*;
use tokenizer::ENDOFTEXT_ID;
use torch_rng::TorchRng;

fn greedy(max_new_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        max_new_tokens,
        stop_ids: vec![ENDOFTEXT_ID],
        ..GenerateOptions::default()
    }
}

#[test]
fn the_limit_the_full_context_and_the_stop_token_end_a_text() {
    let model = scripted(&[11, 12, 13]); // The context length is 4.
    let run = |past_context, max_new_tokens, stop_ids| {
        let config = DecoderConfig {
            past_context,
            ..DecoderConfig::default()
        };
        let mut decoder = Decoder::with_config(&model, config).unwrap();
        decoder.start(&[1]).unwrap();
        let options = GenerateOptions {
            max_new_tokens,
            stop_ids,
            ..GenerateOptions::default()
        };
        let mut rng = TorchRng::manual_seed(0);
        let mut stream = TokenStream::new(&mut decoder, options.clone(), &mut rng).unwrap();
        let tokens = stream.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
        let finish = stream.finish_reason().unwrap();
        (tokens, finish)
    };
    assert_eq!(
        run(PastContext::Crop, 0, vec![]),
        (vec![], FinishReason::MaxNewTokens)
    );
    assert_eq!(
        run(PastContext::Crop, 2, vec![]),
        (vec![11, 12], FinishReason::MaxNewTokens)
    );
    assert_eq!(
        run(PastContext::Crop, 9, vec![12]),
        (vec![11], FinishReason::StopToken(12))
    );
    let (tokens, finish) = run(PastContext::Stop, 9, vec![]);
    assert_eq!((tokens.len(), &tokens[..3]), (4, &[11, 12, 13][..]));
    assert_eq!(finish, FinishReason::ContextFull);
    let (tokens, finish) = run(PastContext::Crop, 9, vec![]);
    assert_eq!((tokens.len(), finish), (9, FinishReason::MaxNewTokens));
}

#[test]
fn nothing_follows_the_token_beyond_a_full_context() {
    let model = scripted(&[11, 12, 13]); // The context length is 4.
    let config = DecoderConfig {
        past_context: PastContext::Stop,
        ..DecoderConfig::default()
    };
    let mut decoder = Decoder::with_config(&model, config).unwrap();
    decoder.start(&[1, 2, 3, 4]).unwrap();
    for expected in [1, 0, 0] {
        let mut rng = TorchRng::manual_seed(0);
        let mut stream = TokenStream::new(&mut decoder, greedy(9), &mut rng).unwrap();
        assert_eq!(stream.by_ref().map(Result::unwrap).count(), expected);
        assert_eq!(stream.finish_reason(), Some(FinishReason::ContextFull));
    }
}

#[test]
fn a_conversation_continues_from_the_cache() {
    let model = scripted(&(100..120).collect::<Vec<_>>());
    let mut decoder = Decoder::new(&model);
    let mut rng = TorchRng::manual_seed(0);
    decoder.start(&[1, 2]).unwrap();
    let answer: Vec<u32> = TokenStream::new(&mut decoder, greedy(3), &mut rng)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(answer, [101, 102, 103]);
    decoder.push(&[7, 8]).unwrap();
    let mut stream = TokenStream::new(&mut decoder, greedy(2), &mut rng).unwrap();
    let answer: Vec<u32> = stream.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(answer, [106, 107]);
    // In this conversation, the second answer was generated from three prompt tokens: the last
    // token of the first answer, which hadn't been processed yet, and the two tokens that were
    // pushed after that answer.
    let timings = stream.timings();
    assert_eq!((timings.prompt_tokens, timings.decoded_tokens), (3, 1));
    assert!(timings.prompt_tokens_per_second() > 0.0 && timings.decoded_tokens_per_second() > 0.0);
    assert_eq!(decoder.tokens(), [1, 2, 101, 102, 103, 7, 8, 106, 107]);
    assert_eq!(decoder.pending(), 1);
}

#[test]
fn a_custom_sampler_sees_text_and_logits_and_its_error_ends_the_stream() {
    #[derive(Debug, PartialEq)]
    enum Refusal {
        Decoder(GenerateError),
        Enough(usize),
    }
    impl From<GenerateError> for Refusal {
        fn from(error: GenerateError) -> Self {
            Self::Decoder(error)
        }
    }
    let model = scripted(&[11, 12, 13, 14, 15, 16]);
    let mut decoder = Decoder::new(&model);
    let streamed = |decoder: &mut Decoder<_>, most: usize, shift: u32| {
        decoder.start(&[1]).unwrap();
        let sampler = |text: &[u32], logits: ArrayView1<f32>| match text.len() > most {
            true => Err(Refusal::Enough(text.len())),
            false => Ok(greedy_id(&logits)? + shift),
        };
        let mut stream = TokenStream::with_sampler(decoder, greedy(4), sampler);
        let tokens: Vec<_> = stream.with_logits().collect();
        for (token, logits) in tokens.iter().flatten() {
            assert_eq!(*token, greedy_id(logits).unwrap() + shift);
        }
        let finish = stream.finish_reason();
        assert_eq!(stream.next(), None);
        let tokens = tokens.into_iter().map(|token| Ok(token?.0));
        (tokens.collect::<Result<Vec<u32>, Refusal>>(), finish)
    };
    let all = streamed(&mut decoder, 9, 1);
    assert_eq!(
        all,
        (Ok(vec![12, 13, 14, 15]), Some(FinishReason::MaxNewTokens))
    );
    let refused = streamed(&mut decoder, 2, 0);
    assert_eq!(refused, (Err(Refusal::Enough(3)), None));
    assert_eq!(decoder.tokens(), [1, 11, 12]);
    let unknown = streamed(&mut decoder, 9, 60_000).0.unwrap_err();
    assert!(matches!(unknown, Refusal::Decoder(GenerateError::Gpt(_))));
}

proptest! {
    #[test]
    fn text_is_shown_up_to_the_first_stop_string_however_it_is_cut(
        text in "[abé]{0,20}", stop in prop::collection::vec("[abé]{1,4}", 0..3), cuts in prop::collection::vec(1..4usize, 20),
    ) {
        let mut watch = StopStrings::new(stop.clone()).unwrap();
        let (mut shown, mut characters) = (String::new(), text.chars());
        for &cut in &cuts {
            let piece: String = characters.by_ref().take(cut).collect();
            shown += &watch.push(&piece);
            // At any time, the text that the user has seen must be the beginning of the generated
            // text, and it must not contain a stop string.
            prop_assert!(text.starts_with(&shown));
            prop_assert!(stop.iter().all(|stop| !shown.contains(stop.as_str())));
        }
        shown += &watch.finish();
        // In the end, the user must have seen all of the generated text or, if it contains a stop
        // string, the text before this stop string. If it contains several, the stop string that
        // ends first counts and, among those that end at the same position, the longest one.
        let first = stop.iter().filter_map(|stop| text.find(stop.as_str()).map(|at| (at + stop.len(), at))).min();
        prop_assert_eq!(shown.as_str(), &text[..first.map_or(text.len(), |(_, start)| start)]);
        prop_assert_eq!(watch.is_found(), first.is_some());
    }
}
