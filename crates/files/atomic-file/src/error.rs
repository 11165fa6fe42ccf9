//! What the operating system refused, and of which file.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What is tried when a folder takes another's place, and what after.
pub(crate) const REPLACE: &str = "replace";
pub(crate) const SYNC_AROUND: &str = "sync the folder around it";
pub(crate) const CLEAR: &str = "clear away what was replaced";

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

    /// Whether a [`StagedFolder`](crate::StagedFolder) was in its place already when this came.
    pub fn is_after_replacing(&self) -> bool {
        [SYNC_AROUND, CLEAR].contains(&self.action)
    }

    /// Whether a folder can't be made beside another, or take its place, whatever is in it.
    pub fn is_of_place(&self) -> bool {
        self.action == REPLACE || self.source.kind() == io::ErrorKind::PermissionDenied
    }
}
