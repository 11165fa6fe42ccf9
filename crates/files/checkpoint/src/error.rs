//! The error of this crate: one line that names the file and the tensor or key.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use atomic_file::FileError;
use tensor_ops::UnsupportedDtype;
use thiserror::Error;

/// A folder or file that can't be read as a model, or can't be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] FileError),
    /// A number format that the file can't have.
    #[error(transparent)]
    Dtype(#[from] UnsupportedDtype),
    /// A folder that lacks a file every model folder has.
    #[error("{}: {problem}", .path.display())]
    Folder {
        /// The folder, or the path given instead of one.
        path: PathBuf,
        /// The missing file, and the fix.
        problem: &'static str,
    },
    /// A file that isn't safetensors, or a configuration that doesn't describe a model, or one with
    /// unsupported arithmetic.
    #[error("{}: {problem}", .file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The wrong key or number, the expected one, and the fix.
        problem: String,
    },
    /// A tensor that is missing, unexpected, not what the configuration asks for, or has a number
    /// that weights can't have.
    #[error("{}: tensor {tensor}: {problem}", .file.display())]
    Tensor {
        /// The file.
        file: PathBuf,
        /// The tensor's name, in quotes, and cut if it is very long.
        tensor: String,
        /// The problem, with the numbers found and expected.
        problem: String,
    },
}

/// `.map_err(io(path, "read"))`
pub(crate) fn io(file: &Path, action: &'static str) -> impl FnOnce(io::Error) -> CheckpointError {
    move |source| FileError::at(file, action)(source).into()
}

/// Returns an error about a whole file.
pub(crate) fn invalid(file: &Path, problem: impl Into<String>) -> CheckpointError {
    CheckpointError::Invalid {
        file: file.to_owned(),
        problem: one_line(problem.into()),
    }
}

/// Returns an error about one tensor of a file.
pub(crate) fn in_tensor(file: &Path, tensor: &str, problem: impl Into<String>) -> CheckpointError {
    CheckpointError::Tensor {
        file: file.to_owned(),
        tensor: quoted(tensor),
        problem: one_line(problem.into()),
    }
}

/// A problem on one line, without its middle if it is very long, as where it quotes a file.
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

/// A text in quotes, with its characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    one_line(format!("{text:?}"))
}

/// The problem of a tensor that the model has and the file hasn't.
pub(crate) const MISSING: &str = "missing";

/// The problem of one that the file has and the model hasn't.
pub(crate) const UNEXPECTED: &str = "unexpected: the model has no such tensor";
