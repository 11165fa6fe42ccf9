//! Models that run inside a web page. A model is unpacked from a compact binary format. The page
//! can then ask how the model processes a text, and have the model continue the text.
//!
//! A packed model consists of three parts:
//! - The length of the header in bytes, as a little-endian `u32`.
//! - The header, which is JSON. It contains the model's name, its configuration, the tokens and
//!   merges of its tokenizer, and the IDs of its BOS and EOS tokens.
//! - The parameters in the order of `named_parameters`. Vectors are stored as little-endian `f32`.
//!   Matrices are quantized row by row. Each row consists of its scale, which is a little-endian
//!   `f32`, and of one byte per weight, which is an integer from -127 to 127. A weight is the
//!   product of its integer and the scale.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use generate::{BlockView, Candidate, Decoder, Inspection, Sampling};
use gpt::{GptConfig, GptModel, Parameters};
use ndarray::{ArrayRef1, ArrayView2};
use serde_json::{Value, from_value, json};
use torch_rng::TorchRng;

use crate::tokenizer::PageTokenizer;

/// Number of candidates for the next token that a page gets for each position of the text when it
/// requests the predictions after one of the model's transformer blocks.
const PREDICTIONS: usize = 3;
/// Maximum number of tokens that a web page can request when its model continues a text.
const MAX_NEW_TOKENS: u64 = 500;

/// A model in a web page, with its tokenizer and the continuation that it is generating.
pub struct PageModel {
    name: Value,
    /// The language model. Its memory is leaked, so that the decoder of a continuation, which is
    /// stored next to the model, can borrow it. This wastes no memory, because a page has at most
    /// one model and needs it for as long as the page is open.
    model: &'static GptModel,
    writing: Option<Writing>,
    words: PageTokenizer,
    bos: Option<u32>,
    eos: Vec<u32>,
}

/// A continuation of a text, to which each request adds one token.
struct Writing {
    decoder: Decoder<&'static GptModel>,
    sampling: Sampling,
    rng: TorchRng,
    /// Number of tokens in the text that is being continued.
    prompt: usize,
    /// Maximum number of tokens that can still be added.
    left: u64,
}

impl PageModel {
    /// Unpacks a model from the binary format that is described at the top of `model.rs`.
    ///
    /// # Errors
    /// Returns an error if `bytes` ends too early or is too long, if the header is invalid, or if
    /// the header's configuration, tokens or merges are invalid.
    pub fn unpack(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        let length = take(&mut rest, 4)?;
        let length = u32::from_le_bytes(length.try_into()?) as usize;
        let header: Value = serde_json::from_slice(take(&mut rest, length)?)?;
        let config: GptConfig = from_value(header["config"].clone())?;
        let numbers = config.size()?.total();
        ensure!(
            numbers <= rest.len(),
            "the packed model is truncated: it has {numbers} weights, but only {} bytes follow the header",
            rest.len()
        );
        let mut model = GptModel::zeros(config)?;
        for (_, mut parameter) in model.named_parameters_mut() {
            let wide = parameter.ndim() > 1;
            let width = parameter.shape().last().copied().unwrap_or(1);
            let numbers = parameter
                .as_slice_mut()
                .context("a parameter isn't contiguous in memory")?;
            if wide {
                for row in numbers.chunks_mut(width) {
                    let scale = f32::from_le_bytes(take(&mut rest, 4)?.try_into()?);
                    for (number, &byte) in row.iter_mut().zip(take(&mut rest, width)?) {
                        *number = scale * f32::from(byte as i8);
                    }
                }
            } else {
                for number in numbers {
                    *number = f32::from_le_bytes(take(&mut rest, 4)?.try_into()?);
                }
            }
        }
        ensure!(
            rest.is_empty(),
            "the packed model is damaged: {} bytes follow the last weight",
            rest.len()
        );
        let tokens = from_value(header["tokens"].clone())?;
        let merges: Vec<(u32, u32, u32)> = from_value(header["merges"].clone())?;
        Ok(Self {
            name: header["name"].clone(),
            model: Box::leak(Box::new(model)),
            writing: None,
            words: PageTokenizer::of(tokens, &merges)?,
            bos: from_value(header["bos"].clone())?,
            eos: from_value(header["eos"].clone())?,
        })
    }

