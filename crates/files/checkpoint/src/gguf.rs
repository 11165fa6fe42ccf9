//! Writing a model as one GGUF file, version 3, for llama.cpp, whose architecture `gpt2` it is.
//! None is read.
//!
//! The file is keys and values, the tensors' names, sizes and places, and their numbers, each at a
//! multiple of 32 bytes.
//! A matrix is (out, in), as in `nn.Linear`; its sizes are written the other way round.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use atomic_file::write_output;
use gpt::{Activation, GptConfig, GptModel};
use half::f16;
use tensor_ops::Parameters;

use crate::error::{CheckpointError, ConfigProblem, TensorProblem, in_config, in_tensor};
use crate::hugging_face_config::activation_name;
use crate::layout::Layout;
use crate::precision::Precision;
use crate::save::item;
use crate::shown::Quoted;
use crate::writer::{LazyTensor, write_numbers};

/// Each tensor's numbers begin at a multiple of so many bytes.
const ALIGNMENT: usize = 32;

/// Numbers in a block of Q8_0, which have one scale.
const BLOCK: usize = 32;

/// How a GGUF file has the matrices; vectors and position embeddings are f32 always, as llama.cpp
/// wants them.
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
    /// Each token by its id, its bytes written in GPT-2's alphabet; special and added tokens as
    /// they are.
    pub texts: Vec<String>,
    /// The kind of each: 1 normal, 3 special, 4 added, 5 unused.
    pub kinds: Vec<i32>,
    /// The two sides of each merge with a blank between them, the first merge first.
    pub merges: Vec<String>,
}

/// Writes a model as a GGUF file that llama.cpp computes with; without `tokens` it takes ids alone.
///
/// The first id of `end_of_text` ends a text. The file is written as [`write_output`] does.
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
    end_of_text: &[u32],
) -> Result<(), CheckpointError> {
    let path = path.as_ref();
    let config = model.config();
    check(config, tokens).map_err(in_config(path))?;
    let parameters: HashMap<_, _> = model.named_parameters().into_iter().collect();
    let items: Vec<LazyTensor<'_>> = Layout::HuggingFace
        .tensors(config)
        .map(|mut tensor| {
            let name = gguf_name(&tensor.name);
            if std::mem::take(&mut tensor.transposed) {
                tensor.shape.reverse();
            }
            let parts = tensor
                .parameters
                .iter()
                .map(|name| parameters.get(name).cloned());
            item(name, &tensor, parts.collect())
        })
        .collect();
    let header = header(config, format, &items, tokens, end_of_text);
    Ok(write_output(path, |out| {
        let mut written = 0;
        let mut write = |bytes: &[u8]| {
            written += bytes.len();
            out.write_all(bytes)
        };
        write(&header)?;
        for item in &items {
            let numbers = (item.numbers)();
            let numbers = numbers.as_standard_layout();
            let numbers = numbers.as_slice().expect("standard layout");
            let problem = in_tensor(path, &item.name);
            match type_of(item, format) {
                GgufFormat::F32 => put(numbers, Precision::F32, &mut write, &problem),
                GgufFormat::F16 => put(numbers, Precision::F16, &mut write, &problem),
                GgufFormat::Q8_0 => put_q8_0(numbers, &mut write, &problem),
            }?;
            let bytes = bytes_of(item, format);
            write(&vec![0; bytes.next_multiple_of(ALIGNMENT) - bytes])?;
        }
        Ok(())
    })?)
}

/// What llama.cpp's GPT-2 can't compute.
fn check(config: &GptConfig, tokens: Option<&GgufTokens>) -> Result<(), ConfigProblem> {
    let unsupported = |key, found: &str, supported| {
        let found = Quoted::text(found);
        Err(ConfigProblem::Unsupported {
            key,
            found,
            supported,
        })
    };
    if config.activation != Activation::GeluTanh {
        return unsupported(
            "activation",
            activation_name(config.activation),
            "GPT-2's gelu_new",
        );
    }
    if !config.scale_scores || config.scale_scores_by_block {
        return unsupported("scale_scores", "another", "GPT-2's scale");
    }
    match tokens {
        Some(tokens) if [tokens.texts.len(), tokens.kinds.len()] != [config.vocab_size; 2] => {
            let found = tokens.texts.len().to_string();
            unsupported("the tokenizer's size", &found, "that of the model")
        }
        _ => Ok(()),
    }
}

