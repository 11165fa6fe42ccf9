//! Beam search: the `num_beams` most probable continuations are followed at once, and the best
//! finished one wins.
//!
//! As transformers' `generate(num_beams=.., do_sample=False, early_stopping=False)`: of the
//! `num_beams` best candidates per step, times 2 or what is one more than there are stop tokens,
//! those among the first `num_beams` that end are set aside with the score
//! `log p / length^length_penalty`, and the best that don't end go on.
//! It draws nothing, and it is not sure to find the most probable text.

use ndarray::Axis;
use tensor_ops::log_softmax;

use crate::filters::{check_logits, likeliest};
use crate::{Decoder, FinishReason, GenerateError};

/// How beam search works.
#[derive(Clone, Debug, PartialEq)]
pub struct BeamConfig {
    /// Continuations followed at once, at most as many as the vocabulary has tokens; 1 is greedy.
    pub num_beams: usize,
    /// The most tokens to generate.
    pub max_new_tokens: usize,
    /// Above 0 it favours longer texts, 0 compares plain log probabilities, below 0 it favours
    /// shorter ones; transformers' default is 1.
    pub length_penalty: f32,
    /// Tokens that end a text.
    pub stop_ids: Vec<u32>,
}

/// Four beams, 50 tokens, and lengths compared as transformers does.
impl Default for BeamConfig {
    fn default() -> Self {
        Self {
            num_beams: 4,
            max_new_tokens: 50,
            length_penalty: 1.0,
            stop_ids: Vec::new(),
        }
    }
}

impl BeamConfig {
    /// Checks every setting against its range.
    ///
    /// # Errors
    /// If `num_beams` is 0 or larger than the vocabulary, or the length penalty is not finite.
    pub fn check(&self, vocab_size: usize) -> Result<(), GenerateError> {
        let num_beams = self.num_beams;
        if num_beams == 0 || num_beams > vocab_size {
            return Err(GenerateError::Beams {
                num_beams,
                vocab_size,
            });
        }
        if !self.length_penalty.is_finite() {
            return Err(GenerateError::Setting {
                name: "length_penalty",
                expected: "a finite number",
                value: self.length_penalty,
            });
        }
        Ok(())
    }
}

/// One continuation.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// The new tokens, without the stop token.
    pub tokens: Vec<u32>,
    /// The sum of the tokens' log probabilities, that of the stop token included.
    pub log_probability: f64,
    /// `log_probability / length^length_penalty`: what hypotheses are compared by.
    pub score: f64,
    /// Why it ended.
    pub finish: FinishReason,
}

/// A continuation by one token.
#[derive(Clone, Copy)]
struct Candidate {
    log_probability: f64,
    beam: usize,
    token: u32,
}

