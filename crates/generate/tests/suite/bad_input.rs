//! Tests that invalid prompts, settings and logits are rejected with an error message that contains
//! the invalid value.

use crate::common::{scripted, take_in};
use generate::{
    Batch, BookSampling, Decoder, DecoderConfig, DecoderState, DecoderWeights, Dtype,
    GenerateError, GenerateOptions, Sampling, StopStrings, TokenStream, generate,
    generate_text_simple, softmax_with_temperature,
};
use ndarray::{Array1, Array2, array};
use torch_rng::TorchRng;

fn rng() -> TorchRng {
    TorchRng::manual_seed(1)
}

/// Checks that these settings are rejected with the given message.
fn refused(sampling: Sampling, expected: &str) {
    let logits = array![1.0, 2.0, 3.0, 4.0, 5.0];
    // Compare the text of the error messages and not the errors themselves. If the invalid setting
    // is NaN, the error contains NaN, so it isn't even equal to itself.
    let error = sampling.choose(&logits, &mut rng()).unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert_eq!(sampling.check().unwrap_err().to_string(), expected);
}

#[test]
fn settings_outside_their_range_are_named_with_their_value() {
    type Set = fn(&mut Sampling, f32);
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let settings: [(Set, &[f32], &str); 2] = [
        (
            |s, x| s.temperature = x,
            &[-0.5, nan, inf],
            "temperature must be a finite number that is at least 0",
        ),
        (
            |s, x| s.top_p = x,
            &[0.0, -1.0, 1.5, nan],
            "top_p must be a number greater than 0 and at most 1",
        ),
    ];
    for (set, values, expected) in settings {
        for &value in values {
            let mut sampling = Sampling::GREEDY;
            set(&mut sampling, value);
            refused(sampling, &format!("{expected}, got {value}"));
        }
    }
}

#[test]
fn logits_of_which_no_token_can_be_chosen_are_refused_greedy_or_not() {
    for temperature in [0.0, 1.0] {
        let sampling = Sampling {
            temperature,
            ..Sampling::GREEDY
        };
        let error =
            |logits: &Array1<f32>| sampling.choose(logits, &mut rng()).unwrap_err().to_string();
        assert_eq!(
            error(&Array1::from_elem(3, f32::NEG_INFINITY)),
            "no token can be chosen, because all 3 logits are minus infinity"
        );
        assert_eq!(
            error(&array![0.0, f32::NAN]),
            "the logit of token 1 is NaN, because the model's weights or activations overflowed"
        );
        assert_eq!(
            error(&array![f32::INFINITY, 0.0]),
            "the logit of token 0 is inf, because the model's weights or activations overflowed"
        );
        assert!(matches!(
            sampling.choose(&Array1::from(vec![]), &mut rng()),
            Err(GenerateError::NoCandidate { vocab_size: 0 })
        ));
    }
}

#[test]
fn prompts_that_cannot_be_continued_are_refused_by_the_decoder_and_by_the_books_loops() {
    let model = scripted(&[1, 2, 3]); // The context length is 4.
    let mut decoder = Decoder::new(&model);
    assert_eq!(decoder.start(&[]), Err(GenerateError::EmptyPrompt));
    assert_eq!(decoder.advance().unwrap_err(), GenerateError::EmptyText);
    assert_eq!(
        decoder.start(&[2, 50257]).unwrap_err().to_string(),
        "the token ID at (0, 1) is 50257, but it must be less than the vocabulary size, 50257"
    );
    take_in(&mut decoder, &[1]);
    assert!(decoder.push(&[50257]).is_err());
    assert_eq!(decoder.tokens(), [1]);
    decoder.truncate(0);
    let message = decoder.advance().unwrap_err().to_string();
    assert!(message.ends_with("add tokens with start or push before you call advance"));
    decoder.push(&[1]).unwrap();
    decoder.advance().unwrap();

    let simple =
        |idx, context_size| generate_text_simple(&model, idx, 5, context_size).unwrap_err();
    for shape in [(0, 3), (1, 0)] {
        let error = simple(Array2::zeros(shape), 4);
        assert_eq!(error, GenerateError::EmptyPrompt);
    }
    assert!(matches!(simple(array![[50257]], 4), GenerateError::Gpt(_)));
    for context_size in [0, 5] {
        assert_eq!(
            simple(array![[1, 2, 3]], context_size).to_string(),
            format!(
                "context_size must be from 1 to 4, the model's context length, got {context_size}"
            )
        );
    }
}

#[test]
fn the_books_generate_refuses_a_temperature_before_it_computes() {
    let model = scripted(&[1, 2, 3]);
    for temperature in [-1.0, f32::NAN, f32::INFINITY] {
        let sampling = BookSampling {
            context_size: 4,
            temperature,
            ..BookSampling::default()
        };
        let error = generate(&model, array![[1]], sampling, &mut rng()).unwrap_err();
        assert!(error.to_string().contains("temperature"), "{error}");
    }
    for temperature in [0.0, f32::NAN, f32::INFINITY] {
        let error = softmax_with_temperature(&array![0.0, 1.0], temperature).unwrap_err();
        assert!(error.to_string().contains("temperature"), "{error}");
    }
}

#[test]
fn a_model_that_answers_nan_is_an_error_and_ends_the_stream() {
    let mut model = scripted(&[1, 2, 3]);
    model.final_norm.scale.fill(f32::NAN);
    let mut decoder = Decoder::new(&model);
    decoder.start(&[1]).unwrap();
    let mut rng = rng();
    let options = GenerateOptions {
        max_new_tokens: 3,
        ..GenerateOptions::default()
    };
    let mut stream = TokenStream::new(&mut decoder, options, &mut rng).unwrap();
    assert!(matches!(
        stream.next(),
        Some(Err(GenerateError::Logit { id: 0, .. }))
    ));
    assert!(stream.next().is_none());
    let error = generate_text_simple(&model, array![[1]], 1, 4).unwrap_err();
    assert!(matches!(error, GenerateError::Logit { .. }));
}

#[test]
fn what_does_not_fit_the_decoder_is_refused() {
    let model = scripted(&[1, 2, 3]);
    for context_size in [0, 5] {
        let config = DecoderConfig {
            context_size: Some(context_size),
            ..DecoderConfig::default()
        };
        let error = Decoder::with_config(&model, config).unwrap_err();
        assert_eq!(
            error,
            GenerateError::ContextSize {
                context_size,
                context_length: 4
            }
        );
    }
    let error = StopStrings::new(["a".into(), String::new()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a stop string is empty, but it must contain at least one character"
    );
}

#[test]
fn a_model_with_a_replaced_field_is_refused_by_name() {
    let mut model = scripted(&[1; 7]);
    model.out_head.as_mut().unwrap().bias = Some(Array1::ones(50257));
    let mut decoder = Decoder::new(&model);
    decoder.start(&[1, 2]).unwrap();
    let mut batch = Batch::new(&model);
    for error in [
        decoder.advance().unwrap_err(),
        batch.add(DecoderState::default()).unwrap_err(),
        DecoderWeights::new(&model, Dtype::Int8).unwrap_err().into(),
    ] {
        let expected = "the field out_head doesn't match the model's configuration: the layer has a bias of 50257";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
