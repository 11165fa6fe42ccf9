//! Writes a model as a GGUF file (version 3), which llama.cpp can load. This crate can't read GGUF
//! files.
//!
//! A GGUF file has three parts. The first part consists of metadata: keys and their values, such as
//! `gpt2.block_count` and 12. The second part is a list of the tensors with their names, sizes,
//! types and offsets. The third part contains the elements of the tensors. The offset of each
//! tensor is a multiple of 32 bytes.
//!
//! The elements of a matrix are stored row by row. The weights of linear layers have the shape
//! (out, in), as in PyTorch's `nn.Linear`. However, the list of tensors contains the two sizes in
//! reverse order, (in, out).

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

/// Alignment of each tensor in bytes.
const ALIGNMENT: usize = 32;

/// Number of elements in a block of llama.cpp's format Q8_0. All elements of a block share one
/// scale.
const BLOCK: usize = 32;

/// The number formats in which the matrices of a GGUF file can be stored.
///
/// `Int8` stands for llama.cpp's format Q8_0, in which 32 elements of a row are stored in 34 bytes:
/// 32 signed bytes and a float16 scale. If the rows of a matrix can't be divided into blocks of 32
/// elements, the matrix is stored as float16 instead. Vectors and position embeddings are always
/// stored as float32 because llama.cpp requires this format.
pub const GGUF_DTYPES: &[Dtype] = &[Dtype::Float32, Dtype::Float16, Dtype::Int8];

/// The contents of a GGUF file that aren't part of the model itself: a byte-level tokenizer, its
/// chat templates, and the default sampling settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GgufTokens {
    /// Tokens in the order of their IDs.
    pub tokens: Vec<GgufToken>,
    /// BPE merges in the order in which they are applied. Each string contains the two tokens of a
    /// merge, separated by a space.
    pub merges: Vec<String>,
    /// ID of the BOS token, which llama.cpp inserts at the beginning of each prompt. If this field
    /// is `None`, llama.cpp doesn't insert a token.
    pub begin: Option<u32>,
    /// Names and texts of the chat templates. llama.cpp uses the template named `default`.
    pub chat_templates: Vec<(String, String)>,
    /// Sampling settings that llama.cpp uses unless its user chooses others.
    pub sampling: SamplingDefaults,
}

/// A token of a [`GgufTokens`] tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufToken {
    /// Text of the token. A normal token is written in GPT-2's alphabet, in which each byte is
    /// represented by a printable character (a space, for example, by `Ġ`). Special and added
    /// tokens are plain text.
    pub text: String,
    /// Kind of the token.
    pub kind: GgufTokenKind,
}

/// The kind of a token. The discriminant of each variant is its code in a GGUF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GgufTokenKind {
    /// An ordinary token of the vocabulary.
    Normal = 1,
    /// A special token, such as the EOS token.
    Special = 3,
    /// A token that was added to the vocabulary but has no special meaning.
    Added = 4,
    /// A placeholder for an ID that isn't assigned to any token.
    Unused = 5,
}

/// Writes a model as a GGUF file that llama.cpp can run.
///
/// If `tokens` is `None`, the tokenizer isn't stored in the file. llama.cpp can then run the model
/// only with token IDs, because it can't encode or decode text.
///
/// The file also contains the IDs of the model's special tokens from `special`: the BOS token, the
/// first EOS token and the padding token. If `tokens` specifies a BOS token, this BOS token is
/// stored instead of the one in `special`.
///
/// The file is written by [`create_output`], which never overwrites an existing file.
///
/// # Errors
///
/// Returns an error in these cases:
///
/// - `dtype` isn't one of [`GGUF_DTYPES`].
/// - A field of the model doesn't match its configuration (see [`GptModel::check`]), or a weight
///   isn't finite in the format of its tensor.
/// - llama.cpp would compute different results, because the activation isn't GPT-2's `gelu_new`.
/// - The number of tokens in the tokenizer differs from the size of the model's vocabulary.
/// - llama.cpp couldn't read the tokenizer, because two tokens are equal, two chat templates have
///   the same name, or a string contains a NUL character.
/// - A file already exists at `path`, or the file can't be written.
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

/// Returns the metadata for the sampling settings that are present.
///
/// llama.cpp has no setting for greedy decoding. If `sampling` requires greedy decoding, a
/// temperature of 0 is stored, which has the same effect.
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

/// Returns the metadata for chat templates.
///
/// As in llama.cpp's converter, the default template has the key `tokenizer.chat_template`. A
/// template with another name, such as `tool_use`, has the key `tokenizer.chat_template.tool_use`,
/// and the key `tokenizer.chat_templates` contains the names of all templates except the default
/// one.
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

