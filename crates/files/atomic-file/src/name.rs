//! The names of unfinished files: `.config.json.4711-0.unfinished` beside `config.json`.
//!
//! The name contains process and count, so that two writers of the same file don't collide. A
//! writer holds a lock on its file, so that the remains of a killed process can be distinguished
//! from the work of a live one.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::FileError;

/// Names of files that operating systems, file managers and editors leave in any folder.
const SYSTEM_FILES: [&str; 3] = [".DS_Store", "desktop.ini", "Thumbs.db"];

/// The beginnings of such names: macOS's copies of attributes, Emacs' locks, and files that an NFS
/// client still has open.
const SYSTEM_PREFIXES: [&str; 3] = ["._", ".#", ".nfs"];

/// True for a file that a system or an editor leaves in folders, such as `.DS_Store` or
/// `notes.txt~`: [`names_in`](crate::names_in) omits it.
pub fn is_system_file(name: &str) -> bool {
    let is_known = SYSTEM_FILES
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known));
    is_known || SYSTEM_PREFIXES.iter().any(|start| name.starts_with(start)) || name.ends_with('~')
}

/// The end of such a name, which begins with a dot, the finished name, and the writer.
const UNFINISHED: &str = ".unfinished";

/// Names that this process has made.
static NAMES: AtomicU64 = AtomicU64::new(0);

/// A name beside `path` that this process has given to nothing else.
pub(crate) fn new_name(path: &Path) -> Result<PathBuf, FileError> {
    let Some(name) = path.file_name() else {
        let no_name = io::Error::new(ErrorKind::InvalidInput, "the path has no name at its end");
        return Err(FileError::at(path, "write")(no_name));
    };
    let count = NAMES.fetch_add(1, Ordering::Relaxed);
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(format!(".{}-{count}{UNFINISHED}", process::id()));
    Ok(path.with_file_name(unfinished))
}

/// Creates something under a new name beside `path`, and locks it, if it can be locked.
pub(crate) fn create_locked(
    path: &Path,
    create: impl Fn(&Path) -> io::Result<Option<File>>,
) -> Result<(PathBuf, Option<File>), FileError> {
    loop {
        let unfinished = new_name(path)?;
        let file = match create(&unfinished) {
            // An earlier process had our number.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            created => created.map_err(FileError::at(path, "create"))?,
        };
        // Between creating and locking, another process's cleanup may have deleted it as abandoned.
        let locked = file.as_ref().map(File::try_lock);
        let is_taken = matches!(locked, Some(Err(TryLockError::WouldBlock)));
        let found = fs::symlink_metadata(&unfinished);
        if !is_taken && !found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok((unfinished, file));
        }
    }
}

/// The name of the file or folder that an unfinished one of this name becomes; none if it is no
/// such name.
pub fn unfinished_of(name: &str) -> Option<&str> {
    let (finished, writer) = name
        .strip_prefix('.')?
        .strip_suffix(UNFINISHED)?
        .rsplit_once('.')?;
    let (process, count) = writer.split_once('-')?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (!finished.is_empty() && digits(process) && digits(count)).then_some(finished)
}

/// The folder that a file is in: `.` for a name alone.
pub fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
