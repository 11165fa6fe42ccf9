//! Replacing a file, and deleting what a crash left of that.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::FileError;

/// What the name of a file being written ends with; it begins with a dot, the file's own name, and who writes.
const UNFINISHED: &str = ".unfinished";

/// Writes that this process has begun.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// Writes a file so that a crash at any moment leaves the old one or the new one: a temporary file beside it, `sync_all`, rename, sync of the folder.
///
/// A failure deletes the temporary file; a crash leaves it for the next write of that file, or [`remove_unfinished`].
/// An error of the last step, the sync of the folder, comes when the new file is already in its place.
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

/// As [`write_atomically`], for writers that can fail in more ways than one.
///
/// # Errors
/// If the operating system refuses, or `write` does.
pub fn replace<E: From<FileError>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    const BUFFER: usize = 1 << 20;
    let unfinished = unfinished_path(path)?;
    // What a crash left takes room, but is no reason to fail.
    let _ = remove_unfinished(path);
    let put = || {
        let file = File::create_new(&unfinished).map_err(FileError::at(path, "create"))?;
        // Tells others that somebody still writes here; where files can't be locked nobody asks.
        let _ = file.try_lock();
        let mut out = BufWriter::with_capacity(BUFFER, file);
        write(&mut out)?;
        let file = out
            .into_inner()
            .map_err(|e| FileError::at(path, "write")(e.into_error()))?;
        file.sync_all().map_err(FileError::at(path, "sync"))?;
        fs::rename(&unfinished, path).map_err(FileError::at(path, "replace"))?;
        Ok(())
    };
    put().inspect_err(|_: &E| {
        // The first failure is the one to tell; the old file is untouched.
        let _ = fs::remove_file(&unfinished);
    })?;
    Ok(sync_folder(folder_of(path))?)
}

/// Makes the names in a folder last, as a rename is on the disk when its folder is; where a folder can't be opened there is nothing to do.
///
/// # Errors
/// If the operating system refuses.
pub fn sync_folder(folder: &Path) -> Result<(), FileError> {
    if cfg!(unix) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(FileError::at(folder, "sync"))?;
    }
    Ok(())
}

/// Deletes the temporary files that killed writers of the file `path` left beside it, and returns how many there were.
///
/// # Errors
/// If the folder can't be read or a file can't be deleted.
pub fn remove_unfinished(path: impl AsRef<Path>) -> Result<usize, FileError> {
    let path = path.as_ref();
    let folder = folder_of(path);
    let Some(name) = path.file_name().and_then(OsStr::to_str) else {
        return Ok(0);
    };
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(FileError::at(folder, "read"))? {
        let found = entry.map_err(FileError::at(folder, "read"))?;
        let is_file = found.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || found.file_name().to_str().and_then(unfinished_of) != Some(name) {
            continue;
        }
        let found = found.path();
        // A writer that lives holds its lock.
        let dead = File::open(&found).is_ok_and(|file| file.try_lock().is_ok());
        if dead {
            fs::remove_file(&found).map_err(FileError::at(&found, "delete"))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// The name of the file that a temporary file of this name becomes; none if it is no such name.
pub fn unfinished_of(name: &str) -> Option<&str> {
    let (file, writer) = name
        .strip_prefix('.')?
        .strip_suffix(UNFINISHED)?
        .rsplit_once('.')?;
    let (process, write) = writer.split_once('-')?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (!file.is_empty() && digits(process) && digits(write)).then_some(file)
}

/// `.config.json.4711-0.unfinished`: by process and write, so that two that write the same file don't meet.
fn unfinished_path(path: &Path) -> Result<PathBuf, FileError> {
    let Some(name) = path.file_name() else {
        let no_name = io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        return Err(FileError::at(path, "write")(no_name));
    };
    let write = WRITES.fetch_add(1, Ordering::Relaxed);
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(format!(".{}-{write}{UNFINISHED}", process::id()));
    Ok(path.with_file_name(unfinished))
}

/// The folder that a file is in.
fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

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
        assert!(error.to_string().ends_with("kept: can't write"), "{error}");
        assert_eq!(error.source.to_string(), "the disk is full");
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
        assert_eq!(remove_unfinished(&path).unwrap(), 1);
        assert_eq!(remove_unfinished(&path).unwrap(), 0);
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

    #[test]
    fn a_path_without_a_name_is_refused() {
        assert!(write_atomically("/", |_| Ok(())).is_err());
    }
}