/// Checks that llama.cpp's implementation of GPT-2 supports the model's activation function, and
/// that llama.cpp can read the tokenizer.
///
/// # Errors
///
/// Returns a description of the first problem.
fn check(config: &GptConfig, tokens: Option<&GgufTokens>) -> Result<(), String> {
    if config.activation != Activation::GeluTanh {
        let name = config.activation.name();
        return Err(format!(
            "the model's activation is {name}, but llama.cpp supports only gelu_new for GPT-2 models"
        ));
    }
    let of_model = config.vocab_size;
    match tokens {
        Some(tokens) if tokens.tokens.len() != of_model => {
            let size = tokens.tokens.len();
            Err(format!(
                "the tokenizer has {size} tokens, but the model's vocabulary has {of_model}"
            ))
        }
        Some(tokens) => check_texts(tokens),
        None => Ok(()),
    }
}

/// Checks that llama.cpp can read a tokenizer's tokens, merges and chat templates without changing
/// them.
///
/// llama.cpp truncates a string at a NUL character, and aborts if two tokens have the same text. It
/// also rejects a file in which a key occurs twice, as it does if two chat templates have the same
/// name.
fn check_texts(tokens: &GgufTokens) -> Result<(), String> {
    let texts = tokens.tokens.iter().map(|token| &token.text);
    let (names, templates): (Vec<&String>, Vec<&String>) = tokens
        .chat_templates
        .iter()
        .map(|(name, template)| (name, template))
        .unzip();
    let twice = |kind: &str, text| Err(format!("{kind} {} occurs twice", quoted(text)));
    if let Some(token) = duplicate(texts.clone()) {
        return twice("the token", token);
    }
    if let Some(name) = duplicate(names.iter().copied()) {
        return twice("the chat template", name);
    }
    let mut all = texts.chain(&tokens.merges).chain(names).chain(templates);
    match all.find(|text| text.contains('\0')) {
        Some(text) => Err(format!(
            "a token, merge or chat template contains a NUL character, where llama.cpp would truncate it: {}",
            quoted(text)
        )),
        None => Ok(()),
    }
}

/// Returns the first string that has already occurred, or `None` if all strings are distinct.
fn duplicate<'t>(mut texts: impl Iterator<Item = &'t String>) -> Option<&'t String> {
    let mut seen = HashSet::new();
    texts.find(|text| !seen.insert(*text))
}

/// Returns the bytes of the first two parts of the file, which are the metadata and the list of
/// tensors. The bytes are padded with zeros to a multiple of [`ALIGNMENT`].
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

/// Returns the three numbers with which a GGUF file describes the number format `dtype`: the value
/// of `general.file_type` if the matrices of the file have this format, the type code of a tensor
/// in this format, and the number of bytes of a block of 32 elements.
fn numbers(dtype: Dtype) -> (u32, u32, usize) {
    match dtype {
        Dtype::Int8 => (7, 8, 2 + BLOCK),
        Dtype::Float16 => (1, 1, 2 * BLOCK),
        _ => (0, 0, 4 * BLOCK),
    }
}

/// Returns the number format in which a tensor is stored if the caller of [`save_gguf`] has
/// requested the format `of_file`. Some tensors must be stored in a different format, as described
/// at [`GGUF_DTYPES`].
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

/// Converts numbers to blocks in the format Q8_0 and appends the blocks to `bytes`. The scale of a
/// block is the largest absolute value of its elements divided by 127. Each element is divided by
/// the scale and rounded to an integer.
///
/// # Errors
///
/// Returns the index of the first number that can't be stored, because it isn't finite or because
/// it would make the scale too large for float16.
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

/// Code of the metadata type `u32`.
const NUMBER: u32 = 4;
/// Code of the metadata type `i32`.
const INT: u32 = 5;
/// Code of the metadata type `f32`.
const FLOAT: u32 = 6;
/// Code of the metadata type `bool`, which is stored as one byte.
const FLAG: u32 = 7;
/// Code of the metadata type for strings.
const TEXT: u32 = 8;
/// Code of the metadata type for arrays. In a file, this code is followed by the type of the
/// elements, the number of elements, and the elements themselves.
const ARRAY: u32 = 9;

/// Returns the bytes of a metadata value in a GGUF file: the code of its type, followed by the
/// value.
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

/// Returns the bytes of a string in a GGUF file: its length in bytes as a `u64`, followed by the
/// text.
fn with_length(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}
