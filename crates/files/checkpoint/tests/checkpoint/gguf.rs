//! Tests GGUF files by reading them with a small parser that follows the specification of the
//! format. The script `check_with_llama_cpp.py` checks that llama.cpp can load the GGUF files that
//! this crate writes.

use std::collections::BTreeMap;
use std::fs;

use checkpoint::{Dtype, GgufToken, GgufTokenKind, GgufTokens, SpecialTokens, save_gguf};
use gpt::{Activation, GptConfig, GptModel};
use half::f16;
use tensor_ops::Parameters;

use crate::support::{SMALL, UNTIED, small_model};

/// The rest of a GGUF file: the bytes that the parser of these tests hasn't read yet.
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (first, rest) = self.0.split_first_chunk::<N>().expect("a whole file");
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> usize {
        u64::from_le_bytes(self.take()) as usize
    }

    fn text(&mut self) -> String {
        let length = self.number();
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8(text.to_vec()).expect("text")
    }

    /// Reads a metadata value and converts it to text. `kind` is the code that GGUF uses for the
    /// type of the value.
    fn value(&mut self, kind: u32) -> String {
        match kind {
            4 => u32::from_le_bytes(self.take()).to_string(),
            5 => i32::from_le_bytes(self.take()).to_string(),
            6 => f32::from_le_bytes(self.take()).to_string(),
            7 => (self.take() == [1]).to_string(),
            8 => self.text(),
            9 => {
                let kind = u32::from_le_bytes(self.take());
                let values = (0..self.number()).map(|_| self.value(kind));
                values.collect::<Vec<_>>().join(",")
            }
            _ => panic!("a value of kind {kind}"),
        }
    }
}

/// The contents of a GGUF file: the metadata values by their keys, and the shape and the numbers of
/// each tensor by its name.
type Read = (
    BTreeMap<String, String>,
    BTreeMap<String, (Vec<usize>, Vec<f32>)>,
);

fn read(file: &[u8]) -> Read {
    let mut bytes = Bytes(file);
    assert_eq!(
        (&bytes.take(), u32::from_le_bytes(bytes.take())),
        (b"GGUF", 3)
    );
    let (tensors, keys) = (bytes.number(), bytes.number());
    let keys = (0..keys).map(|_| {
        let key = bytes.text();
        let kind = u32::from_le_bytes(bytes.take());
        (key, bytes.value(kind))
    });
    let keys: BTreeMap<_, _> = keys.collect();
    let places: Vec<_> = (0..tensors)
        .map(|_| {
            let name = bytes.text();
            let sizes = (0..u32::from_le_bytes(bytes.take())).map(|_| bytes.number());
            let sizes: Vec<usize> = sizes.collect();
            (
                name,
                sizes,
                u32::from_le_bytes(bytes.take()),
                bytes.number(),
            )
        })
        .collect();
    let data = &file[(file.len() - bytes.0.len()).next_multiple_of(32)..];
    let numbers = |(name, sizes, kind, offset): (String, Vec<usize>, u32, usize)| {
        let len: usize = sizes.iter().product();
        let rest = &data[offset..];
        let half = |bytes: &[u8]| f16::from_le_bytes([bytes[0], bytes[1]]).to_f32();
        let numbers: Vec<f32> = match kind {
            0 => rest
                .as_chunks()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .take(len)
                .collect(),
            1 => rest.chunks(2).take(len).map(half).collect(),
            8 => rest
                .chunks(34)
                .take(len / 32)
                .flat_map(|block| {
                    block[2..]
                        .iter()
                        .map(|x| half(block) * f32::from(*x as i8))
                        .collect::<Vec<_>>()
                })
                .collect(),
            _ => panic!("a tensor of kind {kind}"),
        };
        assert!(offset % 32 == 0 && numbers.len() == len, "{name}");
        (name, (sizes, numbers))
    };
    (keys, places.into_iter().map(numbers).collect())
}

fn saved(model: &GptModel, format: Dtype) -> Read {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let mut special = SpecialTokens::between(3);
    (special.bos, special.pad) = (Some(2), Some(4));
    save_gguf(model, &path, format, None, &special).unwrap();
    read(&fs::read(path).unwrap())
}

