//! Writing a model as one GGUF file, version 3, for llama.cpp, whose architecture `gpt2` it is.
//! None is read.
//!
//! The file is keys and values, the tensors' names, sizes and places, and their numbers, each at a
//! multiple of 32 bytes.
//! A matrix is (out, in), as in `nn.Linear`; its sizes are written the other way round.

use std::collections::HashSet;
use std::path::Path;

use atomic_file::create_output;
use gpt::{Activation, GptConfig, GptModel};
use half::f16;
use tensor_ops::Dtype;

use crate::encoding::encode;
use crate::error::{CheckpointError, invalid, io, quoted};
use crate::generation_config::SamplingDefaults;
use crate::layout::llama_cpp;
use crate::save::items;
use crate::special_tokens::SpecialTokens;
use crate::writer::{LazyTensor, write_numbers};

/// Each tensor's numbers begin at a multiple of so many bytes.
const ALIGNMENT: usize = 32;

/// Numbers in a block of Q8_0, which have one scale.
const BLOCK: usize = 32;

/// The formats of a GGUF file's matrices. Int8 is Q8_0: 34 bytes for 32 numbers of a row, which are
/// integers and their scale in float16; rows whose length isn't a multiple of 32 are float16.
/// Vectors and position embeddings are always float32, as llama.cpp requires.
pub const GGUF_DTYPES: &[Dtype] = &[Dtype::Float32, Dtype::Float16, Dtype::Int8];

/// A byte-level tokenizer, as llama.cpp reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GgufTokens {
    /// The tokens in the order of their ids.
    pub tokens: Vec<GgufToken>,
    /// The two sides of each merge with a blank between them, the first merge first.
    pub merges: Vec<String>,
    /// The id that is put before each text, if one is.
    pub begin: Option<u32>,
    /// Chat templates by name; llama.cpp uses the one called `default`.
    pub chat_templates: Vec<(String, String)>,
    /// The settings that llama.cpp draws tokens with, if its user names none.
    pub sampling: SamplingDefaults,
}

/// A token, as llama.cpp reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufToken {
    /// Its bytes, written in GPT-2's alphabet; a special or added token's text as it is.
    pub text: String,
    /// Its kind.
    pub kind: GgufTokenKind,
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GgufTokenKind {
    /// One that texts are made of.
    Normal = 1,
    /// A special token, such as the end of a text.
    Special = 3,
    /// A token that was added to the vocabulary.
    Added = 4,
    /// An id that stands for nothing.
    Unused = 5,
}

/// Writes a model as a GGUF file that llama.cpp computes with; without `tokens` it takes ids alone.
///
/// Of `special` it has the beginning, the padding and the first end. The file is written as
/// [`write_output`](atomic_file::write_output) does.
///
/// # Errors
/// If the format is none of float32, float16 and int8 (Q8_0); if llama.cpp would compute something
/// else (another activation than GPT-2's); if the tokenizer doesn't have as many tokens as the
/// model, or has texts that llama.cpp doesn't read (two equal tokens, a NUL, two chat templates
/// with the same name); if a weight is not finite in the format; if there is a file
/// already, or the operating system refuses.
pub fn save_gguf(
    model: &GptModel,
    path: impl AsRef<Path>,
    dtype: Dtype,
    tokens: Option<&GgufTokens>,
    special: &SpecialTokens,
) -> Result<(), CheckpointError> {
    let path = path.as_ref();
    dtype.one_of(GGUF_DTYPES)?;
    let config = model.config();
    check(&config, tokens).map_err(|problem| invalid(path, problem))?;
    let items = items(model, path, llama_cpp(config))?;
    let header = header(&config, dtype, &items, tokens, special);
    create_output(path, |out| {
        out.write_all(&header).map_err(io(path, "write"))?;
        for item in &items {
            let dtype = dtype_of(item, dtype);
            let encode = |numbers: &[f32], bytes: &mut Vec<u8>| match dtype {
                Dtype::Int8 => encode_q8_0(numbers, bytes),
                _ => encode(dtype, numbers, bytes),
            };
            write_numbers(out, path, item, dtype, encode)?;
            let padding = vec![0; padded_bytes_of(item, dtype) - bytes_of(item, dtype)];
            out.write_all(&padding).map_err(io(path, "write"))?;
        }
        Ok(())
    })
}

