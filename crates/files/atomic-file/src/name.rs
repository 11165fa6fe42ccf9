//! Names of unfinished files and folders.
//!
//! A new file is first written under a temporary name in its final folder, and is renamed when it
//! is complete. Until then, it is called an *unfinished file*. For example, `config.json` is
//! written as `.config.json.4711-0.unfinished`.
//!
//! The temporary name contains the ID of the writing process (4711) and a counter (0), so two
//! writers of the same file never use the same temporary name. The writer also holds a lock on its
//! unfinished file. If the process is killed, the operating system releases the lock, so other
//! processes can tell abandoned files from files that are still being written.
//!
//! File systems limit the length of names, usually to 255 bytes. If the final name is long, the
//! temporary name therefore contains a hash of the final name.
//!
//! Unfinished folders follow the same rules.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::FileError;

/// Names of files that operating systems and file managers create in any folder.
const SYSTEM_FILES: [&str; 3] = [".DS_Store", "desktop.ini", "Thumbs.db"];

/// Prefix of the AppleDouble files in which macOS stores the attributes of other files if the file
/// system can't store attributes. For example, `._notes.txt` contains the attributes of
/// `notes.txt`.
const ATTRIBUTES: &str = "._";

/// Returns true for the name of a file that an operating system or a file manager creates in
/// folders, such as `.DS_Store` or `._notes.txt`.
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

/// Returns true if `name` is the name of a system file that may be deleted together with its
/// folder. `ours` must return true for the names of files that this program has created.
///
/// An attribute file such as `._notes.txt` may be deleted only if `ours` returns true for
/// `notes.txt`. Other system files contain nothing of value, so they may always be deleted.
pub(crate) fn is_system_file_of(name: &OsStr, ours: impl Fn(&OsStr) -> bool) -> bool {
    match name.as_encoded_bytes().strip_prefix(ATTRIBUTES.as_bytes()) {
        // This program creates only files whose names are valid UTF-8. If the part of the name
        // after `._` isn't valid UTF-8, the attribute file doesn't belong to a file of this
        // program.
        Some(file) => str::from_utf8(file).is_ok_and(|file| ours(file.as_ref())),
        None => is_system_file(name),
    }
}

/// Suffix of the names of unfinished files and folders.
const UNFINISHED: &str = ".unfinished";

/// Maximum length in bytes of a final name that is part of a temporary name. If the final name is
/// longer, the temporary name contains its hash instead.
///
/// In addition to the final name, a temporary name contains at most 33 bytes as long as its counter
/// is less than one billion. The temporary name is therefore shorter than 143 bytes, which is the
/// maximum length of a name on some encrypting file systems.
const MAX_BYTES: usize = 100;

/// Number of temporary names that this process has generated so far.
static NAMES: AtomicU64 = AtomicU64::new(0);

/// Returns the part of a temporary name that represents the final name `name`. This part is `name`
/// itself or, if `name` is long, its 64-bit FNV-1a hash in hexadecimal digits.
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

/// Returns a temporary name for `path` in the same folder. No two calls in a process return the
/// same name.
///
/// # Errors
///
/// Returns an error if the last component of `path` isn't a name, as in `/` and `folder/..`.
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

/// Creates and locks an unfinished file or folder for `path`, and returns its path and its lock.
///
/// `create` receives the temporary name and returns the file to lock, or `None` if the new item
/// can't be opened. If the file system doesn't support locks, the returned file isn't locked.
///
/// # Errors
///
/// Returns an error if `path` doesn't end in a name, or if `create` fails. If `create` fails
/// because an item with the temporary name already exists, the function tries another name instead
/// of returning an error.
pub(crate) fn create_locked(
    path: &Path,
    create: impl Fn(&Path) -> io::Result<Option<File>>,
) -> Result<(PathBuf, Option<File>), FileError> {
    loop {
        let unfinished = new_name(path)?;
        let file = match create(&unfinished) {
            // This temporary name contains the ID of this process, but an item with the same name
            // already exists. It was left behind by an earlier process that had the same ID, so the
            // loop tries another name.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            created => created.map_err(FileError::at(path, "create"))?,
        };
        // Before this process could lock the new item, another process may have found it. Because
        // the item wasn't locked, that process may have taken it for an item that was left behind
        // by a crash, and may have locked or deleted it. The loop then tries another name.
        let locked = file.as_ref().map(File::try_lock);
        let is_taken = matches!(locked, Some(Err(TryLockError::WouldBlock)));
        let found = fs::symlink_metadata(&unfinished);
        if !is_taken && !found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok((unfinished, file));
        }
    }
}

/// Returns the final name of an unfinished file or folder, given its temporary name `name`.
///
/// The result consists of the bytes of the final name or, if the final name has more than 100
/// bytes, of its hash. Returns `None` if `name` isn't a temporary name generated by this crate.
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

/// Returns the folder that contains `file`. If the path consists of a name only, as in
/// `config.json`, the function returns the current folder, `.`.
pub fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
