//! Packs a model for a web page, with eight bits per weight.
//! [`PageModel::unpack`](crate::PageModel::unpack) unpacks it again.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use checkpoint::ModelFolder;
use gpt::{GptConfig, GptModel, Parameters};
use model_tokenizer::ModelTokenizer;
use serde_json::json;
use thiserror::Error;
use train::{TrainError, latest_checkpoint};

use crate::MODEL_START;
use crate::tokenizer::PageTokenizer;

/// The reason why a model can't be packed for a web page.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotPacked {
    /// The model has more than [`MAX_NUMBERS`] weights. The field contains the number of weights
    /// that it has.
    #[error(
        "the model has {0} weights, but a model on a web page can have at most {MAX_NUMBERS}; choose a smaller model"
    )]
    Numbers(usize),
    /// The model has no tokenizer, or its tokenizer isn't a byte-level BPE tokenizer that divides
    /// text like GPT-2.
    #[error(
        "a web page requires a model whose byte-level BPE tokenizer splits text the way GPT-2's does"
    )]
    Tokenizer,
}

/// Maximum number of weights of a model in a web page. In the memory of the page, each weight is an
/// `f32` of four bytes, so a model of this size occupies 128 MB.
pub const MAX_NUMBERS: usize = 32_000_000;

/// Packs a model in the format that [`PageModel::unpack`](crate::PageModel::unpack) reads. `name`
/// is shown on the page. `bos` is the ID of the token that replaces an empty text, and `eos`
/// contains the IDs of the tokens that end a continuation.
///
/// # Errors
/// Returns an error if the model is too large for a page, or if it has no tokenizer that a page
/// supports.
pub fn pack(
    name: &str,
    model: &GptModel,
    tokenizer: Option<&ModelTokenizer>,
    bos: Option<u32>,
    eos: &[u32],
) -> Result<Vec<u8>, NotPacked> {
    let numbers = model.num_parameters();
    if numbers > MAX_NUMBERS {
        return Err(NotPacked::Numbers(numbers));
    }
    let words = tokenizer.and_then(words).ok_or(NotPacked::Tokenizer)?;
    // Checks that the page can create a tokenizer from the tokens and merges that are packed with
    // the model. If it can't, the model isn't packed.
    PageTokenizer::of(words.0.clone(), &words.1).map_err(|_| NotPacked::Tokenizer)?;
    let config: GptConfig = model.config();
    let header = json!({
        "name": name, "config": config, "tokens": words.0, "merges": words.1,
        "bos": bos, "eos": eos,
    });
    let header = header.to_string();
    let mut bytes = (header.len() as u32).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    for (_, parameter) in model.named_parameters() {
        if parameter.ndim() == 1 {
            bytes.extend(parameter.iter().flat_map(|number| number.to_le_bytes()));
            continue;
        }
        for row in parameter.rows() {
            let most = row
                .iter()
                .fold(0.0f32, |most, number| most.max(number.abs()));
            let scale = most / 127.0;
            bytes.extend(scale.to_le_bytes());
            bytes.extend(row.iter().map(|number| match scale > 0.0 {
                true => (number / scale).round() as i8 as u8,
                false => 0,
            }));
        }
    }
    Ok(bytes)
}

/// Packs a model and returns the script that defines it in a web page. `folder` is either a model
/// folder or the folder of a training run, from which the latest checkpoint is used. The page shows
/// the path of the folder as the name of the model.
///
/// # Errors
/// Returns an error if the folder can't be read, if the model is too large for a page, or if it has
/// no tokenizer that a page supports.
pub fn model_script(folder: &Path) -> anyhow::Result<String> {
    let model_folder = match latest_checkpoint(folder) {
        Err(TrainError::NoCheckpoint { .. }) => folder.to_owned(),
        checkpoint => checkpoint?,
    };
    let model = ModelFolder::open(&model_folder)?.load()?;
    let tokenizer = ModelTokenizer::from_folder(&model_folder)?;
    let eos = tokenizer.as_ref().and_then(ModelTokenizer::eos_token_id);
    let bos = tokenizer.as_ref().and_then(ModelTokenizer::bos_token_id);
    let name = folder.display().to_string();
    let packed = pack(
        &name,
        &model,
        tokenizer.as_ref(),
        bos.or(eos),
        eos.as_slice(),
    )?;
    Ok(format!("{MODEL_START}{}\";\n", STANDARD.encode(packed)))
}

/// The tokens of a tokenizer in the order of their IDs, and its merges. Each merge consists of the
/// left ID, the right ID and the merged ID. For GPT-2's tokenizer, both lists are empty, because a
/// page always contains this tokenizer.
type Parts = (Vec<Vec<u8>>, Vec<(u32, u32, u32)>);

fn words(tokenizer: &ModelTokenizer) -> Option<Parts> {
    if tokenizer.is_gpt2() {
        return Some(Parts::default());
    }
    // A page can't add special tokens before or after a text, so a tokenizer that requires them
    // isn't supported.
    if !(tokenizer.ids_before().is_empty() && tokenizer.ids_after().is_empty()) {
        return None;
    }
    let bpe = tokenizer.bpe()?;
    let merges = bpe.merges().iter();
    let merges = merges.map(|merge| (merge.left, merge.right, merge.id));
    Some((bpe.tokens().to_vec(), merges.collect()))
}

#[cfg(test)]
mod tests {
    use generate::{Decoder, GenerateOptions, Inspection, Sampling, TokenStream};
    use serde_json::{Value, json};
    use torch_rng::TorchRng;

    use super::*;
    use crate::PageModel;

    const TEXT: &str = "The bell rang, and the bell was heard, and the harbour heard the bell.";

