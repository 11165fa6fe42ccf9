//! Several sequences generated together, each ending on its own.
//!
//! A sequence that has ended takes no further part, so each gets what it would get alone with its generator.

use torch_rng::TorchRng;

use crate::stream::choose;
use crate::{Decoder, FinishReason, GenerateError, GenerateOptions};

/// What a sequence was continued with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The new tokens.
    pub tokens: Vec<u32>,
    /// Why there are no more.
    pub finish: FinishReason,
}

/// Continues every sequence that `decoder` holds; `rngs` has a generator for each.
///
/// ```
/// use generate::{Decoder, GenerateOptions, complete};
/// use gpt::{GptConfig, GptModel};
/// use torch_rng::TorchRng;
///
/// let config = GptConfig { vocab_size: 50, context_length: 8, emb_dim: 8, n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let mut decoder = Decoder::new(&model);
/// decoder.start(&[&[1, 2, 3], &[4]])?;
/// let options = GenerateOptions { max_new_tokens: 5, ..GenerateOptions::default() };
/// let completions = complete(&mut decoder, &options, &mut vec![TorchRng::manual_seed(0); 2])?;
/// assert_eq!(completions[1].tokens.len(), 5);
/// # Ok::<(), generate::GenerateError>(())
/// ```
///
/// # Errors
/// If a setting is out of range, there is not one generator a sequence, or the model's logits are not numbers.
pub fn complete(
    decoder: &mut Decoder,
    options: &GenerateOptions,
    rngs: &mut [TorchRng],
) -> Result<Vec<Completion>, GenerateError> {
    options
        .sampling
        .check(decoder.model().config().vocab_size)?;
    let batch = decoder.batch();
    if batch == 0 {
        return Err(GenerateError::NoPrompt);
    }
    if rngs.len() != batch {
        return Err(GenerateError::BatchSize {
            expected: batch,
            found: rngs.len(),
        });
    }
    let mut tokens = vec![Vec::new(); batch];
    let mut finish: Vec<Option<FinishReason>> = vec![None; batch];
    for _ in 0..options.max_new_tokens {
        if finish.iter().all(Option::is_some) {
            break;
        }
        decoder.advance()?;
        for (row, rng) in rngs.iter_mut().enumerate() {
            if finish[row].is_none() {
                let choice = choose(decoder, row, options, rng)?;
                tokens[row].extend(choice.token);
                finish[row] = choice.finish;
            }
        }
    }
    let completions = tokens.into_iter().zip(finish);
    Ok(completions
        .map(|(tokens, finish)| Completion {
            tokens,
            finish: finish.unwrap_or(FinishReason::MaxNewTokens),
        })
        .collect())
}
