//! Replacing a file, and deleting what a crash left of that.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

use crate::FileError;

/// What the name of a file being written begins and ends with; the file's own name is between.
const UNFINISHED: (&str, &str) = (".", ".unfinished");

/// Writes a file so that a crash at any moment leaves the old one or the new one.
///
/// A failure deletes the temporary file; a crash leaves it for [`remove_unfinished`].
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
    let Some(name) = path.file_name() else {
        let no_name = io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        return Err(FileError::at(path, "write")(no_name).into());
    };
    let mut unfinished = OsString::from(UNFINISHED.0);
    unfinished.push(name);
    unfinished.push(UNFINISHED.1);
    let unfinished = path.with_file_name(unfinished);
    let put = || {
        let file = File::create(&unfinished).map_err(FileError::at(path, "create"))?;
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
    let folder = path.parent().filter(|parent| *parent != Path::new(""));
    Ok(sync_folder(folder.unwrap_or(Path::new(".")))?)
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

/// Deletes the temporary files that a crash during a save left in a folder, and returns how many there were.
///
/// # Errors
/// If the folder can't be read or a file can't be deleted.
pub fn remove_unfinished(folder: impl AsRef<Path>) -> Result<usize, FileError> {
    let folder = folder.as_ref();
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(FileError::at(folder, "read"))? {
        let path = entry.map_err(FileError::at(folder, "read"))?.path();
        let is_unfinished = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1));
        if is_unfinished && path.is_file() {
            fs::remove_file(&path).map_err(FileError::at(&path, "delete"))?;
            removed += 1;
        }
    }
    Ok(removed)
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
        write_atomically(&path, |out| out.write_all(b"whole")).unwrap();
        fs::write(folder.path().join(".model.safetensors.unfinished"), "half").unwrap();
        assert_eq!(remove_unfinished(folder.path()).unwrap(), 1);
        assert_eq!(remove_unfinished(folder.path()).unwrap(), 0);
        assert!(path.exists());
    }

    #[test]
    fn a_path_without_a_name_is_refused() {
        assert!(write_atomically("/", |_| Ok(())).is_err());
    }
}