    /// Returns the model, whose weights were rounded when it was packed.
    #[cfg(all(test, feature = "pack"))]
    pub(crate) fn model(&self) -> &'static GptModel {
        self.model
    }

    /// Answers a request about a text:
    /// - `{"text"}` returns the tokens of the text in the form of [`tokens`], the model's name, and
    ///   the number of tokens that were left out at the beginning because the text is longer than
    ///   the context.
    /// - `{"text", "block"}` returns the results of one block in the form of
    ///   [`block`](crate::block).
    /// - `{"text", "write": {"count", "temperature", "top_k", "seed"}}` starts a continuation of up
    ///   to `count` tokens. The answer is empty.
    /// - `{"next"}` adds a token to the continuation. The answer contains the new text, its
    ///   number of tokens, and whether the continuation is finished.
    ///
    /// If the text in a request is empty, the model processes its BOS token (the beginning-of-text
    /// token) instead.
    ///
    /// # Errors
    /// Returns an error if the text is empty and the model has no BOS token, if there is no block
    /// of this number, if a setting of the continuation is missing or out of range, or if no
    /// continuation has been started.
    pub fn answer(&mut self, request: &Value) -> Result<Value> {
        if request["next"].is_boolean() {
            return self.write_next();
        }
        let text = request["text"].as_str().unwrap_or_default();
        let mut ids = self.words.encode(text)?;
        if ids.is_empty() {
            ids.extend(self.bos);
        }
        ensure!(!ids.is_empty(), "the text must contain at least one token");
        if request["write"].is_object() {
            self.writing = Some(self.begin(&ids, &request["write"])?);
            return Ok(json!({}));
        }
        let context = self.model.config().context_length;
        let left_out = ids.len().saturating_sub(context);
        let name = |id| self.words.text_of(&[id]);
        let (ids, top) = (&ids[left_out..], Inspection::TOP);
        let mut scales = LogSumExps::default();
        let inspection = Inspection::of(self.model, &name, ids, top, |logits| scales.add(logits))?;
        if let Some(layer) = request["block"].as_u64() {
            let mut blocks = inspection.blocks(0, PREDICTIONS)?;
            let asked = blocks.nth(layer as usize);
            return Ok(block(
                &asked.with_context(|| format!("the model has no block {layer}"))??,
            ));
        }
        let mut answer = tokens(self.model, &inspection, &scales);
        answer["name"] = self.name.clone();
        answer["left_out"] = left_out.into();
        Ok(answer)
    }

    /// Prepares a continuation of the tokens `ids`. At temperature 0, each new token is the most
    /// likely one. Otherwise, the new tokens are sampled in the same way as by `gpt generate` with
    /// the same seed.
    ///
    /// A [`generate::TokenStream`] would generate the same tokens, but can't be used here: it
    /// measures time, and a WebAssembly module without imports has no access to a clock.
    fn begin(&self, ids: &[u32], asked: &Value) -> Result<Writing> {
        let number = |name: &str| {
            asked[name]
                .as_u64()
                .with_context(|| format!("{name} must be a whole number, got {}", asked[name]))
        };
        let left = number("count")?;
        ensure!(
            left <= MAX_NEW_TOKENS,
            "count must be at most {MAX_NEW_TOKENS}, got {left}"
        );
        let sampling = Sampling {
            temperature: asked["temperature"]
                .as_f64()
                .context("temperature must be a number")? as f32,
            top_k: Some(number("top_k")? as usize),
            ..Sampling::GREEDY
        };
        sampling.check()?;
        let rng = TorchRng::manual_seed(number("seed")?);
        let mut decoder = Decoder::new(self.model);
        decoder.start(ids)?;
        Ok(Writing {
            decoder,
            sampling,
            rng,
            prompt: ids.len(),
            left,
        })
    }

    /// Adds one token to the continuation, unless the continuation is finished. Returns the text of
    /// all new tokens, their number, and whether the continuation is now finished. The token that
    /// marks the end of a text isn't added.
    fn write_next(&mut self) -> Result<Value> {
        let writing = self
            .writing
            .as_mut()
            .context("no continuation has been started")?;
        let decoder = &mut writing.decoder;
        if writing.left > 0 {
            let logits = decoder.advance()?;
            let id = writing.sampling.choose(&logits, &mut writing.rng)?;
            writing.left = match self.eos.contains(&id) {
                true => 0,
                false => {
                    decoder.push(&[id])?;
                    writing.left - 1
                }
            };
        }
        let new = &decoder.tokens()[writing.prompt..];
        let (text, done) = (self.words.text_of(new), writing.left == 0);
        Ok(json!({ "text": text, "count": new.len(), "done": done }))
    }
}

/// Removes the first `count` bytes from `rest` and returns them.
fn take<'b>(rest: &mut &'b [u8], count: usize) -> Result<&'b [u8]> {
    let (taken, left) = rest
        .split_at_checked(count)
        .context("the packed model is truncated: it ends before the last weight")?;
    *rest = left;
    Ok(taken)
}

/// Converts an `f32` to `f64` in such a way that JSON shows only as many digits as are needed to
/// identify the `f32`. For example, 0.1 is shown as 0.1 and not as 0.10000000149011612.
pub(crate) fn short(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::NAN)
}

