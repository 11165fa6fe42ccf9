//! Beam search against the search of everything.

use crate::common::{append, has_clear_winner, models, scripted, take_in};
use generate::{
    BeamConfig, Decoder, DecoderConfig, FinishReason, Hypothesis, PastContext, beam_search,
    greedy_id,
};
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
        take_in(&mut decoder, &[&[0]]);
        for &token in &best.tokens {
            prop_assume!(has_clear_winner(&decoder.logits(0)));
            prop_assert_eq!(token, greedy_id(&decoder.logits(0)).unwrap());
            append(&mut decoder, &[token]);
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

/// The scores of beam search over all continuations by one token, not the best few, with a length
/// penalty of 2.
fn scores_among_all(model: &GptModel, prompt: &[u32], config: &BeamConfig) -> Vec<f64> {
    let (mut beams, mut finished) = (vec![vec![]], Vec::new());
    for length in 1..=config.max_new_tokens {
        let mut candidates = Vec::new();
        for beam in &beams {
            for token in 0..model.config().vocab_size as u32 {
                let tokens = [&beam[..], &[token]].concat();
                candidates.push((log_probability(model, prompt, &tokens), tokens));
            }
        }
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
        let stops = |tokens: &[u32]| config.stop_ids.contains(&tokens[length - 1]);
        for (log_p, tokens) in &candidates[..config.num_beams] {
            if stops(tokens) || length == config.max_new_tokens {
                finished.push(log_p / (length * length) as f64);
            }
        }
        finished.sort_by(|a, b| b.total_cmp(a));
        finished.truncate(config.num_beams);
        let going = candidates.iter().filter(|(_, tokens)| !stops(tokens));
        let going: Vec<_> = going.take(config.num_beams).collect();
        let reachable = going[0].0 / (length * length) as f64;
        if finished.len() == config.num_beams && finished[config.num_beams - 1] >= reachable {
            break;
        }
        beams = going
            .into_iter()
            .map(|(_, tokens)| tokens.clone())
            .collect();
    }
    finished
}

#[test]
fn with_several_stop_tokens_as_many_beams_go_on() {
    for seed in 0..100 {
        let config = GptConfig {
            vocab_size: 8,
            context_length: 8,
            emb_dim: 8,
            n_heads: 2,
            n_layers: 1,
            ..GptConfig::GPT2_124M
        };
        let mut model = GptModel::new(config, &mut TorchRng::manual_seed(seed)).unwrap();
        model.out_head.as_mut().unwrap().weight *= 2.0;
        let beams = BeamConfig {
            num_beams: 2,
            max_new_tokens: 4,
            length_penalty: 2.0,
            stop_ids: vec![1, 2, 3, 4, 5, 2],
        };
        let expected = scores_among_all(&model, &[0], &beams);
        let found = search(&model, &[0], &beams);
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                (found.score - expected).abs() < 1e-4,
                "seed {seed}: {found:?}, not {expected}"
            );
        }
    }
}

#[test]
fn a_full_context_ends_the_beams_with_what_they_have() {
    let model = scripted(&[11, 12, 13]); // context 4
    let config = DecoderConfig {
        past_context: PastContext::Stop,
        ..DecoderConfig::default()
    };
    let mut decoder = Decoder::with_config(&model, config).unwrap();
    decoder.start(&[&[1]]).unwrap();
    let best = &beam_search(&mut decoder, &BeamConfig::default()).unwrap()[0];
    assert_eq!(best.finish, FinishReason::ContextFull);
    assert_eq!(
        (best.tokens.len(), &best.tokens[..3]),
        (4, &[11, 12, 13][..])
    );
}
