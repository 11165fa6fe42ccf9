//! The names of unfinished files: `.config.json.4711-0.unfinished` beside `config.json`.
//!
//! The name contains process and count, so that two writers of the same file don't collide. A
//! writer holds a lock on its file, so that the remains of a killed process can be distinguished
//! from the work of a live one. The name of a file whose own name is long contains a hash instead,
//! because a name may have at most 255 bytes.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::FileError;

/// Names of files that operating systems and file managers leave in any folder.
const SYSTEM_FILES: [&str; 3] = [".DS_Store", "desktop.ini", "Thumbs.db"];

/// The beginning of the name of a file with another file's attributes, which macOS writes where the
/// file system can't store them.
const ATTRIBUTES: &str = "._";

/// True for a file that an operating system or a file manager leaves in folders, such as
/// `.DS_Store` or `._notes.txt`.
///
/// ```
/// use atomic_file::is_system_file;
/// assert!(is_system_file("Thumbs.db".as_ref()) && !is_system_file("notes.txt~".as_ref()));
/// ```
pub fn is_system_file(name: &OsStr) -> bool {
    let is_attributes = name.as_encoded_bytes().starts_with(ATTRIBUTES.as_bytes());
    is_attributes
        || SYSTEM_FILES
            .iter()
            .any(|file| name.eq_ignore_ascii_case(file))
}

/// Returns true for a system file that belongs to a folder in which all else is `ours`: it has no
/// contents of its own, or the attributes of a file that is.
pub(crate) fn is_system_file_of(name: &OsStr, ours: impl Fn(&OsStr) -> bool) -> bool {
    match name.to_str().and_then(|name| name.strip_prefix(ATTRIBUTES)) {
        Some(file) => ours(file.as_ref()),
        None => is_system_file(name),
    }
}

/// The end of such a name, which begins with a dot, the finished name, and the writer.
const UNFINISHED: &str = ".unfinished";

/// The most bytes of a finished name that is a part of the unfinished one. The rest of that has at
/// most 33 bytes, and some encrypting file systems allow 143 in all.
const MAX_BYTES: usize = 100;

/// Names that this process has made.
static NAMES: AtomicU64 = AtomicU64::new(0);

/// Returns the finished name as it is in an unfinished one: itself, or its hash (FNV-1a) if it is
/// long.
pub(crate) fn stem(name: &OsStr) -> OsString {
    let bytes = name.as_encoded_bytes();
    if bytes.len() <= MAX_BYTES {
        return name.to_owned();
    }
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}").into()
}

/// A name beside `path` that this process has given to nothing else.
pub(crate) fn new_name(path: &Path) -> Result<PathBuf, FileError> {
    let Some(name) = path.file_name() else {
        let no_name = io::Error::new(ErrorKind::InvalidInput, "the path has no name at its end");
        return Err(FileError::at(path, "write")(no_name));
    };
    let count = NAMES.fetch_add(1, Ordering::Relaxed);
    let mut unfinished = OsString::from(".");
    unfinished.push(stem(name));
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

/// Returns the name of the file or folder that an unfinished one of this name becomes, as bytes, or
/// the hash of that name if it is long; `None` for a name of another form.
///
/// ```
/// use atomic_file::unfinished_of;
/// let name = unfinished_of(".config.json.4711-0.unfinished".as_ref());
/// assert_eq!(name, Some(&b"config.json"[..]));
/// assert_eq!(unfinished_of(".config.json.unfinished".as_ref()), None);
/// ```
pub fn unfinished_of(name: &OsStr) -> Option<&[u8]> {
    let name = name.as_encoded_bytes().strip_prefix(b".")?;
    let name = name.strip_suffix(UNFINISHED.as_bytes())?;
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    let (finished, writer) = (&name[..dot], &name[dot + 1..]);
    let dash = writer.iter().position(|&byte| byte == b'-')?;
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let is_writer = digits(&writer[..dash]) && digits(&writer[dash + 1..]);
    (!finished.is_empty() && is_writer).then_some(finished)
}

/// The folder that a file is in: `.` for a name alone.
pub fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
