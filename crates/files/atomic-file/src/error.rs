//! What the operating system refused, and of which file.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file or folder that the operating system refused; its reason is the source.
#[derive(Debug, Error)]
#[error("{}: can't {action}", .path.display())]
pub struct FileError {
    /// The file or folder.
    pub path: PathBuf,
    /// What was tried: "read", "create", ...
    pub action: &'static str,
    /// The system's answer.
    pub source: io::Error,
}

impl FileError {
    /// `.map_err(FileError::at(path, "read"))`
    pub fn at(path: &Path, action: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self {
            path: path.to_owned(),
            action,
            source,
        }
    }
}