/// The keys and values of the sampling settings that there are. llama.cpp takes the most probable
/// token at temperature 0.
fn sampling_keys(sampling: &SamplingDefaults) -> impl Iterator<Item = (String, Vec<u8>)> {
    let float = |x: f32| value(FLOAT, &x.to_le_bytes());
    let sampling = match sampling.is_greedy() {
        true => SamplingDefaults {
            temperature: Some(0.0),
            repeat_penalty: sampling.repeat_penalty,
            ..SamplingDefaults::default()
        },
        false => *sampling,
    };
    let keys = [
        ("temp", sampling.temperature.map(float)),
        (
            "top_k",
            sampling.top_k.map(|k| value(INT, &k.to_le_bytes())),
        ),
        ("top_p", sampling.top_p.map(float)),
        ("min_p", sampling.min_p.map(float)),
        ("penalty_repeat", sampling.repeat_penalty.map(float)),
    ];
    let keys = keys.into_iter();
    keys.filter_map(|(key, value)| Some((format!("general.sampling.{key}"), value?)))
}

/// The keys and values of chat templates: llama.cpp's converter lists the names of all but the
/// default one.
fn template_keys(templates: &[(String, String)]) -> Vec<(String, Vec<u8>)> {
    const KEY: &str = "tokenizer.chat_template";
    let is_default = |name: &str| name == "default";
    let mut keys = Vec::new();
    for (name, template) in templates {
        let key = match is_default(name) {
            true => KEY.to_owned(),
            false => format!("{KEY}.{name}"),
        };
        keys.push((key, text(template)));
    }
    let others = templates.iter().filter(|(name, _)| !is_default(name));
    let others: Vec<_> = others.map(|(name, _)| with_length(name)).collect();
    if !others.is_empty() {
        keys.push((format!("{KEY}s"), array(TEXT, others.into_iter())));
    }
    keys
}

/// Checks that llama.cpp's GPT-2 computes the same.
fn check(config: &GptConfig, tokens: Option<&GgufTokens>) -> Result<(), String> {
    if config.activation != Activation::GeluTanh {
        let name = config.activation.name();
        return Err(format!(
            "the activation is {name}, but llama.cpp has GPT-2's gelu_new"
        ));
    }
    let of_model = config.vocab_size;
    match tokens {
        Some(tokens) if tokens.tokens.len() != of_model => {
            let size = tokens.tokens.len();
            Err(format!(
                "the tokenizer's size is {size}, but the model's {of_model}"
            ))
        }
        Some(tokens) => check_texts(tokens),
        None => Ok(()),
    }
}

/// Checks that llama.cpp reads the texts as they are: it cuts a text at a NUL, rejects a file with
/// two keys of the same name, and is aborted by two tokens with the same text.
fn check_texts(tokens: &GgufTokens) -> Result<(), String> {
    let texts = tokens.tokens.iter().map(|token| &token.text);
    let (names, templates): (Vec<&String>, Vec<&String>) = tokens
        .chat_templates
        .iter()
        .map(|(name, template)| (name, template))
        .unzip();
    let twice = |kind: &str, text| Err(format!("{kind} {} is there twice", quoted(text)));
    if let Some(token) = duplicate(texts.clone()) {
        return twice("the token", token);
    }
    if let Some(name) = duplicate(names.iter().copied()) {
        return twice("the chat template", name);
    }
    let mut all = texts.chain(&tokens.merges).chain(names).chain(templates);
    match all.find(|text| text.contains('\0')) {
        Some(text) => Err(format!(
            "a text has a NUL, where llama.cpp cuts it: {}",
            quoted(text)
        )),
        None => Ok(()),
    }
}

/// The first text that occurs a second time.
fn duplicate<'t>(mut texts: impl Iterator<Item = &'t String>) -> Option<&'t String> {
    let mut seen = HashSet::new();
    texts.find(|text| !seen.insert(*text))
}

