//! Replacing a file, and deleting what a crash left of that.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind};
use std::path::Path;

use crate::FileError;
use crate::folder::{left_behind, sync_folder};
use crate::name::{create_locked, folder_of, stem};

/// Writes a file so that a crash at any moment leaves the old one or the new one: a temporary file
/// beside it,
/// `sync_all`, rename, sync of the folder. A link of this name is replaced, not followed.
///
/// A failure deletes the temporary file; a crash leaves it for the next write of that file.
/// An error of the last step, the sync of the folder, comes when the new file is already in its
/// place.
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
/// If the operating system refuses, or `write` does.
pub fn write_atomically(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), FileError> {
    let path = path.as_ref();
    replace(path, |out| write(out).map_err(FileError::at(path, "write")))
}

/// Like [`write_atomically`], for writers with a different error type.
///
/// # Errors
/// If the operating system refuses, or `write` does.
pub fn replace<E: From<FileError>>(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    put(path.as_ref(), write, |unfinished, path| {
        fs::rename(unfinished, path).map_err(FileError::at(path, "replace"))
    })
}

/// Writes as [`replace`] does, but never overwrites a file.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if there is one when the new one is whole.
pub(crate) fn create_new<E: From<FileError>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    put(path, write, |unfinished, path| {
        move_to_new(unfinished, path).map_err(FileError::at(path, "write"))
    })
}

/// Renames a file, and fails if the name is taken: by a hard link if the file system has them, or
/// else by a rename that replaces nothing, or else over an empty file of its own.
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

/// Takes the name with an empty file, which only one process can create, and renames a file over
/// it.
fn rename_over_own(from: &Path, to: &Path) -> io::Result<()> {
    drop(File::create_new(to)?);
    // Between these two calls nobody should write there; a file that isn't empty isn't ours.
    if fs::symlink_metadata(to)?.len() > 0 {
        return Err(ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to).inspect_err(|_| {
        let _ = fs::remove_file(to);
    })
}

/// Renames a file on systems without links (FAT), and fails if the name is taken.
#[cfg(unix)]
pub(crate) fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Renames a file; the system has no other way that fails if the name is taken.
#[cfg(not(unix))]
pub(crate) fn rename_to_new(_from: &Path, _to: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Writes an unfinished file beside `path`, and lets `finish` move it there.
fn put<E: From<FileError>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
    finish: impl FnOnce(&Path, &Path) -> Result<(), FileError>,
) -> Result<(), E> {
    const BUFFER: usize = 1 << 20;
    // The remains of a crash take space, but the write can succeed anyway.
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
        // The first failure is the one to report; an old file is untouched.
        let _ = fs::remove_file(&unfinished);
    })?;
    Ok(sync_folder(folder_of(path))?)
}

/// Deletes the temporary files that killed writers of the file `path` left beside it.
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
        // The next write of the file finds the other one.
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
            // As another process does meanwhile.
            write_atomically(&path, |out| out.write_all(b"first")).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"first");
            Ok(())
        };
        write_atomically(&path, write).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Most file systems allow names of 255 bytes.
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

    /// The last resort of file systems that have neither hard links nor an exclusive rename.
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
        // A rename that fails leaves no empty file.
        fs::remove_file(&to).unwrap();
        rename_over_own(&folder.path().join("missing"), &to).unwrap_err();
        assert!(!to.exists());
    }

    #[test]
    fn a_path_without_a_name_is_refused() {
        assert!(write_atomically("/", |_| Ok(())).is_err());
    }
}
