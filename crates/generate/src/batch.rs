//! Several texts at once: every step takes one token of each sequence through the model, so that
//! the weights are read once for all of them.
//!
//! It streams nothing; one text as it comes is [`TokenStream`](crate::TokenStream).

use torch_rng::TorchRng;

use crate::stream::choose;
use crate::{Decoder, FinishReason, GenerateError, GenerateOptions};

/// What continued one sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The new tokens, without the one that ended the text.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub finish: FinishReason,
}

/// Continues all sequences that `decoder` holds, each drawn with its own generator: a text is the
/// one that it would be alone, whichever others are in the batch, up to the rounding of the logits.
///
/// Prompts may differ in length, and nothing is padded. A sequence that has ended costs nothing
/// more.
///
/// ```
/// use generate::{Decoder, GenerateOptions, generate_batch};
/// use gpt::{GptConfig, GptModel};
/// use torch_rng::TorchRng;
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let mut decoder = Decoder::new(&model);
/// decoder.start(&[&[1, 2, 3], &[4], &[5, 6]])?; // three prompts
/// let mut rngs = [1, 2, 3].map(TorchRng::manual_seed);
/// let options = GenerateOptions { max_new_tokens: 4, ..GenerateOptions::default() };
/// for text in generate_batch(&mut decoder, &options, &mut rngs)? {
///     assert_eq!(text.tokens.len(), 4);
/// }
/// # Ok::<(), generate::GenerateError>(())
/// ```
///
/// # Errors
/// If a setting is out of range, there is no sequence or not one generator for each, or the model's
/// logits are not numbers.
pub fn generate_batch(
    decoder: &mut Decoder<'_>,
    options: &GenerateOptions,
    rngs: &mut [TorchRng],
) -> Result<Vec<Completion>, GenerateError> {
    options.sampling.check()?;
    if rngs.len() != decoder.batch() {
        return Err(GenerateError::Generators {
            sequences: decoder.batch(),
            generators: rngs.len(),
        });
    }
    let unfinished = Completion {
        tokens: Vec::new(),
        finish: FinishReason::MaxNewTokens,
    };
    let mut completions = vec![unfinished; rngs.len()];
    let mut going: Vec<usize> = (0..rngs.len()).collect();
    going.retain(|&row| {
        let is_over = decoder.is_over(row);
        if is_over {
            completions[row].finish = FinishReason::ContextFull;
        }
        !is_over
    });
    for _ in 0..options.max_new_tokens {
        if going.is_empty() {
            break;
        }
        decoder.advance()?;
        for row in std::mem::take(&mut going) {
            let (token, finish) = choose(decoder, row, options, &mut rngs[row])?;
            completions[row].tokens.extend(token);
            match finish {
                Some(finish) => completions[row].finish = finish,
                None => going.push(row),
            }
        }
    }
    Ok(completions)
}