    fn small(vocab_size: usize) -> GptModel {
        let config = GptConfig {
            vocab_size,
            context_length: 16,
            emb_dim: 16,
            n_heads: 2,
            n_layers: 2,
            ..GptConfig::GPT2_124M
        };
        GptModel::new(config, &mut TorchRng::manual_seed(5)).unwrap()
    }

    #[test]
    fn what_was_packed_computes_as_the_library_does_with_its_rounded_weights() {
        let tokenizer = ModelTokenizer::train_bpe(TEXT, 270).unwrap();
        let model = small(270);
        let packed = pack("a model", &model, Some(&tokenizer), Some(269), &[269]).unwrap();
        let mut unpacked = PageModel::unpack(&packed).unwrap();
        let rounded = unpacked.model();
        for ((name, of), (_, rounded)) in model
            .named_parameters()
            .into_iter()
            .zip(rounded.named_parameters())
        {
            for (of, rounded) in of.rows().into_iter().zip(rounded.rows()) {
                let most = of.iter().fold(0.0f32, |most, x| most.max(x.abs()));
                let near = |(x, y): (&f32, &f32)| (x - y).abs() <= most / 250.0;
                assert!(of.iter().zip(&rounded).all(near), "{name}");
            }
        }

        let ids = tokenizer.encode("and the bell").unwrap();
        let name = |id: u32| tokenizer.decode_lossy(&[id]).unwrap();
        let mut scales = crate::LogSumExps::default();
        let add = |logits: &_| scales.add(logits);
        let inspection = Inspection::of(rounded, &name, &ids, Inspection::TOP, add).unwrap();
        let answer = unpacked.answer(&json!({ "text": "and the bell" })).unwrap();
        assert_eq!(
            answer["tokens"],
            crate::tokens(rounded, &inspection, &scales)["tokens"]
        );
        assert_eq!(answer["name"], "a model");
        let block = inspection.blocks(0, 3).unwrap().nth(1).unwrap().unwrap();
        let asked = json!({ "text": "and the bell", "block": 1 });
        assert_eq!(unpacked.answer(&asked).unwrap(), crate::block(&block));

        // Checks that a `PageModel`, which generates text in a web page, continues a text with the
        // same tokens as a `TokenStream` with the same weights, even after the text has become
        // longer than the model's context of 16 tokens.
        for (temperature, top_k, seed) in [(0.0, 0, 1), (1.0, 0, 123), (1.5, 40, 7)] {
            let options = GenerateOptions {
                sampling: Sampling {
                    temperature,
                    top_k: Some(top_k),
                    ..Sampling::GREEDY
                },
                max_new_tokens: 30,
                stop_ids: vec![269],
            };
            let mut decoder = Decoder::new(rounded);
            decoder.start(&ids).unwrap();
            let mut rng = TorchRng::manual_seed(seed);
            let stream = TokenStream::new(&mut decoder, options, &mut rng).unwrap();
            let written: Vec<u32> = stream.map(Result::unwrap).collect();
            let how =
                json!({ "count": 30, "temperature": temperature, "top_k": top_k, "seed": seed });
            let asked = json!({ "text": "and the bell", "write": how });
            unpacked.answer(&asked).unwrap();
            let next = json!({ "next": true });
            let mut answers = std::iter::repeat_with(|| unpacked.answer(&next).unwrap());
            let answer = answers.find(|answer| answer["done"] == true).unwrap();
            assert_eq!(answer["text"], tokenizer.decode_lossy(&written).unwrap());
            assert_eq!(answer["count"], written.len());
        }
    }

    #[test]
    fn whatever_is_asked_has_an_answer_or_an_error() {
        let packed = pack(
            "",
            &small(50_257),
            Some(&ModelTokenizer::gpt2()),
            Some(50_256),
            &[50_256],
        )
        .unwrap();
        for end in [0, 3, 9, packed.len() / 2, packed.len() - 1] {
            assert!(PageModel::unpack(&packed[..end]).is_err(), "{end}");
        }
        let mut model = PageModel::unpack(&packed).unwrap();
        assert!(model.answer(&json!({ "next": true })).is_err());
        let mut answer = |asked: Value| model.answer(&asked);
        let of_nothing = answer(json!({ "text": "" })).unwrap();
        assert_eq!(of_nothing["tokens"][0]["text"], "<|endoftext|>");
        let long = answer(json!({ "text": "no ".repeat(50) })).unwrap();
        assert_eq!(long["tokens"].as_array().unwrap().len(), 16);
        assert!(long["left_out"].as_u64().unwrap() > 30);
        assert!(answer(json!({ "text": "a", "block": 2 })).is_err());
        for (count, temperature) in [(501, 1.0), (1, -1.0)] {
            let how = json!({ "count": count, "temperature": temperature, "top_k": 0, "seed": 1 });
            assert!(answer(json!({ "text": "a", "write": how })).is_err());
        }
        assert!(answer(json!({ "text": "a", "write": { "count": "x" } })).is_err());
    }

    #[test]
    fn a_model_that_no_page_can_hold_is_refused() {
        let without = pack("", &small(270), None, None, &[]);
        assert_eq!(without, Err(NotPacked::Tokenizer));
        let characters = ModelTokenizer::train_chars(TEXT).unwrap();
        let model = small(characters.vocab_size());
        let of_characters = pack("", &model, Some(&characters), None, &[]);
        assert_eq!(of_characters, Err(NotPacked::Tokenizer));
        let wide = GptConfig {
            emb_dim: 700,
            n_heads: 1,
            n_layers: 1,
            ..GptConfig::GPT2_124M
        };
        let model = GptModel::zeros(wide).unwrap();
        let refused = pack("", &model, Some(&ModelTokenizer::gpt2()), None, &[]);
        assert_eq!(refused, Err(NotPacked::Numbers(model.num_parameters())));
    }
}
