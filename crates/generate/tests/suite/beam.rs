//! Beam search against the search of everything.

use crate::common::{has_clear_winner, models};
use generate::{BeamConfig, Decoder, FinishReason, Hypothesis, beam_search, greedy_id};
use gpt::{GptConfig, GptModel};
use ndarray::{Array2, Axis};
use proptest::prelude::*;
use tensor_ops::log_softmax;
use torch_rng::TorchRng;

fn search(model: &GptModel, prompt: &[u32], config: &BeamConfig) -> Vec<Hypothesis> {
    let mut decoder = Decoder::new(model);
    decoder.start(&[prompt]).unwrap();
    beam_search(&mut decoder, config).unwrap()
}

/// The sum of the log probabilities of `tokens` after `prompt`, without a cache.
fn log_probability(model: &GptModel, prompt: &[u32], tokens: &[u32]) -> f64 {
    let mut all = prompt.to_vec();
    let mut sum = 0.0;
    for &token in tokens {
        let first = all.len().saturating_sub(model.config().context_length);
        let idx = Array2::from_shape_vec((1, all.len() - first), all[first..].to_vec()).unwrap();
        let log_p = log_softmax(&model.forward(&idx).unwrap(), Axis(2));
        sum += f64::from(log_p[[0, all.len() - first - 1, token as usize]]);
        all.push(token);
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn one_beam_is_greedy(model in models(), max_new_tokens in 1..8usize) {
        let config = BeamConfig { num_beams: 1, max_new_tokens, length_penalty: 1.0, stop_ids: vec![] };
        let best = &search(&model, &[0], &config)[0];
        let mut decoder = Decoder::new(&model);
        decoder.prompt(&[&[0]]).unwrap();
        for &token in &best.tokens {
            prop_assume!(has_clear_winner(&decoder.logits(0)));
            prop_assert_eq!(token, greedy_id(&decoder.logits(0)).unwrap());
            decoder.step(&[token]).unwrap();
        }
        prop_assert_eq!(best.tokens.len(), max_new_tokens);
    }

    #[test]
    fn scores_are_the_log_probabilities_of_the_tokens_and_fall(
        model in models(), num_beams in 1..6usize, max_new_tokens in 1..7usize, length_penalty in -1.0f32..2.0, stop in any::<bool>(),
    ) {
        let stop_ids = if stop { vec![0, 1] } else { vec![] };
        let num_beams = num_beams.min(model.config().vocab_size);
        let config = BeamConfig { num_beams, max_new_tokens, length_penalty, stop_ids };
        let hypotheses = search(&model, &[1], &config);
        prop_assert!(!hypotheses.is_empty() && hypotheses.len() <= num_beams);
        prop_assert!(hypotheses.is_sorted_by(|a, b| a.score >= b.score));
        for hypothesis in &hypotheses {
            let mut tokens = hypothesis.tokens.clone();
            if let FinishReason::StopToken(id) = hypothesis.finish {
                tokens.push(id);
            }
            let expected = log_probability(&model, &[1], &tokens);
            prop_assert!((hypothesis.log_probability - expected).abs() < 1e-4, "{} not {}", hypothesis.log_probability, expected);
            let length = (tokens.len() as f64).powf(f64::from(length_penalty));
            prop_assert!((hypothesis.score - hypothesis.log_probability / length).abs() < 1e-9);
        }
    }
}

#[test]
fn with_a_beam_for_every_prefix_it_finds_the_most_probable_text() {
    for seed in 0..10 {
        let config = GptConfig {
            vocab_size: 16,
            context_length: 6,
            emb_dim: 6,
            n_heads: 2,
            n_layers: 2,
            ..GptConfig::GPT2_124M
        };
        let model = GptModel::new(config, &mut TorchRng::manual_seed(seed)).unwrap();
        let beams = BeamConfig {
            num_beams: 16,
            max_new_tokens: 2,
            length_penalty: 1.0,
            stop_ids: vec![],
        };
        let best = &search(&model, &[2], &beams)[0];
        let all = (0..256u32).map(|i| [i & 15, i >> 4]);
        let expected = all
            .map(|tokens| log_probability(&model, &[2], &tokens))
            .fold(f64::NEG_INFINITY, f64::max);
        assert!(
            (best.log_probability - expected).abs() < 1e-5,
            "seed {seed}: {} not {expected}",
            best.log_probability
        );
    }
}
