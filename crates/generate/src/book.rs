//! The functions `generate_text_simple` (listing 4.8) and `generate` (listing 5.4) of the book.
//!
//! As in the book, both functions process the whole context again for each new token, which is
//! simple but slow. The tests compare the results of the [`Decoder`](crate::Decoder), which has a
//! cache, with the results of these functions.

use gpt::{GptConfig, GptModel};
use ndarray::{Array1, Array2, ArrayRef2, Axis, concatenate, s};
use tensor_ops::softmax;
use torch_rng::TorchRng;

use crate::filters::{greedy_id, softmax_with_temperature, top_k_filter};
use crate::{GenerateError, Sampling};

/// Settings of [`generate`]. The fields have the same names as the arguments of the book's
/// function.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct BookSampling {
    /// Maximum number of tokens to append. The default is 50.
    pub max_new_tokens: usize,
    /// Maximum number of tokens that the model sees at a time. If a text is longer, the model sees
    /// only the end of it. The default is 1,024, the context length of GPT-2.
    pub context_size: usize,
    /// Temperature by which the logits are divided, a finite number of at least 0. If it is 0, the
    /// token with the largest logit is chosen and no random numbers are drawn. The default is 0.
    pub temperature: f32,
    /// Number of most probable tokens from which the next token is drawn. If it is `None` or 0, the
    /// token is drawn from the whole vocabulary. The default is `None`.
    pub top_k: Option<usize>,
    /// ID of a token that ends the text, such as `<|endoftext|>`. If `idx` has a single row, this
    /// token isn't appended to the text. The default is `None`.
    pub eos_id: Option<u32>,
}

/// By default, [`generate`] appends 50 tokens with greedy decoding, doesn't stop at any token, and
/// uses the context length of the GPT-2 model with 124 million parameters.
impl Default for BookSampling {
    fn default() -> Self {
        Self {
            max_new_tokens: 50,
            context_size: GptConfig::GPT2_124M.context_length,
            temperature: 0.0,
            top_k: None,
            eos_id: None,
        }
    }
}

/// Appends the most probable next token to each row of `idx`, and repeats this step
/// `max_new_tokens` times (listing 4.8).
///
/// The shape of `idx` is (batch, num_tokens), and the shape of the result is (batch, num_tokens +
/// max_new_tokens).
///
/// A [`Decoder`](crate::Decoder) generates the same tokens faster, because each token passes
/// through the model only once.
///
/// ```
/// use gpt::{GptConfig, GptModel};
/// use ndarray::array;
/// use torch_rng::TorchRng;
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let out = generate::generate_text_simple(&model, array![[1, 2, 3]], 6, 8)?;
/// assert_eq!(out.dim(), (1, 9));
/// # Ok::<(), generate::GenerateError>(())
/// ```
///
/// # Errors
///
/// Returns an error in each of these cases:
/// - `idx` is empty, or it contains a token that isn't in the model's vocabulary.
/// - The context size is 0.
/// - The input of the model would become longer than the model's context length.
/// - A logit is NaN or plus infinity.
pub fn generate_text_simple(
    model: &GptModel,
    mut idx: Array2<u32>,
    max_new_tokens: usize,
    context_size: usize,
) -> Result<Array2<u32>, GenerateError> {
    check_prompt(model, &idx, max_new_tokens, context_size)?;
    for _ in 0..max_new_tokens {
        // The model sees at most the last `context_size` tokens.
        let first = idx.ncols().saturating_sub(context_size);
        let idx_cond = idx.slice(s![.., first..]);
        let logits = model.forward(&idx_cond)?; // (batch, num_tokens, vocab_size)
        let logits = logits.slice(s![.., -1, ..]); // last position: (batch, vocab_size)
        let probas = softmax(&logits, Axis(1)); // (batch, vocab_size)
        let idx_next = argmax(&probas)?; // (batch, 1)
        idx = concatenate![Axis(1), idx, idx_next]; // (batch, num_tokens + 1)
    }
    Ok(idx)
}

/// Returns the index of the largest value of each row, like `torch.argmax(x, dim=-1,
/// keepdim=True)`. The shape of `x` is (batch, vocab_size), and the shape of the result is (batch,
/// 1).
fn argmax(x: &ArrayRef2<f32>) -> Result<Array2<u32>, GenerateError> {
    let ids: Result<Array1<u32>, _> = x.rows().into_iter().map(|row| greedy_id(&row)).collect();
    Ok(ids?.insert_axis(Axis(1)))
}

