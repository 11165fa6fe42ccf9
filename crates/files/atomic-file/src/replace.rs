//! Replaces files so that a crash can't damage them, and deletes the unfinished files that crashes
//! leave behind.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind};
use std::path::Path;

use crate::FileError;
use crate::folder::{left_behind, sync_folder};
use crate::name::{create_locked, folder_of, stem};

/// Writes a file atomically. If the program or the computer crashes at any moment, the file has
/// either all of its old contents or all of its new contents.
///
/// The function passes an unfinished file in the same folder to `write`, syncs this file, renames
/// it to `path`, and syncs the folder. If `path` is a link, the new file replaces the link, and the
/// link's target doesn't change.
///
/// If writing fails, the unfinished file is deleted. If the program or the computer crashes, the
/// unfinished file remains in the folder until the next write to the same path, which deletes it.
///
/// ```
/// use std::io::Write;
/// let path = std::env::temp_dir().join(format!("written-{}", std::process::id()));
/// atomic_file::write_atomically(&path, |out| out.write_all(b"old"))?;
/// let full = |out: &mut std::io::BufWriter<std::fs::File>| {
///     out.write_all(b"half")?;
///     Err(std::io::Error::other("the disk is full"))
/// };
/// assert!(atomic_file::write_atomically(&path, full).is_err());
/// assert_eq!(atomic_file::read_small_file(&path, 100)?, b"old");
/// # std::fs::remove_file(&path).expect("a file");
/// # Ok::<(), atomic_file::FileError>(())
/// ```
///
/// # Errors
///
/// Returns an error if `write` or a file operation fails. The old file then doesn't change, unless
/// the operation that failed was the last one, syncing the folder. By then, the file has already
/// been replaced.
pub fn write_atomically(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), FileError> {
    let path = path.as_ref();
    replace(path, |out| write(out).map_err(FileError::at(path, "write")))
}

/// Writes a file in the same way as [`write_atomically`], but lets `write` return any error type
/// that can be created from a [`FileError`].
///
/// # Errors
///
/// Returns the error of `write`, or one of the errors described at [`write_atomically`].
pub fn replace<E: From<FileError>>(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    put(path.as_ref(), write, |unfinished, path| {
        fs::rename(unfinished, path).map_err(FileError::at(path, "replace"))
    })
}

/// Writes a file in the same way as [`replace`], which means that a crash can't leave a damaged
/// file at `path`. Unlike `replace`, this function never overwrites an existing file.
///
/// # Errors
///
/// Returns an error of kind [`ErrorKind::AlreadyExists`] if a file, folder or link exists at `path`
/// when the new file is complete. Also returns an error if `write` or a file operation fails.
pub(crate) fn create_new<E: From<FileError>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    put(path, write, |unfinished, path| {
        move_to_new(unfinished, path).map_err(FileError::at(path, "write"))
    })
}

/// Renames the file `from` to `to`, but fails if `to` exists.
///
/// The function tries three methods, because not every file system supports the first two. The
/// first method creates a hard link with the new name and deletes the old name. The second method
/// is a rename operation of the operating system that fails if the new name exists
/// ([`rename_to_new`]). The third method, [`rename_over_own`], needs no such support but has a
/// disadvantage, which is described there.
fn move_to_new(from: &Path, to: &Path) -> io::Result<()> {
    let is_taken = |error: &io::Error| error.kind() == ErrorKind::AlreadyExists;
    let moved = match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if is_taken(&error) => Err(error),
        Err(_) => match rename_to_new(from, to) {
            Err(error) if !is_taken(&error) => rename_over_own(from, to),
            renamed => renamed,
        },
    };
    moved.map_err(|error| match is_taken(&error) {
        true => io::Error::new(ErrorKind::AlreadyExists, "already exists"),
        false => error,
    })
}

