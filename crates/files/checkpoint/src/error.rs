//! The error type of this crate. Each message is a single line that contains the path of the file
//! and, if possible, the name of the tensor or key.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use atomic_file::FileError;
use tensor_ops::UnsupportedDtype;
use thiserror::Error;

/// The reason why a model or another file couldn't be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The operating system reported an error.
    #[error(transparent)]
    Io(#[from] FileError),
    /// The requested number format isn't supported for this kind of file.
    #[error(transparent)]
    Dtype(#[from] UnsupportedDtype),
    /// The folder contains no model that this crate can read, because config.json or the weights
    /// are missing or because the model has an unsupported file format.
    #[error("{}: {problem}", .path.display())]
    Folder {
        /// Path to the folder without a readable model, or to the file in it that has an
        /// unsupported format.
        path: PathBuf,
        /// Description of the problem. If a solution is known, the description includes it.
        problem: &'static str,
    },
    /// The file as a whole is invalid. For example, it isn't a safetensors file, or its
    /// configuration isn't supported.
    #[error("{}: {problem}", .file.display())]
    Invalid {
        /// Path to the file.
        file: PathBuf,
        /// Description of what is invalid in the file, such as the key in a configuration whose
        /// value isn't allowed, together with the allowed values.
        problem: String,
    },
    /// There is a problem with a tensor. For example, the tensor is missing, has the wrong shape,
    /// doesn't belong to the model, or contains a number that isn't finite.
    #[error("{}: tensor {tensor}: {problem}", .file.display())]
    Tensor {
        /// Path to the file.
        file: PathBuf,
        /// Quoted name of the tensor. A very long name is shortened.
        tensor: String,
        /// Description of what is wrong with the tensor, such as its shape in the file and the
        /// shape that the model requires.
        problem: String,
    },
}

/// Returns a function that converts an [`io::Error`] to a [`CheckpointError`]. It can be used as
/// `.map_err(io(path, "read"))`.
pub(crate) fn io(file: &Path, action: &'static str) -> impl FnOnce(io::Error) -> CheckpointError {
    move |source| FileError::at(file, action)(source).into()
}

/// Returns the error for a problem with a whole file.
pub(crate) fn invalid(file: &Path, problem: impl Into<String>) -> CheckpointError {
    CheckpointError::Invalid {
        file: file.to_owned(),
        problem: one_line(problem.into()),
    }
}

/// Returns the error for a problem with a tensor.
pub(crate) fn in_tensor(file: &Path, tensor: &str, problem: impl Into<String>) -> CheckpointError {
    CheckpointError::Tensor {
        file: file.to_owned(),
        tensor: quoted(tensor),
        problem: one_line(problem.into()),
    }
}

/// Formats the description of a problem, which is part of an error message, as a single line by
/// replacing control characters with spaces. If the description is very long, for example because
/// it quotes the contents of a file, an ellipsis replaces its middle.
pub fn one_line(problem: impl Display) -> String {
    const EACH_END: usize = 200;
    let text: Vec<char> = problem.to_string().chars().collect();
    let cut = match text.len() > 2 * EACH_END {
        true => {
            let (head, tail) = (&text[..EACH_END], &text[text.len() - EACH_END..]);
            [head, &['…'], tail].concat()
        }
        false => text,
    };
    cut.into_iter()
        .collect::<String>()
        .replace(char::is_control, " ")
}

/// Returns `text` as a quoted string on a single line, in which special characters are escaped.
pub(crate) fn quoted(text: &str) -> String {
    one_line(format!("{text:?}"))
}

/// Error message for a tensor that the model needs but the file doesn't contain.
pub(crate) const MISSING: &str = "the tensor is missing";

/// Error message for a tensor that the file contains but the model doesn't have.
pub(crate) const UNEXPECTED: &str = "the tensor is unexpected because the model doesn't have it";