/// Keys and values, then the tensors, padded so that numbers can follow.
fn header(
    config: &GptConfig,
    format: GgufFormat,
    items: &[LazyTensor<'_>],
    tokens: Option<&GgufTokens>,
    end_of_text: &[u32],
) -> Vec<u8> {
    let mut keys = Keys::default();
    keys.text("general.architecture", "gpt2");
    let file_type = match format {
        GgufFormat::F32 => 0,
        GgufFormat::F16 => 1,
        GgufFormat::Q8_0 => 7,
    };
    keys.number("general.file_type", file_type);
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
            keys.texts("tokenizer.ggml.tokens", &tokens.texts);
            keys.numbers("tokenizer.ggml.token_type", &tokens.kinds);
            keys.texts("tokenizer.ggml.merges", &tokens.merges);
            keys.flag("tokenizer.ggml.add_bos_token", false);
        }
    }
    if let Some(&end) = end_of_text.first() {
        keys.number("tokenizer.ggml.bos_token_id", end);
        keys.number("tokenizer.ggml.eos_token_id", end);
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
        let number: u32 = match type_of(item, format) {
            GgufFormat::F32 => 0,
            GgufFormat::F16 => 1,
            GgufFormat::Q8_0 => 8,
        };
        out.extend(number.to_le_bytes());
        out.extend((offset as u64).to_le_bytes());
        offset += bytes_of(item, format).next_multiple_of(ALIGNMENT);
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    out
}

/// The format of one tensor.
fn type_of(item: &LazyTensor<'_>, format: GgufFormat) -> GgufFormat {
    match item.shape[..] {
        [_, _] if item.name == "position_embd.weight" => GgufFormat::F32,
        [_, columns] if format == GgufFormat::Q8_0 && columns % BLOCK != 0 => GgufFormat::F16,
        [_, _] => format,
        _ => GgufFormat::F32,
    }
}

fn bytes_of(item: &LazyTensor<'_>, format: GgufFormat) -> usize {
    let numbers: usize = item.shape.iter().product();
    match type_of(item, format) {
        GgufFormat::F32 => 4 * numbers,
        GgufFormat::F16 => 2 * numbers,
        GgufFormat::Q8_0 => numbers / BLOCK * (2 + BLOCK),
    }
}

/// llama.cpp's name of a tensor of Hugging Face's layout.
fn gguf_name(name: &str) -> String {
    const NAMES: [(&str, &str); 10] = [
        ("wte", "token_embd"),
        ("wpe", "position_embd"),
        ("ln_f", "output_norm"),
        ("lm_head", "output"),
        ("ln_1", "attn_norm"),
        ("attn.c_attn", "attn_qkv"),
        ("attn.c_proj", "attn_output"),
        ("ln_2", "ffn_norm"),
        ("mlp.c_fc", "ffn_up"),
        ("mlp.c_proj", "ffn_down"),
    ];
    let (part, kind) = name
        .rsplit_once('.')
        .expect("a weight or a bias of something");
    let (block, part) = match part
        .strip_prefix("h.")
        .and_then(|rest| rest.split_once('.'))
    {
        Some((block, part)) => (format!("blk.{block}."), part),
        None => (String::new(), part),
    };
    let mut names = NAMES.iter();
    let (_, new) = names.find(|(old, _)| *old == part).expect("all are there");
    format!("{block}{new}.{kind}")
}

/// Writes numbers of a safetensors file's kind.
fn put(
    numbers: &[f32],
    precision: Precision,
    write: &mut impl FnMut(&[u8]) -> io::Result<()>,
    problem: &impl Fn(TensorProblem) -> CheckpointError,
) -> io::Result<()> {
    let mut failed = None;
    let mut keep = |bytes: &[u8]| {
        write(bytes).map_err(|error| {
            failed = Some(error);
            problem(TensorProblem::Missing)
        })
    };
    let written = write_numbers(numbers, precision, &mut keep, problem);
    written.map_err(|error| failed.unwrap_or_else(|| io::Error::other(error)))
}

/// Writes blocks: the scale, the largest number's 127th part, and the numbers as whole multiples of
/// it.
fn put_q8_0(
    numbers: &[f32],
    write: &mut impl FnMut(&[u8]) -> io::Result<()>,
    problem: &impl Fn(TensorProblem) -> CheckpointError,
) -> io::Result<()> {
    for (block, numbers) in numbers.chunks_exact(BLOCK).enumerate() {
        let largest = numbers.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        let scale = largest / 127.0;
        if let Some(at) = numbers.iter().position(|x| !x.is_finite()) {
            return Err(io::Error::other(problem(TensorProblem::NotFinite {
                index: block * BLOCK + at,
                value: numbers[at],
            })));
        }
        if !f16::from_f32(scale).is_finite() {
            return Err(io::Error::other(problem(TensorProblem::Overflow {
                index: block * BLOCK,
                value: largest,
                precision: Precision::F16,
            })));
        }
        let steps = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let [low, high] = f16::from_f32(scale).to_le_bytes();
        let mut bytes = vec![low, high];
        bytes.extend(numbers.iter().map(|x| (x * steps).round() as i8 as u8));
        write(&bytes)?;
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

    fn texts(&mut self, key: &str, values: &[String]) {
        self.begin_array(key, 8, values.len());
        values.iter().for_each(|value| text(&mut self.bytes, value));
    }

    fn numbers(&mut self, key: &str, values: &[i32]) {
        self.begin_array(key, 5, values.len());
        self.bytes
            .extend(values.iter().flat_map(|value| value.to_le_bytes()));
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