/// Creates an empty file `to` and then renames the file `from` over it.
///
/// Creating the empty file fails if `to` already exists, so no file of another process is
/// overwritten. The disadvantage of this method is that the empty file remains if this process is
/// killed before the rename.
fn rename_over_own(from: &Path, to: &Path) -> io::Result<()> {
    drop(File::create_new(to)?);
    // Another program may have written to the file `to` after it was created as an empty file. If
    // the file isn't empty, the function returns an error so that the other program's contents
    // aren't lost.
    if fs::symlink_metadata(to)?.len() > 0 {
        return Err(ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to).inspect_err(|_| {
        let _ = fs::remove_file(to);
    })
}

/// Renames the file `from` to `to`, but fails if `to` exists. Unlike hard links, this operation is
/// also supported on file systems such as FAT.
#[cfg(unix)]
pub(crate) fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Always returns an error, because on this platform the standard library has no rename operation
/// that fails if `to` exists.
#[cfg(not(unix))]
pub(crate) fn rename_to_new(_from: &Path, _to: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Creates the file `path` in such a way that a crash can't damage it: writes the file under a
/// temporary name, syncs it, lets `finish` rename it, and syncs the folder. `finish` receives the
/// temporary path and `path`.
fn put<E: From<FileError>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
    finish: impl FnOnce(&Path, &Path) -> Result<(), FileError>,
) -> Result<(), E> {
    const BUFFER: usize = 1 << 20;
    // An unfinished file that was left behind by a crash does nothing but take up space, so it
    // doesn't matter if it can't be deleted.
    let _ = remove_unfinished(path);
    let (unfinished, file) = create_locked(path, |name| File::create_new(name).map(Some))?;
    let written = || {
        let mut out = BufWriter::with_capacity(BUFFER, file.expect("it was created"));
        write(&mut out)?;
        let file = out
            .into_inner()
            .map_err(|e| FileError::at(path, "write")(e.into_error()))?;
        file.sync_all().map_err(FileError::at(path, "sync"))?;
        Ok(finish(&unfinished, path)?)
    };
    written().inspect_err(|_: &E| {
        // If deleting the unfinished file fails as well, that error is ignored, because the caller
        // needs the first error, which explains why the file couldn't be written.
        let _ = fs::remove_file(&unfinished);
    })?;
    Ok(sync_folder(folder_of(path))?)
}

/// Deletes the unfinished files that crashed processes have left behind while writing to `path`.
fn remove_unfinished(path: &Path) -> Result<(), FileError> {
    let name = path.file_name().map(stem).unwrap_or_default();
    let ours = |finished: &[u8]| finished == name.as_encoded_bytes();
    for (left, _lock) in left_behind(folder_of(path), ours)? {
        if left.is_file() {
            fs::remove_file(&left).map_err(FileError::at(&left, "delete"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::name::new_name;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        write_atomically(&path, |out| out.write_all(b"old")).unwrap();
        let full = write_atomically(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        let error = full.unwrap_err();
        let message = error.to_string();
        assert!(
            message.ends_with("kept: can't write: the disk is full"),
            "{message}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_crash_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let write = || write_atomically(&path, |out| out.write_all(b"whole")).unwrap();
        write();
        let beside = |name: &str| folder.path().join(name);
        let left = beside(".model.safetensors.4711-0.unfinished");
        let written = beside(".model.safetensors.4711-1.unfinished");
        let foreign = [
            beside(".model.safetensors.unfinished"),
            beside(".draft.unfinished"),
            beside(".config.json.4711-0.unfinished"),
        ];
        for path in foreign.iter().chain([&left, &written]) {
            fs::write(path, "half").unwrap();
        }
        let writer = File::open(&written).unwrap();
        writer.lock().unwrap();
        remove_unfinished(&path).unwrap();
        assert!(!left.exists() && written.exists());
        assert!(foreign.iter().all(|path| path.exists()));
        drop(writer);
        // The file `written` looked as if another process was still writing it, because it was
        // locked. The lock has now been released, so the next write to the same path deletes the
        // file.
        write();
        assert!(!written.exists());
        assert!(path.exists());
    }

    #[test]
    fn two_that_write_one_file_do_not_meet_and_the_last_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let write = |out: &mut BufWriter<File>| {
            out.write_all(b"second")?;
            // This nested call simulates another process that writes the same file while this
            // process is still writing it.
            write_atomically(&path, |out| out.write_all(b"first")).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"first");
            Ok(())
        };
        write_atomically(&path, write).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Checks that a file can have a name of 255 bytes, the maximum length on most file systems.
    #[test]
    fn a_name_may_be_as_long_as_names_can_be() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["n".repeat(255), "\u{17f}".repeat(127)] {
            let path = folder.path().join(&name);
            let left = new_name(&path).unwrap();
            fs::write(&left, "half").unwrap();
            write_atomically(&path, |out| out.write_all(b"whole")).unwrap();
            assert!(!left.exists());
            assert_eq!(fs::read(&path).unwrap(), b"whole");
        }
    }

    /// Tests the fallback for file systems that support neither hard links nor a rename operation
    /// that fails if the new name exists.
    #[test]
    fn a_name_that_is_taken_first_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        fs::write(&from, "new").unwrap();
        rename_over_own(&from, &to).unwrap();
        assert!(!from.exists() && fs::read(&to).unwrap() == b"new");
        fs::write(&from, "newer").unwrap();
        let error = rename_over_own(&from, &to).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&to).unwrap(), b"new");
        // If the rename fails, the empty file is deleted.
        fs::remove_file(&to).unwrap();
        rename_over_own(&folder.path().join("missing"), &to).unwrap_err();
        assert!(!to.exists());
    }

    #[test]
    fn a_path_without_a_name_is_refused() {
        assert!(write_atomically("/", |_| Ok(())).is_err());
    }
}
