//! Writing a model as one GGUF file, version 3, for llama.cpp, whose architecture `gpt2` it is.
//! None is read.
//!
//! The file is keys and values, the tensors' names, sizes and places, and their numbers, each at a
//! multiple of 32 bytes.
//! A matrix is (out, in), as in `nn.Linear`; its sizes are written the other way round.

use std::fmt;
use std::path::Path;

use atomic_file::replace_output;
use gpt::{Activation, GptConfig, GptModel};
use half::f16;

use crate::config::activation_name;
use crate::error::{CheckpointError, invalid, io};
use crate::layout::llama_cpp;
use crate::precision::Precision;
use crate::save::{check_shapes, items};
use crate::special_tokens::SpecialTokens;
use crate::writer::{LazyTensor, write_numbers};

/// Each tensor's numbers begin at a multiple of so many bytes.
const ALIGNMENT: usize = 32;

/// Numbers in a block of Q8_0, which have one scale.
const BLOCK: usize = 32;

/// The format of a GGUF file's matrices; vectors and position embeddings are f32 always, as
/// llama.cpp wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GgufFormat {
    /// 4 bytes a number, exact.
    F32,
    /// 2 bytes a number.
    F16,
    /// 34 bytes for 32 numbers of a row: whole numbers of 8 bits and their scale in f16. Rows whose
    /// length 32 does not divide are f16.
    Q8_0,
}

/// A byte-level tokenizer, as llama.cpp reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GgufTokens {
    /// The tokens in the order of their ids.
    pub tokens: Vec<GgufToken>,
    /// The two sides of each merge with a blank between them, the first merge first.
    pub merges: Vec<String>,
    /// The id that is put before each text, if one is.
    pub begin: Option<u32>,
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
/// If llama.cpp would compute something else (another activation than GPT-2's, other scales of the
/// scores), the tokenizer has not as many tokens as the model, a weight is not finite in the
/// format, or the operating system refuses.
pub fn save_gguf(
    model: &GptModel,
    path: impl AsRef<Path>,
    format: GgufFormat,
    tokens: Option<&GgufTokens>,
    special: &SpecialTokens,
) -> Result<(), CheckpointError> {
    let path = path.as_ref();
    let config = model.config();
    check(config, tokens).map_err(|problem| invalid(path, problem))?;
    check_shapes(model, path)?;
    let items = items(model, llama_cpp(*config));
    let header = header(config, format, &items, tokens, special);
    replace_output(path, |out| {
        out.write_all(&header).map_err(io(path, "write"))?;
        for item in &items {
            let format = format.of(item);
            write_numbers(
                out,
                path,
                item,
                &format.to_string(),
                |numbers, bytes| match format {
                    GgufFormat::F32 => Precision::F32.encode(numbers, bytes),
                    GgufFormat::F16 => Precision::F16.encode(numbers, bytes),
                    GgufFormat::Q8_0 => encode_q8_0(numbers, bytes),
                },
            )?;
            let padding = vec![0; format.padded(item) - format.bytes(item)];
            out.write_all(&padding).map_err(io(path, "write"))?;
        }
        Ok(())
    })
}

/// Checks that llama.cpp's GPT-2 computes the same.
fn check(config: &GptConfig, tokens: Option<&GgufTokens>) -> Result<(), String> {
    if config.activation != Activation::GeluTanh {
        let name = activation_name(config.activation);
        return Err(format!(
            "the activation is {name}, but llama.cpp has GPT-2's gelu_new"
        ));
    }
    let of_model = config.vocab_size;
    match tokens.map(|tokens| tokens.tokens.len()) {
        Some(size) if size != of_model => Err(format!(
            "the tokenizer's size is {size}, but the model's {of_model}"
        )),
        _ => Ok(()),
    }
}

