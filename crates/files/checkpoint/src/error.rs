//! What can be wrong with a model folder, told in one line that names the file and the tensor or
//! key.

use std::io;
use std::path::{Path, PathBuf};

use atomic_file::FileError;
use thiserror::Error;

use crate::Precision;
use crate::shown::{JsonProblem, Quoted, Shape};
use gpt::GptError;

/// A folder or file that can't be read as a model, or can't be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] FileError),
    /// A folder that lacks a file every model folder has, or something that is neither a folder nor
    /// a file.
    #[error("{}: {problem}", .path.display())]
    Folder {
        /// The folder, or what was taken for one.
        path: PathBuf,
        /// What it lacks.
        problem: &'static str,
    },
    /// A weights file that is no safetensors file.
    #[error("{}: {problem}", .file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: FormatProblem,
    },
    /// A tensor that is missing, unexpected, or not what the configuration asks for.
    #[error("{}: tensor {tensor}: {problem}", .file.display())]
    Tensor {
        /// The file.
        file: PathBuf,
        /// The tensor's name, quoted, and cut if it is very long.
        tensor: Quoted,
        /// What is wrong.
        problem: TensorProblem,
    },
    /// A configuration that describes no model, or one that this crate would compute wrongly.
    #[error("{}: {problem}", .file.display())]
    Config {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: ConfigProblem,
    },
}

/// Why a file is no safetensors file: it is eight bytes of header length, a JSON header, and the
/// tensors' bytes.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FormatProblem {
    /// Another kind of file, known by its first bytes.
    #[error("this is {0}, not a safetensors file")]
    Foreign(&'static str),
    /// Too short for the header's length.
    #[error("a safetensors file begins with 8 bytes of header length, but the file has {0} bytes")]
    TooShort(u64),
    /// The header would end beyond the file.
    #[error("the header is said to have {header} bytes, but {file} bytes follow its length")]
    HeaderBeyondFile {
        /// As the file says.
        header: u64,
        /// What there is.
        file: u64,
    },
    /// A header larger than any model's.
    #[error("the header has {header} bytes, more than the {limit} that are read")]
    HeaderTooLong {
        /// As the file says.
        header: u64,
        /// The most that is read.
        limit: u64,
    },
    /// No JSON object of tensors, or one whose tensors don't lie one after another.
    #[error("the header is wrong: {0}")]
    Header(JsonProblem),
    /// The same name twice, which can't be written.
    #[error("the header would have {0} twice")]
    Duplicate(Quoted),
    /// The tensors' bytes end before the file does, or after.
    #[error("the tensors end at byte {tensors} of the data, but {data} bytes follow the header")]
    DataLength {
        /// Where the last tensor ends.
        tensors: u64,
        /// What there is.
        data: u64,
    },
}

/// What is wrong with one tensor.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TensorProblem {
    /// A header entry that is no type, shape and place, or whose three don't agree.
    #[error("the header's entry is wrong: {0}")]
    Entry(JsonProblem),
    /// A type that weights don't have.
    #[error("the dtype is {0}, but weights must be F64, F32, F16 or BF16")]
    Dtype(String),
    /// Not in the file.
    #[error("missing")]
    Missing,
    /// Not one the model has.
    #[error("unexpected: the model has no such tensor")]
    Unexpected,
    /// Another shape than the configuration's.
    #[error("the shape is {found}, but the configuration asks for {expected}")]
    Shape {
        /// By the configuration.
        expected: Shape,
        /// In the file.
        found: Shape,
    },
    /// More than the precision of the file can hold.
    #[error("element {index} is {value}, which {precision} can't hold")]
    Overflow {
        /// In row-major order.
        index: usize,
        /// The model's number.
        value: f32,
        /// The file's precision.
        precision: Precision,
    },
    /// NaN or infinity.
    #[error("element {index} is {value}, but weights must be finite")]
    NotFinite {
        /// In row-major order.
        index: usize,
        /// NaN or an infinity.
        value: f32,
    },
    /// In two files of a sharded model, or under two names.
    #[error("it is there twice")]
    Twice,
    /// The index places it in a file that isn't in the folder by that name.
    #[error("the index places it in {0}, but a shard is a file in the same folder")]
    ShardName(Quoted),
    /// The index places it in another file.
    #[error("the index does not place it in this file")]
    OtherShard,
}

/// What is wrong with a configuration, or with the index of a sharded model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// Larger than any model's.
    #[error("the file has {bytes} bytes, more than the {limit} that are read")]
    TooLong {
        /// What there is.
        bytes: u64,
        /// The most that is read.
        limit: u64,
    },
    /// Begins with the bytes EF BB BF.
    #[error("the file begins with a byte-order mark; JSON is UTF-8 without one")]
    ByteOrderMark,
    /// Bytes that are no text.
    #[error("the file is not UTF-8: byte {0} is wrong")]
    NotUtf8(usize),
    /// Text that is no JSON object.
    #[error("not a JSON object: {0}")]
    NotJson(JsonProblem),
    /// A key that must be there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A key our own files don't have.
    #[error("unknown key {key}{}", .suggestion.map(|s| format!("; did you mean {s:?}?")).unwrap_or_default())]
    UnknownKey {
        /// As in the file.
        key: Quoted,
        /// The nearest one there is.
        suggestion: Option<&'static str>,
    },
    /// A value of the wrong kind or outside its range.
    #[error("{key} must be {expected}, but is {found}")]
    Value {
        /// The key.
        key: &'static str,
        /// What it must be.
        expected: &'static str,
        /// What it is, cut if it is very long.
        found: Quoted,
    },
    /// A setting that changes the arithmetic in a way this crate doesn't have.
    #[error("{key} is {found}, but only {supported} can be computed")]
    Unsupported {
        /// The key.
        key: &'static str,
        /// As in the file, cut if it is very long.
        found: Quoted,
        /// What can be loaded.
        supported: &'static str,
    },
    /// Two keys that contradict each other.
    #[error(
        "{width_key} must be divisible by {heads_key}, but {width_key} is {width} and {heads_key} is {heads}"
    )]
    HeadsDontDivide {
        /// `n_embd` or `emb_dim`.
        width_key: &'static str,
        /// The size of an embedding.
        width: usize,
        /// `n_head` or `n_heads`.
        heads_key: &'static str,
        /// The number of heads.
        heads: usize,
    },
    /// What only the whole configuration shows.
    #[error(transparent)]
    Model(GptError),
}

/// `.map_err(io(path, "read"))`
pub(crate) fn io(file: &Path, action: &'static str) -> impl FnOnce(io::Error) -> CheckpointError {
    move |source| FileError::at(file, action)(source).into()
}

/// `.map_err(in_file(path))` for what is wrong with a whole file.
pub(crate) fn in_file(file: &Path) -> impl Fn(FormatProblem) -> CheckpointError {
    move |problem| CheckpointError::Format {
        file: file.to_owned(),
        problem,
    }
}

/// `.map_err(in_tensor(path, name))`
pub(crate) fn in_tensor(file: &Path, tensor: &str) -> impl Fn(TensorProblem) -> CheckpointError {
    move |problem| CheckpointError::Tensor {
        file: file.to_owned(),
        tensor: Quoted::text(tensor),
        problem,
    }
}

/// `.map_err(in_config(path))`
pub(crate) fn in_config(file: &Path) -> impl Fn(ConfigProblem) -> CheckpointError {
    move |problem| CheckpointError::Config {
        file: file.to_owned(),
        problem,
    }
}
