//! A model inside a page: unpacked from few bytes, and asked what it does with a text.
//!
//! Packed, it is the length of a text, that text in JSON (sizes and vocabulary), and each parameter
//! in the order of `named_parameters`: of a matrix each row's scale and its numbers as whole ones
//! from -127 to 127, of a vector its numbers.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use generate::{BlockView, Candidate, Decoder, Inspection, Sampling};
use gpt::{GptConfig, GptModel, Parameters};
use ndarray::{ArrayRef1, ArrayView2};
use serde_json::{Value, from_value, json};
use torch_rng::TorchRng;

use crate::tokenizer::PageTokenizer;

/// Predictions after each block.
const PREDICTIONS: usize = 3;
/// A reader waits for them.
const MAX_NEW_TOKENS: u64 = 500;

/// A model and its vocabulary.
pub struct PageModel {
    name: Value,
    /// A page has its model for as long as it is open, and so what is written can borrow it.
    model: &'static GptModel,
    writing: Option<Writing>,
    words: PageTokenizer,
    bos: Option<u32>,
    eos: Vec<u32>,
}

/// A text that is continued token by token.
struct Writing {
    decoder: Decoder<&'static GptModel>,
    sampling: Sampling,
    rng: TorchRng,
    /// Tokens of the text that it began with.
    prompt: usize,
    /// Tokens that may still come.
    left: u64,
}

impl PageModel {
    /// The model that was packed.
    ///
    /// # Errors
    /// The bytes aren't a packed model.
    pub fn unpack(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        let length = take(&mut rest, 4)?;
        let length = u32::from_le_bytes(length.try_into()?) as usize;
        let header: Value = serde_json::from_slice(take(&mut rest, length)?)?;
        let config: GptConfig = from_value(header["config"].clone())?;
        let numbers = config.size()?.total();
        ensure!(numbers <= rest.len(), "{numbers} numbers in less bytes");
        let mut model = GptModel::zeros(config)?;
        for (_, mut parameter) in model.named_parameters_mut() {
            let wide = parameter.ndim() > 1;
            let width = parameter.shape().last().copied().unwrap_or(1);
            let numbers = parameter.as_slice_mut().context("a parameter is a slice")?;
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
        ensure!(rest.is_empty(), "{} bytes are left over", rest.len());
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

    /// The model, with the weights that it was packed with.
    #[cfg(all(test, feature = "pack"))]
    pub(crate) fn model(&self) -> &'static GptModel {
        self.model
    }

    /// Answers the view: `{"text"}` returns the text's tokens, `{"text", "block"}` a block's work
    /// on them, `{"text", "write": {"count", "temperature", "top_k", "seed"}}` begins a
    /// continuation, and `{"next"}` returns it with one more token.
    ///
    /// # Errors
    /// There is nothing to look at or to continue, or a setting is out of its range.
    pub fn answer(&mut self, request: &Value) -> Result<Value> {
        if request["next"].is_boolean() {
            return self.write_next();
        }
        let text = request["text"].as_str().unwrap_or_default();
        let mut ids = self.words.encode(text)?;
        if ids.is_empty() {
            ids.extend(self.bos);
        }
        ensure!(!ids.is_empty(), "a text has at least one token");
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
            return Ok(block(&asked.context("there is no such block")??));
        }
        let mut answer = tokens(self.model, &inspection, &scales);
        answer["name"] = self.name.clone();
        answer["left_out"] = left_out.into();
        Ok(answer)
    }

    /// Greedily at temperature 0, otherwise drawn from the seed, like `gpt generate`. It can't use
    /// `TokenStream`, which measures time, because WebAssembly without imports has no clock.
    fn begin(&self, ids: &[u32], asked: &Value) -> Result<Writing> {
        let number = |name: &str| asked[name].as_u64().with_context(|| format!("{name}?"));
        let left = number("count")?;
        ensure!(
            left <= MAX_NEW_TOKENS,
            "{left} tokens are more than {MAX_NEW_TOKENS}"
        );
        let sampling = Sampling {
            temperature: asked["temperature"].as_f64().context("temperature?")? as f32,
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

    /// The text that has come, one token more than before, how many tokens that are, and whether it
    /// is done.
    fn write_next(&mut self) -> Result<Value> {
        let writing = self.writing.as_mut().context("nothing has begun")?;
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

/// The first bytes, which are then behind.
fn take<'b>(rest: &mut &'b [u8], count: usize) -> Result<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(count).context("bytes are missing")?;
    *rest = left;
    Ok(taken)
}

/// The number with the fewest digits that identify its f32.
pub(crate) fn short(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::NAN)
}

/// Temperatures that the view offers.
const TEMPERATURES: [f32; 9] = [0.25, 0.5, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0, 4.0];

/// The scales by which the view turns logits into probabilities, at each temperature it offers.
#[derive(Clone, Debug, Default)]
pub struct LogSumExps {
    /// The logarithm, for each token at each temperature, of the sum of exponentials of its logits
    /// divided by the temperature.
    log_sums: Vec<Vec<f32>>,
}

impl LogSumExps {
    /// Adds a token with these logits (vocab_size).
    pub fn add(&mut self, logits: &ArrayRef1<f32>) {
        let log_sum = |&temperature: &f32| log_sum_exp(logits, temperature);
        self.log_sums
            .push(TEMPERATURES.iter().map(log_sum).collect());
    }
}

/// Returns the logarithm of the sum of the exponentials of logits (vocab_size) divided by the
/// temperature.
pub(crate) fn log_sum_exp(logits: &ArrayRef1<f32>, temperature: f32) -> f32 {
    let most = logits.iter().copied().fold(f32::MIN, f32::max);
    let exponentials = logits.iter().map(|x| ((x - most) / temperature).exp());
    most / temperature + exponentials.sum::<f32>().ln()
}

/// Returns a text's tokens as the view shows them, whose logits `scales` was given.
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

/// Returns a block in the view's form: each head's weights, and the block's prediction.
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

/// The weights up to the diagonal, row after row, as little-endian u16 of ten thousandths, the
/// digits that are shown, in Base64.
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
