//! The book's own loops: `generate_text_simple` (listing 4.8) and `generate` (listing 5.4).
//!
//! Each new token is computed from the whole window again, as in the book: simple, and the
//! reference that the cached [`Decoder`](crate::Decoder) is tested against.

use gpt::{GptConfig, GptModel};
use ndarray::{Array1, Array2, ArrayRef2, Axis, concatenate, s};
use tensor_ops::softmax;
use torch_rng::TorchRng;

use crate::filters::{greedy_id, softmax_with_temperature, top_k_filter};
use crate::{GenerateError, Sampling};

/// The settings of the book's `generate`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct BookSampling {
    /// Tokens to append.
    pub max_new_tokens: usize,
    /// The model sees the last `context_size` tokens.
    pub context_size: usize,
    /// Logits are divided by it before the draw; 0 takes the largest logit and draws nothing.
    pub temperature: f32,
    /// Draw among the `top_k` largest logits only; `None` and 0 are among all.
    pub top_k: Option<usize>,
    /// Stop when this token comes; it is not appended.
    pub eos_id: Option<u32>,
}

/// The book's defaults: greedy, to the end; 50 tokens, with the context of the 124M model.
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

/// Listing 4.8: appends to each row of `idx` (batch, num_tokens) the most probable next token,
/// `max_new_tokens` times.
///
/// [`Decoder`](crate::Decoder) gives the same tokens faster: it computes each of them once.
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
/// If the prompt is empty or missing, the model doesn't know a token, the context size is 0 or the
/// sequence will exceed the model's context length, or a logit is not a number.
pub fn generate_text_simple(
    model: &GptModel,
    mut idx: Array2<u32>,
    max_new_tokens: usize,
    context_size: usize,
) -> Result<Array2<u32>, GenerateError> {
    check_prompt(model, &idx, max_new_tokens, context_size)?;
    for _ in 0..max_new_tokens {
        // The model sees the last `context_size` tokens at most.
        let first = idx.ncols().saturating_sub(context_size);
        let idx_cond = idx.slice(s![.., first..]);
        let logits = model.forward(&idx_cond)?; // (batch, num_tokens, vocab_size)
        let logits = logits.slice(s![.., -1, ..]); // the last position: (batch, vocab_size)
        let probas = softmax(&logits, Axis(1)); // (batch, vocab_size)
        let idx_next = argmax(&probas)?; // (batch, 1)
        idx = concatenate![Axis(1), idx, idx_next]; // (batch, num_tokens + 1)
    }
    Ok(idx)
}

/// `torch.argmax(x, dim=-1, keepdim=True)`: (batch, vocab_size) -> (batch, 1)
fn argmax(x: &ArrayRef2<f32>) -> Result<Array2<u32>, GenerateError> {
    let ids: Result<Array1<u32>, _> = x.rows().into_iter().map(|row| greedy_id(&row)).collect();
    Ok(ids?.insert_axis(Axis(1)))
}

/// Listing 5.4: appends to each row of `idx` (batch, num_tokens) up to `max_new_tokens` tokens,
/// drawn or greedy.
///
/// In a batch, a row that has ended is filled up with `eos_id` until all rows have.
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
/// As [`generate_text_simple`], or if the temperature is negative or not finite.
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
        let first = idx.ncols().saturating_sub(sampling.context_size);
        let idx_cond = idx.slice(s![.., first..]); // (batch, at most context_size)
        let hidden = model.forward_hidden(&idx_cond)?;
        let logits = model.logits(&hidden.slice(s![.., -1.., ..])); // (batch, 1, vocab_size)
        let logits = logits.index_axis(Axis(1), 0); // (batch, vocab_size)
        let mut next = Vec::with_capacity(idx.nrows());
        let mut probabilities = Vec::new(); // (batch, vocab_size)
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
        if temperature > 0.0 {
            let drawn = rng.multinomial_rows(&probabilities, vocab_size)?;
            next.extend(drawn.into_iter().map(|id| id as u32));
        }
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

/// Checks what can be checked of a prompt before the first token is computed.
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
