//! The error of this crate: the refused operation and the file.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A file or folder that the operating system refused.
///
/// It is displayed with the system's reason, which therefore isn't its
/// [`source`](std::error::Error::source) as well.
///
/// ```
/// let error = atomic_file::open_file("no/such/file").unwrap_err();
/// assert_eq!(error.source.kind(), std::io::ErrorKind::NotFound);
/// assert!(error.to_string().starts_with("no/such/file: can't read: "));
/// ```
#[derive(Debug)]
pub struct FileError {
    /// The file or folder.
    pub path: PathBuf,
    /// The action that failed: "read", "create", ...
    pub action: &'static str,
    /// The system's answer.
    pub source: io::Error,
}

impl FileError {
    /// `.map_err(FileError::at(path, "read"))`
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
