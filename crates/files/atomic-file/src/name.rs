//! The names of what is not finished yet: `.config.json.4711-0.unfinished` beside `config.json`.
//!
//! By process and write, so that two that write the same file don't meet; whoever writes holds a
//! lock on it, so that the rest of a process that was killed is known from the work of one that
//! lives.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::FileError;

/// The end of such a name, which begins with a dot, the finished name, and who writes.
const UNFINISHED: &str = ".unfinished";

/// Names that this process has made.
static NAMES: AtomicU64 = AtomicU64::new(0);

/// True if there is anything of this name, be it a link to nothing; an error if the system doesn't
/// tell.
fn is_there(path: &Path) -> Result<bool, FileError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        found => found.map(|_| true).map_err(FileError::at(path, "read")),
    }
}

/// A name beside `path` that nobody has had.
pub(crate) fn new_name(path: &Path) -> Result<PathBuf, FileError> {
    let Some(name) = path.file_name() else {
        let no_name = io::Error::new(ErrorKind::InvalidInput, "the path has no name at its end");
        return Err(FileError::at(path, "write")(no_name));
    };
    loop {
        let count = NAMES.fetch_add(1, Ordering::Relaxed);
        let mut unfinished = OsString::from(".");
        unfinished.push(name);
        unfinished.push(format!(".{}-{count}{UNFINISHED}", process::id()));
        let unfinished = path.with_file_name(unfinished);
        // An earlier process may have had our number.
        if !is_there(&unfinished)? {
            return Ok(unfinished);
        }
    }
}

/// Creates something under a new name beside `path`, and locks it, if it can be locked.
pub(crate) fn create_locked(
    path: &Path,
    create: impl Fn(&Path) -> io::Result<Option<File>>,
) -> Result<(PathBuf, Option<File>), FileError> {
    loop {
        let unfinished = new_name(path)?;
        let file = match create(&unfinished) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            created => created.map_err(FileError::at(path, "create"))?,
        };
        // Between creating and locking, somebody who cleans up may have taken it for a dead one's.
        let locked = file.as_ref().map(File::try_lock);
        let taken = matches!(locked, Some(Err(TryLockError::WouldBlock)));
        let kept = is_there(&unfinished).inspect_err(|_| {
            let _ = fs::remove_file(&unfinished).or_else(|_| fs::remove_dir(&unfinished));
        })?;
        if kept && !taken {
            return Ok((unfinished, file));
        }
    }
}

/// Returns the unfinished files and folders of `path` whose processes live no more, each with its
/// lock, which is ours now.
///
/// Where something can't be opened or locked, nobody knows whether its writer lives, and it is left
/// alone.
pub(crate) fn left_behind(path: &Path) -> Result<Vec<(PathBuf, File)>, FileError> {
    let folder = folder_of(path);
    let mut left = Vec::new();
    let Some(name) = path.file_name().and_then(OsStr::to_str) else {
        return Ok(left);
    };
    for entry in fs::read_dir(folder).map_err(FileError::at(folder, "read"))? {
        let entry = entry.map_err(FileError::at(folder, "read"))?;
        let kind = entry.file_type();
        if kind.is_ok_and(|kind| kind.is_file() || kind.is_dir())
            && entry.file_name().to_str().and_then(unfinished_of) == Some(name)
            && let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            left.push((entry.path(), file));
        }
    }
    Ok(left)
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
