//! Streams: what is shown, when it ends, and why.

use crate::common::scripted;
use generate::{
    Decoder, DecoderConfig, FinishReason, GenerateOptions, Generated, PastContext, Piece,
    StopStrings, TextStream, TokenStream, complete,
};
use proptest::prelude::*;
use tokenizer::{ENDOFTEXT_ID, Gpt2Tokenizer};
use torch_rng::TorchRng;

fn greedy(max_new_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        max_new_tokens,
        stop_ids: vec![ENDOFTEXT_ID],
        ..GenerateOptions::default()
    }
}

fn stops(stops: &[&str]) -> StopStrings {
    StopStrings::new(stops.iter().map(|stop| stop.to_string())).unwrap()
}

/// What a model that says exactly this text, one token a step, is heard to say.
fn heard(text: &str, stop: &[&str]) -> (Vec<Piece>, FinishReason) {
    let tokenizer = Gpt2Tokenizer::new();
    let mut script = tokenizer.encode_ordinary(text);
    script.push(ENDOFTEXT_ID);
    let model = scripted(&script);
    let mut decoder = Decoder::new(&model);
    decoder.start(&[&[0]]).unwrap();
    let mut rng = TorchRng::manual_seed(0);
    let tokens = TokenStream::new(&mut decoder, greedy(script.len()), &mut rng).unwrap();
    let mut stream = TextStream::new(tokens, &tokenizer, stops(stop));
    let pieces = stream.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
    assert!(stream.next().is_none(), "an ended stream stays ended");
    (pieces, stream.finish_reason().unwrap().clone())
}

fn texts(pieces: &[Piece]) -> Vec<&str> {
    pieces.iter().map(|piece| piece.text.as_str()).collect()
}

#[test]
fn each_token_is_shown_as_it_comes() {
    let (pieces, finish) = heard("Every effort moves you", &[]);
    assert_eq!(texts(&pieces), ["Every", " effort", " moves", " you"]);
    assert_eq!(finish, FinishReason::StopToken(ENDOFTEXT_ID));
}

#[test]
fn half_a_character_waits_for_the_other_half() {
    let (pieces, _) = heard("a🙂b", &[]);
    assert_eq!(texts(&pieces), ["a", "", "🙂", "b"]);
}

#[test]
fn a_stop_string_that_spans_tokens_is_never_shown_in_part() {
    let (pieces, finish) = heard("Hello world and more", &["o wor"]);
    assert_eq!(texts(&pieces), ["Hell", ""]);
    assert_eq!(finish, FinishReason::StopString("o wor".into()));
}

#[test]
fn what_only_looked_like_a_stop_string_is_shown_at_the_latest_at_the_end() {
    let (pieces, finish) = heard("Hello world", &["world peace"]);
    assert_eq!(texts(&pieces), ["Hello", " ", "world"]);
    assert_eq!(pieces[2].token, None);
    assert_eq!(finish, FinishReason::StopToken(ENDOFTEXT_ID));
}

#[test]
fn the_limit_the_full_context_and_the_stop_token_end_a_text() {
    let model = scripted(&[11, 12, 13]); // context 4
    let run = |past_context, max_new_tokens, stop_ids| {
        let config = DecoderConfig {
            past_context,
            ..DecoderConfig::default()
        };
        let mut decoder = Decoder::with_config(&model, config).unwrap();
        decoder.start(&[&[1]]).unwrap();
        let options = GenerateOptions {
            max_new_tokens,
            stop_ids,
            ..GenerateOptions::default()
        };
        let mut rng = TorchRng::manual_seed(0);
        let mut stream = TokenStream::new(&mut decoder, options.clone(), &mut rng).unwrap();
        let tokens = stream.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
        let finish = stream.finish_reason().unwrap().clone();
        // Several sequences at once end for the same reasons.
        decoder.start(&[&[1], &[1]]).unwrap();
        let mut rngs = [TorchRng::manual_seed(0), TorchRng::manual_seed(0)];
        for completion in complete(&mut decoder, &options, &mut rngs).unwrap() {
            assert_eq!((&completion.tokens, &completion.finish), (&tokens, &finish));
        }
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
fn a_conversation_continues_from_the_cache() {
    let model = scripted(&(100..120).collect::<Vec<_>>());
    let mut decoder = Decoder::new(&model);
    let mut rng = TorchRng::manual_seed(0);
    decoder.start(&[&[1, 2]]).unwrap();
    let answer: Vec<u32> = TokenStream::new(&mut decoder, greedy(3), &mut rng)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(answer, [101, 102, 103]);
    decoder.push(0, &[7, 8]).unwrap();
    let mut stream = TokenStream::new(&mut decoder, greedy(2), &mut rng).unwrap();
    let answer: Vec<u32> = stream.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(answer, [106, 107]);
    // The turn, and the last token of the answer before it, which nothing had needed yet.
    assert_eq!(stream.timings().prompt_tokens, 3);
    assert_eq!(decoder.tokens(0), [1, 2, 101, 102, 103, 7, 8, 106, 107]);
    assert_eq!(decoder.stats().tokens_computed, 8);
}

#[test]
fn a_finished_text_has_its_tokens_and_its_timings() {
    let tokenizer = Gpt2Tokenizer::new();
    let script = tokenizer.encode_ordinary("one two three four");
    let model = scripted(&script);
    let mut decoder = Decoder::new(&model);
    decoder.start(&[&[0]]).unwrap();
    let mut rng = TorchRng::manual_seed(0);
    let tokens = TokenStream::new(&mut decoder, greedy(3), &mut rng).unwrap();
    let Generated {
        tokens,
        text,
        finish,
        timings,
    } = TextStream::new(tokens, &tokenizer, stops(&[]))
        .finish()
        .unwrap();
    assert_eq!(
        (tokens, text.as_str()),
        (script[..3].to_vec(), "one two three")
    );
    assert_eq!(finish, FinishReason::MaxNewTokens);
    assert_eq!((timings.prompt_tokens, timings.decoded_tokens), (1, 2));
    assert!(timings.prompt_tokens_per_second() > 0.0 && timings.decoded_tokens_per_second() > 0.0);
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
            // Nothing that was shown is taken back, and nothing of a stop string is shown.
            prop_assert!(text.starts_with(&shown));
            prop_assert!(stop.iter().all(|stop| !shown.contains(stop.as_str())));
        }
        shown += &watch.finish();
        // The first to be complete; of those that end together, the longest.
        let first = stop.iter().filter_map(|stop| text.find(stop.as_str()).map(|at| (at + stop.len(), at))).min();
        prop_assert_eq!(shown.as_str(), &text[..first.map_or(text.len(), |(_, start)| start)]);
        prop_assert_eq!(watch.found().is_some(), first.is_some());
    }
}
