//! Tests that a decoder with a cache predicts the same tokens as the model does without a cache.

use std::collections::HashMap;
use std::sync::Arc;

use crate::common::{continued, has_clear_winner, models_and_prompts, scripted, take_in};
use generate::{
    Decoder, DecoderConfig, DecoderState, DecoderWeights, Dtype, GenerateError, GenerateOptions,
    PastContext, Sampling, generate_text_simple, greedy_id,
};
use gpt::{GptModel, Parameters};
use ndarray::{Array1, Array2, Axis, s};
use proptest::prelude::*;
use test_support::{Tolerance, assert_close};
use torch_rng::TorchRng;

const TOLERANCE: Tolerance = Tolerance {
    absolute: 2e-5,
    relative: 2e-5,
};

/// Computes the logits of the token that follows `tokens`, without a cache. If there are more
/// tokens than fit in the context, the model sees only the last ones, as in the book's functions.
fn uncached(model: &GptModel, tokens: &[u32]) -> Array1<f32> {
    let first = tokens.len().saturating_sub(model.config().context_length);
    let idx = Array2::from_shape_vec((1, tokens.len() - first), tokens[first..].to_vec()).unwrap();
    model.forward(&idx).unwrap().slice_move(s![0, -1, ..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_logits_of_several_tokens_have_the_bits_of_one_at_a_time(
        (model, prompt) in models_and_prompts(), cut in any::<prop::sample::Index>(),
    ) {
        let context = model.config().context_length;
        let prompt = &prompt[..prompt.len().min(context)];
        let first = cut.index(prompt.len());
        for &dtype in Dtype::ALL {
            let weights = DecoderWeights::new(&model, dtype).unwrap();
            let (mut one, mut several) = (Decoder::new(&weights), Decoder::new(&weights));
            let mut all = Vec::new();
            for part in [&prompt[..first], &prompt[first..]] {
                several.push(part).unwrap();
                if !part.is_empty() {
                    let rows = several.advance_all().unwrap();
                    prop_assert_eq!(rows.nrows(), part.len());
                    all.extend(rows.rows().into_iter().map(|row| row.to_owned()));
                    prop_assert_eq!(several.advance_all().unwrap().nrows(), 0);
                }
            }
            for (id, row) in prompt.iter().zip(&all) {
                one.push(&[*id]).unwrap();
                prop_assert_eq!(one.advance().unwrap(), row);
            }
            prop_assert_eq!(one.logits(), several.logits());
        }
    }

    #[test]
    fn cached_logits_equal_uncached_ones_at_every_step(
        (model, prompt) in models_and_prompts(), steps in 0..20usize, seed in any::<u64>(),
    ) {
        let mut rng = TorchRng::manual_seed(seed);
        let mut decoder = Decoder::new(&model);
        decoder.start(&prompt).unwrap();
        for _ in 0..=steps {
            decoder.advance().unwrap();
            assert_close(&decoder.logits(), &uncached(&model, decoder.tokens()), TOLERANCE);
            let token = rng.randint(0, model.config().vocab_size as i64) as u32;
            decoder.push(&[token]).unwrap();
        }
    }

    #[test]
    fn greedy_ids_are_those_of_the_books_loop(
        (model, prompt) in models_and_prompts(), max_new_tokens in 1..16usize,
    ) {
        let context_size = model.config().context_length;
        let mut decoder = Decoder::new(&model);
        decoder.start(&prompt).unwrap();
        let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
        let completion = continued(&mut decoder, options, &mut TorchRng::manual_seed(0));
        let idx = Array2::from_shape_vec((1, prompt.len()), prompt.clone()).unwrap();
        let book = generate_text_simple(&model, idx, max_new_tokens, context_size).unwrap();
        let book = book.row(0).to_vec();
        for (i, &token) in completion.iter().enumerate() {
            let before = &book[..prompt.len() + i];
            if !has_clear_winner(&uncached(&model, before)) {
                // If the two largest logits are almost equal, the decoder and the book's function
                // may choose different tokens because of rounding errors. All later tokens may then
                // differ as well, so the comparison of the two texts ends here.
                return Ok(());
            }
            prop_assert_eq!(token, book[before.len()], "token {} of {:?}", i, prompt);
        }
        prop_assert_eq!(completion.len(), max_new_tokens);
    }

    #[test]
    fn text_pushed_in_turns_is_the_text_pushed_at_once(
        (model, prompt) in models_and_prompts(), cut in any::<prop::sample::Index>(),
    ) {
        let cut = 1 + cut.index(prompt.len());
        let mut turns = Decoder::new(&model);
        take_in(&mut turns, &prompt[..cut]);
        turns.push(&prompt[cut..]).unwrap();
        prop_assert_eq!(turns.pending() > 0, cut < prompt.len());
        turns.advance().unwrap();
        assert_close(&turns.logits(), &uncached(&model, &prompt), TOLERANCE);
        prop_assert_eq!(turns.tokens(), prompt.as_slice());
    }

    #[test]
    fn a_smaller_context_is_the_books_cropping_to_it_and_else_a_token_is_computed_once(
        (model, prompt) in models_and_prompts(), steps in 1..8usize,
    ) {
        let context_size = model.config().context_length / 2;
        let config = DecoderConfig { context_size: Some(context_size), ..DecoderConfig::default() };
        let mut decoder = Decoder::with_config(&model, config).unwrap();
        let mut tokens = prompt.clone();
        decoder.start(&tokens).unwrap();
        for step in 0..steps {
            let window = &tokens[tokens.len().saturating_sub(context_size)..];
            let moved = tokens.len() > context_size;
            let pending = if step == 0 || moved { window.len() } else { 1 };
            prop_assert_eq!(decoder.pending(), pending);
            decoder.advance().unwrap();
            assert_close(&decoder.logits(), &uncached(&model, window), TOLERANCE);
            tokens.push(greedy_id(&decoder.logits()).unwrap());
            decoder.push(&tokens[tokens.len() - 1..]).unwrap();
        }
    }
}

#[test]
fn a_decoder_told_to_stop_refuses_to_outgrow_its_context_and_stays_as_it_was() {
    let model = scripted(&[1, 2, 3]); // The context length is 4.
    let config = DecoderConfig {
        past_context: PastContext::Stop,
        ..DecoderConfig::default()
    };
    let mut decoder = Decoder::with_config(&model, config).unwrap();
    let error = decoder.start(&[0; 5]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the text has 5 tokens, but the context has room for only 4; use a shorter text"
    );
    take_in(&mut decoder, &[0; 3]);
    assert_eq!(decoder.room(), 1);
    decoder.push(&[9]).unwrap();
    decoder.advance().unwrap();
    let before = decoder.logits().to_owned();
    let full = GenerateError::PastContext {
        num_tokens: 5,
        context_size: 4,
    };
    assert_eq!(decoder.push(&[9]).unwrap_err(), full);
    decoder.advance().unwrap();
    assert_eq!(decoder.logits(), before);
    assert_eq!(decoder.tokens(), [0, 0, 0, 9]);
}

#[test]
fn a_second_prompt_starts_from_nothing() {
    let model = scripted(&[5, 6, 7, 8]);
    let mut decoder = Decoder::new(&model);
    take_in(&mut decoder, &[1, 2, 3]);
    let mut fresh = Decoder::new(&model);
    take_in(&mut fresh, &[4]);
    take_in(&mut decoder, &[4]);
    assert_eq!(decoder.logits(), fresh.logits());
    assert_eq!(decoder.tokens(), [4]);
}

#[test]
fn sampling_with_a_cache_draws_what_the_books_loop_draws() {
    let config = gpt::GptConfig {
        vocab_size: 40,
        context_length: 12,
        emb_dim: 24,
        n_heads: 3,
        n_layers: 2,
        ..gpt::GptConfig::GPT2_124M
    };
    let model = GptModel::new(config, &mut TorchRng::manual_seed(123)).unwrap();
    let book = generate::BookSampling {
        max_new_tokens: 20,
        context_size: 12,
        temperature: 1.4,
        top_k: Some(25),
        eos_id: None,
    };
    let options = GenerateOptions {
        sampling: Sampling {
            temperature: 1.4,
            top_k: Some(25),
            ..Sampling::GREEDY
        },
        max_new_tokens: 20,
        stop_ids: vec![],
    };
    for build in [torch_rng::Build::Portable, torch_rng::Build::Mkl] {
        let mut rng = TorchRng::manual_seed(123).with_build(build);
        let idx = ndarray::array![[1, 2, 3]];
        let expected = generate::generate(&model, idx, book, &mut rng.clone()).unwrap();
        let mut decoder = Decoder::new(&model);
        decoder.start(&[1, 2, 3]).unwrap();
        let completion = continued(&mut decoder, options.clone(), &mut rng);
        assert_eq!(completion, expected.row(0).to_vec()[3..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn smaller_precisions_stay_near_the_models_logits((model, prompt) in models_and_prompts()) {
        for (precision, allowed) in [
            (Dtype::Float16, 0.01),
            (Dtype::BFloat16, 0.05),
            (Dtype::Int8, 0.15),
            (Dtype::Int4, 0.5),
        ] {
            let mut decoder = Decoder::new(DecoderWeights::new(&model, precision).unwrap());
            take_in(&mut decoder, &prompt);
            let expected = uncached(&model, &prompt);
            let size = expected.iter().fold(1.0f32, |a, b| a.max(b.abs()));
            assert_close(&decoder.logits(), &expected, f64::from(allowed * size));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn weights_that_are_read_give_the_bits_of_those_of_a_model((model, prompt) in models_and_prompts()) {
        let parameters: HashMap<_, _> = model.named_parameters().into_iter().collect();
        for &precision in Dtype::ALL {
            let read = DecoderWeights::read(&model.config(), precision, |name, rows, out| {
                let rows = parameters[name].slice_axis(Axis(0), rows.into());
                rows.iter().zip(out).for_each(|(x, out)| *out = *x);
                Ok::<_, GenerateError>(())
            })
            .unwrap();
            let [mut read, mut copied] = [read, DecoderWeights::new(&model, precision).unwrap()].map(Decoder::new);
            take_in(&mut read, &prompt);
            take_in(&mut copied, &prompt);
            prop_assert_eq!(read.logits(), copied.logits(), "{}", precision);
        }
    }
}

#[test]
fn one_decoder_alternates_between_texts_and_every_owner_of_a_model_gives_the_same_bits() {
    /// A struct that contains both a model and decoders for this model. Such a struct is possible
    /// because the decoders don't borrow the model, but share it.
    struct Owner {
        model: Arc<GptModel>,
        shared: Decoder<Arc<GptModel>>,
        weights: DecoderWeights,
        decoder: Decoder,
    }
    fn assert_shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    let model = Arc::new(scripted(&[5, 6, 7, 8]));
    let weights = DecoderWeights::from(Arc::clone(&model));
    let mut owner = Owner {
        shared: Decoder::new(Arc::clone(&model)),
        decoder: Decoder::new(weights.clone()),
        weights,
        model,
    };
    assert_shared(&owner.weights);
    let texts: [&[u32]; 2] = [&[1, 2, 3], &[4, 5]];
    let mut states = [DecoderState::default(), DecoderState::default()];
    for i in 0..3 {
        for (state, text) in states
            .iter_mut()
            .zip(texts)
            .filter(|(_, text)| i < text.len())
        {
            let earlier = std::mem::take(state);
            owner.decoder = Decoder::with_state(owner.weights.clone(), earlier).unwrap();
            owner.decoder.push(&text[i..=i]).unwrap();
            assert_eq!(owner.decoder.pending(), 1);
            let logits = owner.decoder.advance().unwrap().to_owned();
            owner.shared.start(&text[..=i]).unwrap();
            let mut borrowed = Decoder::new(&*owner.model);
            take_in(&mut borrowed, &text[..=i]);
            assert_close(&logits, &borrowed.logits(), TOLERANCE);
            assert_eq!(owner.shared.advance().unwrap(), borrowed.logits());
            *state = owner.decoder.clone().into_state();
        }
    }
    let other = GptModel::zeros(gpt::GptConfig {
        n_heads: 2,
        emb_dim: 4,
        ..owner.model.config()
    });
    let refused = Decoder::with_state(other.unwrap(), states[0].clone());
    assert_eq!(refused.unwrap_err(), GenerateError::OtherModel);
}

#[test]
fn debug_shows_no_weights_and_no_text_in_any_precision() {
    let model = scripted(&[1; 63]);
    for &precision in Dtype::ALL {
        let weights = DecoderWeights::new(&model, precision).unwrap();
        let mut decoder = Decoder::new(weights.clone());
        decoder.start(&[1, 2, 3]).unwrap();
        let shown = format!("{decoder:?} {weights:?}");
        assert!(
            shown.contains(&format!("{precision:?}")) && shown.len() < 1000,
            "{shown}"
        );
    }
}