#[test]
fn sizes_names_and_numbers_are_the_models() {
    let model = small_model(UNTIED);
    let (keys, tensors) = saved(&model, Dtype::Float32);
    for (key, value) in [
        ("general.architecture", "gpt2"),
        ("gpt2.block_count", "2"),
        ("gpt2.feed_forward_length", "32"),
        ("gpt2.attention.layer_norm_epsilon", "0.00001"),
        ("tokenizer.ggml.model", "none"),
        ("tokenizer.ggml.bos_token_id", "2"),
        ("tokenizer.ggml.eos_token_id", "3"),
        ("tokenizer.ggml.padding_token_id", "4"),
    ] {
        assert_eq!(keys[key], value, "{key}");
    }
    let total: usize = tensors.values().map(|(_, numbers)| numbers.len()).sum();
    assert_eq!(total, model.num_parameters());
    let expected = model.trf_blocks[1].ff.expand.weight.view();
    let (sizes, numbers) = &tensors["blk.1.ffn_up.weight"];
    assert_eq!(
        (&sizes[..], numbers),
        (&[8, 32][..], &expected.iter().copied().collect())
    );
    let qkv = &tensors["blk.0.attn_qkv.weight"];
    let att = &model.trf_blocks[0].att;
    let parts = [&att.w_query, &att.w_key, &att.w_value];
    let parts: Vec<f32> = parts
        .into_iter()
        .flat_map(|part| part.weight.iter().copied())
        .collect();
    assert_eq!((&qkv.0[..], &qkv.1), (&[8, 24][..], &parts));
    let head: Vec<f32> = model
        .out_head
        .as_ref()
        .unwrap()
        .weight
        .iter()
        .copied()
        .collect();
    assert_eq!(tensors["output.weight"].1, head);
    assert!(
        !saved(&small_model(SMALL), Dtype::Float32)
            .1
            .contains_key("output.weight")
    );
}

#[test]
fn smaller_formats_round_to_the_nearest() {
    let model = small_model(GptConfig {
        emb_dim: 32,
        ..SMALL
    });
    let exact = saved(&model, Dtype::Float32).1;
    for (format, step) in [
        (Dtype::Float16, 0.0005),
        (Dtype::Int8, 0.5 / 127.0 + 0.0005),
    ] {
        for (name, (sizes, numbers)) in saved(&model, format).1 {
            let (exact_sizes, exact) = &exact[&name];
            assert_eq!((&sizes, numbers.len()), (exact_sizes, exact.len()));
            let is_matrix = sizes.len() == 2 && name != "position_embd.weight";
            let largest = exact.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            let most = if is_matrix { step * largest } else { 0.0 };
            let far = numbers
                .iter()
                .zip(exact)
                .find(|(x, y)| (**x - **y).abs() > most);
            assert_eq!(far, None, "{name}");
        }
    }
}

#[test]
fn what_llama_cpp_would_compute_otherwise_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let relu = GptConfig {
        activation: Activation::Relu,
        ..SMALL
    };
    let tokens = GgufTokens::default();
    let mut large = small_model(SMALL);
    large.tok_emb.weight[[1, 2]] = 1e9;
    for (model, format, tokens, part) in [
        (small_model(relu), Dtype::Float32, None, "relu"),
        (
            small_model(SMALL),
            Dtype::Float32,
            Some(&tokens),
            "the tokenizer has 0 tokens",
        ),
        (large, Dtype::Float16, None, "element 10 is 1000000000"),
    ] {
        let error =
            save_gguf(&model, &path, format, tokens, &SpecialTokens::default()).unwrap_err();
        let cause = std::error::Error::source(&error).map_or(String::new(), ToString::to_string);
        let message = format!("{error}: {cause}");
        assert!(message.contains(part), "{message}");
        assert!(!path.exists());
    }
}

/// Checks that saving a model as GGUF fails if llama.cpp couldn't read its tokens or chat templates
/// correctly.
///
/// The following was observed with llama.cpp in the package xllamacpp 2026.10.11549. If two tokens
/// are equal, the program aborts in `GGML_ASSERT(id_to_token.size() == token_to_id.size())`. Texts
/// are cut off at a NUL character: the token `<|a\0b|>` becomes `<|a`, and the template `a\0{{
/// messages }}` becomes `a`. If a key occurs twice, `gguf_init_from_file` rejects the file.
#[test]
fn texts_that_llama_cpp_doesnt_read_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let good = |count: usize| GgufTokens {
        tokens: (0..count)
            .map(|id| GgufToken {
                text: format!("<{id}>"),
                kind: GgufTokenKind::Normal,
            })
            .collect(),
        chat_templates: vec![("default".to_owned(), "d".to_owned())],
        ..GgufTokens::default()
    };
    type Break = fn(&mut GgufTokens);
    let breaks: [(Break, &str); 5] = [
        (
            |all| all.tokens[5].text = "<6>".to_owned(),
            "the token \"<6>\" occurs twice",
        ),
        (
            |all| all.tokens[5].text = "<|a\0b|>".to_owned(),
            "a NUL character, where llama.cpp would truncate it: \"<|a\\0b|>\"",
        ),
        (
            |all| all.chat_templates[0].1 = "a\0{{ messages }}".to_owned(),
            "a NUL",
        ),
        (|all| all.chat_templates[0].0 = "\0".to_owned(), "a NUL"),
        (
            |all| all.chat_templates.push(all.chat_templates[0].clone()),
            "the chat template \"default\" occurs twice",
        ),
    ];
    let model = small_model(SMALL);
    let save = |tokens: &GgufTokens| {
        let special = SpecialTokens::default();
        save_gguf(&model, &path, Dtype::Float32, Some(tokens), &special)
    };
    for (break_it, problem) in breaks {
        let mut tokens = good(SMALL.vocab_size);
        break_it(&mut tokens);
        let error = save(&tokens).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        assert!(!path.exists());
    }
    save(&good(SMALL.vocab_size)).unwrap();
}