/// Sampling temperatures that the web page for a trained model offers. The probabilities of the
/// next token are computed for each of them.
const TEMPERATURES: [f32; 9] = [0.25, 0.5, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0, 4.0];

/// The log-sum-exp of the logits, for each token of a text and each of the temperatures that
/// readers can choose on the page. With these numbers, the page converts logits to probabilities.
#[derive(Clone, Debug, Default)]
pub struct LogSumExps {
    /// Logarithms of the sums of exp(logit / temperature) over the vocabulary. The outer vector has
    /// one element per token of the text, and each inner vector has one element per temperature.
    log_sums: Vec<Vec<f32>>,
}

impl LogSumExps {
    /// Adds the log-sum-exps for the next token of the text, one for each temperature. `logits` has
    /// the shape (vocab_size) and contains the logits that the model computes at the position of
    /// this token.
    pub fn add(&mut self, logits: &ArrayRef1<f32>) {
        let log_sum = |&temperature: &f32| log_sum_exp(logits, temperature);
        self.log_sums
            .push(TEMPERATURES.iter().map(log_sum).collect());
    }
}

/// Returns the logarithm of the sum of exp(logit / temperature) over the vocabulary. `logits` is an
/// array of shape (vocab_size).
pub(crate) fn log_sum_exp(logits: &ArrayRef1<f32>, temperature: f32) -> f32 {
    let most = logits.iter().copied().fold(f32::MIN, f32::max);
    let exponentials = logits.iter().map(|x| ((x - most) / temperature).exp());
    most / temperature + exponentials.sum::<f32>().ln()
}

/// Returns information about the tokens of a text as JSON for a page. For each token, the JSON
/// contains its text, its ID, its loss in nats (`null` for the first token), the most likely next
/// tokens with their logits, and the numbers in `scales`, which must have been computed for the
/// same text.
pub fn tokens(model: &GptModel, inspection: &Inspection<'_>, scales: &LogSumExps) -> Value {
    let of_next = |next: &Candidate| json!([next.text, short(next.logit)]);
    let of_token = |(token, scales): (&generate::Token, &Vec<f32>)| {
        let scales = scales.iter().copied().map(short);
        json!({
            "text": token.text, "id": token.id, "loss": token.loss.map(short),
            "scales": scales.collect::<Vec<_>>(),
            "next": token.next.iter().map(of_next).collect::<Vec<_>>(),
        })
    };
    let tokens = inspection.tokens.iter().zip(&scales.log_sums);
    let tokens: Vec<Value> = tokens.map(of_token).collect();
    json!({
        "tokens": tokens, "temperatures": TEMPERATURES.map(short),
        "layers": model.config().n_layers, "heads": model.config().n_heads,
    })
}

/// Returns the attention weights of each head of a block, and the next tokens that the model would
/// predict at this block, as JSON for a page. The attention weights are encoded as a Base64 string
/// per head, which contains the lower triangle of the matrix row by row, including the diagonal.
/// Each weight is a little-endian `u16` in units of 1/10,000.
pub fn block(block: &BlockView) -> Value {
    let heads: Vec<String> = block
        .attention
        .outer_iter()
        .map(attention_in_base64)
        .collect();
    let of_next = |next: &Candidate| json!([next.text, short(next.probability)]);
    let of_token = |next: &Vec<Candidate>| next.iter().map(of_next).collect::<Vec<_>>();
    let predictions: Vec<Vec<Value>> = block.predictions.iter().map(of_token).collect();
    json!({ "heads": heads, "predictions": predictions })
}

/// Encodes the attention weights of a head, of shape (num_tokens, num_tokens), in Base64. Only the
/// lower triangle of the matrix is encoded, row by row and including the diagonal. Each weight is a
/// little-endian `u16` in units of 1/10,000, because the page shows four decimals.
pub(crate) fn attention_in_base64(weights: ArrayView2<f32>) -> String {
    let mut bytes = Vec::with_capacity(weights.nrows() * (weights.nrows() + 1));
    for (query, row) in weights.outer_iter().enumerate() {
        for weight in row.iter().take(query + 1) {
            bytes.extend(((weight * 10_000.0).round() as u16).to_le_bytes());
        }
    }
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn weights_are_kept_to_the_printed_digits() {
        let weights = array![[1.0, 0.0], [0.551_74, 0.448_26]];
        let bytes = STANDARD
            .decode(attention_in_base64(weights.view()))
            .unwrap();
        let numbers: Vec<u16> = bytes
            .chunks(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .collect();
        assert_eq!(numbers, [10_000, 5517, 4483]);
    }
}
