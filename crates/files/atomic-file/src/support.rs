//! What a folder's file system supports. Network and FUSE file systems often lack hard links, a
//! rename that never replaces a file, locks, or a way to make a folder durable.
//!
//! This crate needs none of them: it falls back to the next best method. [`missing_support`] says
//! what that costs, before there is anything to write.

use std::fs::{self, File};
use std::path::Path;

use crate::FileError;
use crate::file_system::Lock;
use crate::folder::sync_to_disk;
use crate::name::{create_locked, folder_of, new_name};
use crate::replace::rename_to_new;

/// Returns a note if the file system of a file that doesn't exist yet lacks something that makes
/// writing safe. To find out, it creates an empty file beside `path` and deletes it.
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
/// If a file can't be created there.
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
        let _ = fs::remove_file(left); // one of them is gone if it was renamed
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
        let missing = missing.join("; no ");
        format!("{}: this file system has no {missing}", folder.display())
    };
    Ok((!missing.is_empty()).then(note))
}