/// Returns keys and values, then the tensors, padded so that numbers can follow.
fn header(
    config: &GptConfig,
    dtype: Dtype,
    items: &[LazyTensor<'_>],
    tokens: Option<&GgufTokens>,
    special: &SpecialTokens,
) -> Vec<u8> {
    let mut keys = vec![
        ("general.architecture".to_owned(), text("gpt2")),
        ("general.file_type".to_owned(), number(numbers(dtype).0)),
        ("general.quantization_version".to_owned(), number(2)),
        (
            "gpt2.attention.layer_norm_epsilon".to_owned(),
            value(FLOAT, &config.norm_eps.to_le_bytes()),
        ),
    ];
    let sizes = [
        ("vocab_size", config.vocab_size),
        ("context_length", config.context_length),
        ("embedding_length", config.emb_dim),
        ("feed_forward_length", config.feed_forward_dim()),
        ("block_count", config.n_layers),
        ("attention.head_count", config.n_heads),
    ];
    let sizes = sizes.map(|(key, size)| (format!("gpt2.{key}"), number(size as u32)));
    keys.extend(sizes);
    let begin = tokens.and_then(|tokens| tokens.begin).or(special.bos);
    let of_tokenizer = match tokens {
        None => vec![("model", text("none"))],
        Some(GgufTokens {
            tokens,
            merges,
            begin,
            chat_templates,
            sampling,
        }) => {
            keys.extend(sampling_keys(sampling));
            keys.extend(template_keys(chat_templates));
            let texts = tokens.iter().map(|token| with_length(&token.text));
            let kinds = tokens.iter().map(|token| (token.kind as i32).to_le_bytes());
            let merges = merges.iter().map(|merge| with_length(merge));
            vec![
                ("model", text("gpt2")),
                ("pre", text("gpt-2")),
                ("tokens", array(TEXT, texts)),
                ("token_type", array(INT, kinds)),
                ("merges", array(TEXT, merges)),
                ("add_bos_token", value(FLAG, &[begin.is_some().into()])),
            ]
        }
    };
    let ids = [
        ("bos_token_id", begin),
        ("eos_token_id", special.eos.first().copied()),
        ("padding_token_id", special.pad),
    ];
    let ids = ids
        .into_iter()
        .filter_map(|(key, id)| Some((key, number(id?))));
    let of_tokenizer = of_tokenizer.into_iter().chain(ids);
    keys.extend(of_tokenizer.map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)));
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((items.len() as u64).to_le_bytes());
    out.extend((keys.len() as u64).to_le_bytes());
    for (key, value) in keys {
        out.extend(with_length(&key));
        out.extend(value);
    }
    let mut offset = 0;
    for item in items {
        out.extend(with_length(&item.name));
        out.extend((item.shape.len() as u32).to_le_bytes());
        for &size in item.shape.iter().rev() {
            out.extend((size as u64).to_le_bytes());
        }
        let dtype = dtype_of(item, dtype);
        out.extend(numbers(dtype).1.to_le_bytes());
        out.extend((offset as u64).to_le_bytes());
        offset += padded_bytes_of(item, dtype);
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    out
}

/// Returns a format's number as a file's type, its number as a tensor's type, and the bytes of 32
/// numbers.
fn numbers(dtype: Dtype) -> (u32, u32, usize) {
    match dtype {
        Dtype::Int8 => (7, 8, 2 + BLOCK),
        Dtype::Float16 => (1, 1, 2 * BLOCK),
        _ => (0, 0, 4 * BLOCK),
    }
}

/// Returns the format of one tensor in a file of a format.
fn dtype_of(item: &LazyTensor<'_>, of_file: Dtype) -> Dtype {
    match item.shape[..] {
        [_, columns] if item.name != "position_embd.weight" => match of_file {
            Dtype::Int8 if columns % BLOCK != 0 => Dtype::Float16,
            dtype => dtype,
        },
        _ => Dtype::Float32,
    }
}

fn bytes_of(item: &LazyTensor<'_>, dtype: Dtype) -> usize {
    item.shape.iter().product::<usize>() * numbers(dtype).2 / BLOCK
}

fn padded_bytes_of(item: &LazyTensor<'_>, dtype: Dtype) -> usize {
    bytes_of(item, dtype).next_multiple_of(ALIGNMENT)
}

/// Appends blocks: the scale, the largest number's 127th part, and the numbers as whole multiples
/// of it. The error is the place of a number that has none.
fn encode_q8_0(numbers: &[f32], bytes: &mut Vec<u8>) -> Result<(), usize> {
    for (i, block) in numbers.chunks_exact(BLOCK).enumerate() {
        let largest = block.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        let scale = largest / 127.0;
        let holds = f16::from_f32(scale).is_finite();
        let beyond = |x: &f32| !x.is_finite() || (!holds && x.abs() == largest);
        if let Some(place) = block.iter().position(beyond) {
            return Err(i * BLOCK + place);
        }
        let steps = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        bytes.extend(f16::from_f32(scale).to_le_bytes());
        bytes.extend(block.iter().map(|x| (x * steps).round() as i8 as u8));
    }
    Ok(())
}

/// The numbers of the types that values have.
const NUMBER: u32 = 4;
const INT: u32 = 5;
const FLOAT: u32 = 6;
const FLAG: u32 = 7;
const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// A value in the file's encoding.
fn value(kind: u32, bytes: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes(), bytes].concat()
}

fn number(number: u32) -> Vec<u8> {
    value(NUMBER, &number.to_le_bytes())
}

fn text(text: &str) -> Vec<u8> {
    value(TEXT, &with_length(text))
}

fn array<T: AsRef<[u8]>>(kind: u32, values: impl ExactSizeIterator<Item = T>) -> Vec<u8> {
    let mut bytes = value(kind, &(values.len() as u64).to_le_bytes());
    values.for_each(|value| bytes.extend(value.as_ref()));
    value(ARRAY, &bytes)
}

/// A text with its length before it.
fn with_length(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}