/// Appends up to `max_new_tokens` tokens to each row of `idx` (listing 5.4). The tokens are drawn
/// at random or, if the temperature is 0, chosen greedily.
///
/// The shape of `idx` is (batch, num_tokens), and the shape of the result is (batch, num_tokens +
/// number of new tokens).
///
/// The text in a row ends when `eos_id` is chosen. If there are several rows, the function
/// continues until all of them have ended. Meanwhile, it appends `eos_id` to the rows that have
/// already ended.
///
/// ```
/// use generate::{BookSampling, generate};
/// use gpt::{GptConfig, GptModel};
/// use ndarray::array;
/// use torch_rng::TorchRng;
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let settings = BookSampling {
///     max_new_tokens: 5, context_size: 8, temperature: 1.4, top_k: Some(25), eos_id: None,
/// };
/// let ids = generate(&model, array![[1, 2, 3]], settings, &mut TorchRng::manual_seed(123))?;
/// assert_eq!(ids.dim(), (1, 8));
/// # Ok::<(), generate::GenerateError>(())
/// ```
///
/// # Errors
///
/// Returns an error in each of these cases:
/// - [`generate_text_simple`] would return an error.
/// - The temperature is negative or not finite.
/// - No token can be drawn from the probabilities.
pub fn generate(
    model: &GptModel,
    mut idx: Array2<u32>,
    sampling: BookSampling,
    rng: &mut TorchRng,
) -> Result<Array2<u32>, GenerateError> {
    check_prompt(model, &idx, sampling.max_new_tokens, sampling.context_size)?;
    let vocab_size = model.config().vocab_size;
    let temperature = sampling.temperature;
    let settings = Sampling {
        temperature,
        ..Sampling::GREEDY
    };
    settings.check()?;
    let mut ended = vec![false; idx.nrows()];
    for _ in 0..sampling.max_new_tokens {
        // 1. Compute the logits at the last position.
        let first = idx.ncols().saturating_sub(sampling.context_size);
        let idx_cond = idx.slice(s![.., first..]); // (batch, at most context_size)
        let hidden = model.forward_hidden(&idx_cond)?;
        let logits = model.logits(&hidden.slice(s![.., -1.., ..])); // (batch, 1, vocab_size)
        let logits = logits.index_axis(Axis(1), 0); // (batch, vocab_size)
        // 2. Keep the `top_k` largest logits and compute the probabilities.
        let mut next = Vec::with_capacity(idx.nrows());
        let mut probabilities = Vec::new(); // (batch, vocab_size), row after row
        for logits in logits.rows() {
            let logits = match sampling.top_k {
                Some(top_k) => top_k_filter(&logits, top_k),
                None => logits.to_owned(),
            };
            if temperature > 0.0 {
                probabilities.extend(softmax_with_temperature(&logits, temperature)?);
            } else {
                next.push(greedy_id(&logits)?);
            }
        }
        // 3. Draw the next token of each text at random. (At temperature 0, the loop above has
        // already chosen the most probable token instead.)
        if temperature > 0.0 {
            let drawn = rng.multinomial_rows(&probabilities, vocab_size)?;
            next.extend(drawn.into_iter().map(|id| id as u32));
        }
        // 4. Stop if all texts have ended. Otherwise, append the tokens.
        if let Some(eos_id) = sampling.eos_id {
            for (next, ended) in next.iter_mut().zip(&mut ended) {
                *ended |= *next == eos_id;
                if *ended {
                    *next = eos_id;
                }
            }
            if ended.iter().all(|&ended| ended) {
                break;
            }
        }
        let next = Array1::from(next).insert_axis(Axis(1)); // (batch, 1)
        idx = concatenate![Axis(1), idx, next];
    }
    Ok(idx)
}

/// Checks the prompt `idx` and the context size, so that [`generate`] and [`generate_text_simple`]
/// can return an error before they compute anything.
///
/// # Errors
///
/// Returns an error if the prompt is empty, if the context size is 0, or if the input of the model
/// would become longer than the model's context length.
fn check_prompt(
    model: &GptModel,
    idx: &Array2<u32>,
    max_new_tokens: usize,
    context_size: usize,
) -> Result<(), GenerateError> {
    let context_length = model.config().context_length;
    if idx.is_empty() {
        return Err(GenerateError::EmptyPrompt);
    }
    let longest_input = idx.ncols().saturating_add(max_new_tokens.saturating_sub(1));
    if context_size == 0 || longest_input.min(context_size) > context_length {
        return Err(GenerateError::ContextSize {
            context_size,
            context_length,
        });
    }
    Ok(())
}
