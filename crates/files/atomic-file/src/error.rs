//! The error type of this crate, which describes a failed file operation.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A failed operation on a file or folder.
///
/// The error message contains the path, the operation and the reason for the failure. Because the
/// message already includes the reason, [`Error::source`] returns `None`.
///
/// ```
/// let error = atomic_file::open_file("no/such/file").unwrap_err();
/// assert_eq!(error.source.kind(), std::io::ErrorKind::NotFound);
/// assert!(error.to_string().starts_with("no/such/file: can't read: "));
/// ```
#[derive(Debug)]
pub struct FileError {
    /// Path to the file or folder.
    pub path: PathBuf,
    /// Verb that describes the operation, such as "read" or "create".
    pub action: &'static str,
    /// Reason for the failure, which is usually an error reported by the operating system.
    pub source: io::Error,
}

impl FileError {
    /// Returns a function that converts an [`io::Error`] to a [`FileError`], which also contains
    /// `path` and the name of the operation that failed, `action`.
    ///
    /// The function is meant for `map_err`, as in `.map_err(FileError::at(path, "read"))`.
    pub fn at(path: &Path, action: &'static str) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self {
            path: path.clone(),
            action,
            source,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, action, source) = (self.path.display(), self.action, &self.source);
        write!(f, "{path}: can't {action}: {source}")
    }
}

impl Error for FileError {}
