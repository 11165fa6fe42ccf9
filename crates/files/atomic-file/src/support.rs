//! Detects features that a file system doesn't support.
//!
//! Many network and FUSE file systems don't support locks, hard links, `fsync` for folders, or a
//! rename operation that fails if the new name already exists. This crate works without these
//! features, but then its guarantees are weaker. [`missing_support`] describes the consequences, so
//! that a program can warn its user before it writes anything.

use std::fs::{self, File};
use std::path::Path;

use crate::FileError;
use crate::file_system::Lock;
use crate::folder::sync_to_disk;
use crate::name::{create_locked, folder_of, new_name};
use crate::replace::rename_to_new;

/// Returns a message for the user if the file system of `path` lacks a feature that makes writing
/// safe. Returns `None` if the file system supports all of these features.
///
/// `path` is the file that the program is going to write. It doesn't have to exist, and it isn't
/// changed. To find out which features the file system supports, the function creates an empty
/// temporary file in the same folder and deletes it afterwards.
///
/// ```
/// let path = std::env::temp_dir().join("ids.bin");
/// if let Some(note) = atomic_file::missing_support(path)? {
///     eprintln!("note: {note}");
/// }
/// # Ok::<(), atomic_file::FileError>(())
/// ```
///
/// # Errors
///
/// Returns an error if `path` doesn't end in a name, or if no file can be created in its folder.
pub fn missing_support(path: impl AsRef<Path>) -> Result<Option<String>, FileError> {
    let path = path.as_ref();
    let folder = folder_of(path);
    let (probe, file) = create_locked(path, |name| File::create_new(name).map(Some))?;
    let has_locks = !matches!(file.as_ref().map(Lock::take), Some(Ok(Lock::Unsupported)));
    let other = new_name(path)?;
    let has_links = fs::hard_link(&probe, &other).is_ok();
    let has_new_names = has_links || rename_to_new(&probe, &other).is_ok();
    let is_durable = sync_to_disk(folder).is_ok();
    drop(file);
    for left in [&other, &probe] {
        // If the hard link couldn't be created, only one of the two paths exists. Deleting the
        // other path then fails, so errors are ignored.
        let _ = fs::remove_file(left);
    }
    let missing = [
        (
            has_locks,
            "locks, so don't start two commands that write to the same folder",
        ),
        (
            has_new_names,
            "hard links, so a command that is killed may leave an empty file",
        ),
        (
            is_durable,
            "fsync for folders, so a power failure may undo the last writes",
        ),
    ];
    let missing = missing.iter().filter(|(has, _)| !has);
    let missing: Vec<&str> = missing.map(|(_, what)| *what).collect();
    let note = || {
        let missing = missing.join("; it doesn't support ");
        format!(
            "{}: the file system of this folder doesn't support {missing}",
            folder.display()
        )
    };
    Ok((!missing.is_empty()).then(note))
}