/// Keys and values, then the tensors, padded so that numbers can follow.
fn header(
    config: &GptConfig,
    format: GgufFormat,
    items: &[LazyTensor<'_>],
    tokens: Option<&GgufTokens>,
    special: &SpecialTokens,
) -> Vec<u8> {
    let mut keys = Keys::default();
    keys.text("general.architecture", "gpt2");
    keys.number("general.file_type", format.numbers().0);
    keys.number("general.quantization_version", 2);
    for (key, size) in [
        ("vocab_size", config.vocab_size),
        ("context_length", config.context_length),
        ("embedding_length", config.emb_dim),
        ("feed_forward_length", config.feed_forward_dim()),
        ("block_count", config.n_layers),
        ("attention.head_count", config.n_heads),
    ] {
        keys.number(&format!("gpt2.{key}"), size as u32);
    }
    keys.float("gpt2.attention.layer_norm_epsilon", config.norm_eps);
    match tokens {
        None => keys.text("tokenizer.ggml.model", "none"),
        Some(tokens) => {
            keys.text("tokenizer.ggml.model", "gpt2");
            keys.text("tokenizer.ggml.pre", "gpt-2");
            let texts = tokens.tokens.iter().map(|token| &*token.text);
            keys.texts("tokenizer.ggml.tokens", texts);
            keys.kinds("tokenizer.ggml.token_type", &tokens.tokens);
            keys.texts(
                "tokenizer.ggml.merges",
                tokens.merges.iter().map(|merge| &**merge),
            );
            keys.flag("tokenizer.ggml.add_bos_token", tokens.begin.is_some());
        }
    }
    let begin = tokens.and_then(|tokens| tokens.begin).or(special.bos);
    for (key, id) in [
        ("bos_token_id", begin),
        ("eos_token_id", special.eos.first().copied()),
        ("padding_token_id", special.pad),
    ] {
        if let Some(id) = id {
            keys.number(&format!("tokenizer.ggml.{key}"), id);
        }
    }
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((items.len() as u64).to_le_bytes());
    out.extend(keys.count.to_le_bytes());
    out.extend(keys.bytes);
    let mut offset = 0;
    for item in items {
        text(&mut out, &item.name);
        out.extend((item.shape.len() as u32).to_le_bytes());
        for &size in item.shape.iter().rev() {
            out.extend((size as u64).to_le_bytes());
        }
        let format = format.of(item);
        out.extend(format.numbers().1.to_le_bytes());
        out.extend((offset as u64).to_le_bytes());
        offset += format.padded(item);
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    out
}

impl GgufFormat {
    /// Its number as a file's type, as a tensor's, and the bytes of 32 numbers.
    fn numbers(self) -> (u32, u32, usize) {
        match self {
            Self::F32 => (0, 0, 4 * BLOCK),
            Self::F16 => (1, 1, 2 * BLOCK),
            Self::Q8_0 => (7, 8, 2 + BLOCK),
        }
    }

    /// The format of one tensor in a file of this one.
    fn of(self, item: &LazyTensor<'_>) -> Self {
        match item.shape[..] {
            [_, columns] if item.name != "position_embd.weight" => match self {
                Self::Q8_0 if columns % BLOCK != 0 => Self::F16,
                format => format,
            },
            _ => Self::F32,
        }
    }

    fn bytes(self, item: &LazyTensor<'_>) -> usize {
        item.shape.iter().product::<usize>() * self.numbers().2 / BLOCK
    }

    fn padded(self, item: &LazyTensor<'_>) -> usize {
        self.bytes(item).next_multiple_of(ALIGNMENT)
    }
}

impl fmt::Display for GgufFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
        })
    }
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

/// Keys and their values as they stand in the file.
#[derive(Default)]
struct Keys {
    count: u64,
    bytes: Vec<u8>,
}

impl Keys {
    /// A key and the number of its value's type.
    fn begin(&mut self, key: &str, kind: u32) {
        self.count += 1;
        text(&mut self.bytes, key);
        self.bytes.extend(kind.to_le_bytes());
    }

    fn number(&mut self, key: &str, value: u32) {
        self.begin(key, 4);
        self.bytes.extend(value.to_le_bytes());
    }

    fn float(&mut self, key: &str, value: f32) {
        self.begin(key, 6);
        self.bytes.extend(value.to_le_bytes());
    }

    fn flag(&mut self, key: &str, value: bool) {
        self.begin(key, 7);
        self.bytes.push(value.into());
    }

    fn text(&mut self, key: &str, value: &str) {
        self.begin(key, 8);
        text(&mut self.bytes, value);
    }

    fn texts<'a>(&mut self, key: &str, values: impl ExactSizeIterator<Item = &'a str>) {
        self.begin_array(key, 8, values.len());
        values.for_each(|value| text(&mut self.bytes, value));
    }

    fn kinds(&mut self, key: &str, tokens: &[GgufToken]) {
        self.begin_array(key, 5, tokens.len());
        let kinds = tokens.iter().map(|token| token.kind as i32);
        self.bytes.extend(kinds.flat_map(i32::to_le_bytes));
    }

    fn begin_array(&mut self, key: &str, kind: u32, len: usize) {
        self.begin(key, 9);
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend((len as u64).to_le_bytes());
    }
}

/// A text with its length before it.
fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}