/// Continues the one sequence that `decoder` holds, by beam search.
///
/// ```
/// use generate::{BeamConfig, Decoder, beam_search};
/// use gpt::{GptConfig, GptModel};
/// use torch_rng::TorchRng;
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let mut decoder = Decoder::new(&model);
/// decoder.start(&[&[1, 2, 3]])?;
/// let beams = BeamConfig { num_beams: 3, max_new_tokens: 4, ..BeamConfig::default() };
/// let best = &beam_search(&mut decoder, &beams)?[0];
/// assert_eq!(best.tokens.len(), 4);
/// # Ok::<(), generate::GenerateError>(())
/// ```
///
/// It gives up to `num_beams` hypotheses, best first.
///
/// Afterwards the decoder holds the beams that were left.
///
/// # Errors
/// As [`BeamConfig::check`], or if the decoder doesn't hold exactly one sequence, or the model's
/// logits are not numbers.
pub fn beam_search(
    decoder: &mut Decoder,
    config: &BeamConfig,
) -> Result<Vec<Hypothesis>, GenerateError> {
    config.check(decoder.model().config().vocab_size)?;
    if decoder.batch() != 1 {
        return Err(GenerateError::NotOneSequence {
            found: decoder.batch(),
        });
    }
    let mut stop_ids = config.stop_ids.clone();
    stop_ids.sort_unstable();
    stop_ids.dedup();
    // As many that all beams go on even if each of their best tokens ends it.
    let count = config.num_beams * (1 + stop_ids.len()).max(2);
    let prompt_len = decoder.tokens(0).len();
    let mut beams = vec![0.0]; // log probabilities, best first; the decoder's sequences
    let mut finished: Vec<Hypothesis> = Vec::new();
    for length in 1..=config.max_new_tokens {
        decoder.advance()?;
        let candidates = best_candidates(decoder, &beams, count)?;
        // A token for which the context has no room left is still a result, as in a stream.
        let last = match length == config.max_new_tokens {
            true => Some(FinishReason::MaxNewTokens),
            false => (decoder.is_full(0)).then_some(FinishReason::ContextFull),
        };
        let mut going = Vec::with_capacity(config.num_beams);
        for (rank, candidate) in candidates.into_iter().enumerate() {
            let stops = stop_ids.binary_search(&candidate.token).is_ok();
            if !stops && going.len() < config.num_beams {
                going.push(candidate);
            }
            let finish = match stops {
                true => Some(FinishReason::StopToken(candidate.token)),
                false => last.clone(),
            };
            if let Some(finish) = finish.filter(|_| rank < config.num_beams) {
                let before = &decoder.tokens(candidate.beam)[prompt_len..];
                finished.push(hypothesis(before, candidate, finish, config));
            }
        }
        finished.sort_by(|a, b| b.score.total_cmp(&a.score));
        finished.truncate(config.num_beams);
        if going.is_empty() || last.is_some() {
            break;
        }
        // The best that the beams could still reach, taken at their present length, as transformers
        // does.
        let best = score(going[0].log_probability, length, config.length_penalty);
        if finished.len() == config.num_beams
            && finished.last().is_some_and(|worst| worst.score >= best)
        {
            break;
        }
        let sources: Vec<usize> = going.iter().map(|candidate| candidate.beam).collect();
        decoder.reorder(&sources);
        for (row, candidate) in going.iter().enumerate() {
            decoder.push(row, &[candidate.token])?;
        }
        beams = going
            .iter()
            .map(|candidate| candidate.log_probability)
            .collect();
    }
    Ok(finished)
}

/// The most probable continuations by one token over all beams, best first; of equals, the earlier
/// beam and id.
fn best_candidates(
    decoder: &Decoder,
    beams: &[f64],
    count: usize,
) -> Result<Vec<Candidate>, GenerateError> {
    let mut best = Vec::new();
    for (beam, &log_probability) in beams.iter().enumerate() {
        let logits = decoder.logits(beam);
        check_logits(&logits)?;
        let log_p = log_softmax(&logits, Axis(0));
        let likeliest = likeliest(&log_p, count).into_iter();
        best.extend(likeliest.map(|token| Candidate {
            log_probability: log_probability + f64::from(log_p[token as usize]),
            beam,
            token,
        }));
    }
    best.retain(|candidate| candidate.log_probability > f64::NEG_INFINITY);
    best.sort_unstable_by(|a: &Candidate, b| {
        (b.log_probability.total_cmp(&a.log_probability))
            .then(a.beam.cmp(&b.beam))
            .then(a.token.cmp(&b.token))
    });
    best.truncate(count);
    Ok(best)
}

fn hypothesis(
    before: &[u32],
    last: Candidate,
    finish: FinishReason,
    config: &BeamConfig,
) -> Hypothesis {
    let mut tokens = before.to_vec();
    if !matches!(finish, FinishReason::StopToken(_)) {
        tokens.push(last.token);
    }
    Hypothesis {
        tokens,
        log_probability: last.log_probability,
        score: score(
            last.log_probability,
            before.len() + 1,
            config.length_penalty,
        ),
        finish,
    }
}

fn score(log_probability: f64, length: usize, length_penalty: f32) -> f64 {
    log_probability / (length as f64).powf(f64::from(length_penalty))
}
