//! Reads regular files.
//!
//! [`open_file`] and [`read_small_file`] reject folders, devices, FIFOs, and pointer files, which
//! stand in for large files that haven't been downloaded yet. [`read_small_file`] also rejects
//! files that are longer than a given limit.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek};
use std::path::Path;

use crate::FileError;
use crate::file_format::{FileFormat, MAX_POINTER_BYTES};

/// Returns true if `path` is a regular file or a link to one, and false if nothing exists at
/// `path`.
///
/// # Errors
///
/// Returns an error if something other than a regular file exists at `path`, or if the operating
/// system reports an error, for example because the user has no permission to search a folder. If
/// the file is missing and [`missing_reason`] can explain why, the function also returns an error,
/// which contains this explanation.
pub fn is_file(path: impl AsRef<Path>) -> Result<bool, FileError> {
    match length(path.as_ref()) {
        Err(error) if error.source.kind() == ErrorKind::NotFound => Ok(false),
        found => found.map(|_| true),
    }
}

/// Opens a regular file for reading, and returns it with its length in bytes.
///
/// The type of the file is checked before the file is opened, because opening a FIFO would block
/// until another process writes to it.
///
/// # Errors
///
/// Returns an error of kind [`ErrorKind::IsADirectory`] for a folder, [`ErrorKind::Unsupported`]
/// for a device, a FIFO or a socket, and [`ErrorKind::InvalidData`] for a pointer file of Git LFS,
/// git-annex or DVC. Also returns an error if the file can't be opened or read.
pub fn open_file(path: impl AsRef<Path>) -> Result<(File, u64), FileError> {
    let path = path.as_ref();
    let failed = FileError::at(path, "read");
    let length = length(path)?;
    let mut file = File::open(path).map_err(&failed)?;
    if length <= MAX_POINTER_BYTES {
        let mut contents = Vec::new();
        let read = (&file).take(MAX_POINTER_BYTES).read_to_end(&mut contents);
        read.and_then(|_| file.rewind()).map_err(&failed)?;
        if let Some(format) = FileFormat::of_pointer(&contents) {
            let problem = format!("this file looks like {format}");
            return Err(failed(io::Error::new(ErrorKind::InvalidData, problem)));
        }
    }
    Ok((file, length))
}

/// Returns an explanation of why the file at `path` is missing, if `path` is a link whose target
/// doesn't exist, or if the folder contains the file's DVC pointer, whose name ends in `.dvc`.
/// Otherwise, returns `None`.
///
/// Call this function only if the file is known to be missing. If `path` is a link, the function
/// doesn't check whether the link's target exists.
pub fn missing_reason(path: impl AsRef<Path>) -> Option<String> {
    let path = path.as_ref();
    if let Ok(target) = fs::read_link(path) {
        let target = target.to_string_lossy();
        let advice = match target.contains("annex/objects/") {
            true => "; run git annex get to download the file",
            false => "",
        };
        return Some(format!(
            "this is a link to {target}, which doesn't exist{advice}"
        ));
    }
    let mut name = path.file_name()?.to_owned();
    name.push(".dvc");
    let pointer = path.with_file_name(&name);
    pointer.is_file().then(|| {
        let name = name.to_string_lossy();
        format!("this file is missing, but its DVC pointer, {name}, exists; run dvc pull to download the file")
    })
}

/// Returns the contents of a file, which must not have more than `limit` bytes.
///
/// # Errors
///
/// Returns an error of kind [`ErrorKind::FileTooLarge`] if the file has more than `limit` bytes. If
/// the file can't be opened, returns one of the errors of [`open_file`]. Also returns an error if
/// the file can't be read.
pub fn read_small_file(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>, FileError> {
    let path = path.as_ref();
    let failed = FileError::at(path, "read");
    let (file, mut length) = open_file(path)?;
    let mut bytes = Vec::new();
    if length <= limit {
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(&failed)?;
        // The file may have grown since its length was determined.
        length = bytes.len() as u64;
    }
    if length > limit {
        let problem = format!("the file has {length} bytes, but the maximum is {limit} bytes");
        return Err(failed(io::Error::new(ErrorKind::FileTooLarge, problem)));
    }
    Ok(bytes)
}

/// Fills `out` with the bytes of a file that start at `offset`. The result doesn't depend on the
/// current position in the file, so several threads can read the same file at the same time.
///
/// # Errors
///
/// Returns an error of kind [`ErrorKind::UnexpectedEof`] if the file ends before `out` is full, and
/// another error if reading fails. On systems other than Unix and Windows, always returns an error
/// of kind [`ErrorKind::Unsupported`].
pub fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, out, offset);
    #[cfg(windows)]
    return seek_read_exact(file, out, offset);
    #[cfg(not(any(unix, windows)))]
    {
        let _ = (file, out, offset);
        Err(ErrorKind::Unsupported.into())
    }
}

#[cfg(windows)]
fn seek_read_exact(file: &File, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                out = &mut out[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Puts the numbers `NaN`, `Infinity` and `-Infinity` in quotation marks, so that JSON parsers
/// accept them as strings. Python's `json` module writes these numbers without quotation marks,
/// although JSON doesn't allow them.
///
/// ```
/// let text = r#"{"a":NaN, "b": [-Infinity], "c": "NaN"}"#;
/// let quoted = r#"{"a":"NaN", "b": ["-Infinity"], "c": "NaN"}"#;
/// assert_eq!(atomic_file::quote_python_numbers(text), quoted);
/// ```
pub fn quote_python_numbers(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    let (mut rest, mut in_string) = (text, false);
    while let Some(c) = rest.chars().next() {
        let mut numbers = ["NaN", "Infinity", "-Infinity"].into_iter();
        if in_string && c == '\\' {
            let escape = rest.chars().take(2).map(char::len_utf8).sum();
            quoted.push_str(&rest[..escape]);
            rest = &rest[escape..];
        } else if let (false, Some(number)) = (in_string, numbers.find(|n| rest.starts_with(n))) {
            quoted.push_str(&format!("\"{number}\""));
            rest = &rest[number.len()..];
        } else {
            in_string ^= c == '"';
            quoted.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    quoted
}

fn length(path: &Path) -> Result<u64, FileError> {
    let no_file = |kind| Err(io::Error::new(kind, "not a file"));
    let found = fs::metadata(path);
    let length = found.and_then(|found| match (found.is_file(), found.is_dir()) {
        (true, _) => Ok(found.len()),
        (_, true) => no_file(ErrorKind::IsADirectory),
        _ => no_file(ErrorKind::Unsupported),
    });
    let length = length.map_err(|error| match missing_reason(path) {
        Some(reason) if error.kind() == ErrorKind::NotFound => io::Error::other(reason),
        _ => error,
    });
    length.map_err(FileError::at(path, "read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(!is_file(&path).unwrap());
        fs::write(&path, "four").unwrap();
        assert!(is_file(&path).unwrap());
        assert_eq!(read_small_file(&path, 4).unwrap(), b"four");
        let long = read_small_file(&path, 3).unwrap_err().source.to_string();
        assert!(long.contains("4 bytes") && long.contains("3"), "{long}");
        let error = is_file(folder.path()).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::IsADirectory);
        // Checks that a file in a path doesn't count as a folder. The path `path/inside` is invalid
        // because `path` is a file. The operating system reports an error for such a path, and
        // `is_file` must return this error instead of `false`, which would mean that the file is
        // missing.
        assert!(is_file(path.join("inside")).is_err());
        if cfg!(unix) {
            let error = open_file("/dev/null").unwrap_err();
            assert_eq!(error.source.to_string(), "not a file");
        }
        // Checks that `is_file` and `open_file` reject a FIFO without opening it. Opening a FIFO to
        // which nobody writes would block forever.
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if made.is_ok_and(|status| status.success()) {
            assert!(is_file(&pipe).is_err() && open_file(&pipe).is_err());
        }
    }

    /// Checks that the pointer files of Git LFS, git-annex and DVC are rejected. The first two
    /// formats are described in git-lfs/docs/spec.md and on git-annex's page "pointer file". On
    /// systems without symbolic links, Git checks out git-annex's links as files that begin with
    /// `../.git`. The DVC file was written by `dvc add` (version 3).
    #[test]
    fn a_pointer_is_never_taken_for_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("merges.txt");
        for (pointer, name) in [
            (
                "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
                "Git LFS pointer",
            ),
            (
                "version https://hawser.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
                "Git LFS pointer",
            ),
            (
                "/annex/objects/SHA256E-s12345--4d7a2146.txt\n",
                "git-annex pointer",
            ),
            (
                "../.git/annex/objects/W8/2p/SHA256E-s5--4d7a.txt/SHA256E-s5--4d7a.txt",
                "git-annex pointer",
            ),
            (
                "outs:\n- md5: 4d7a\n  size: 5\n  hash: md5\n  path: merges.txt\n",
                "DVC pointer",
            ),
        ] {
            fs::write(&path, pointer).unwrap();
            let error = read_small_file(&path, 2000).unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("to download"),
                "{error}"
            );
        }
        for text in ["version 1", "/annex", "outs:", "", "../.git/config"] {
            fs::write(&path, text).unwrap();
            assert_eq!(read_small_file(&path, 2000).unwrap(), text.as_bytes());
        }
        let long = "version https://git-lfs.github.com/spec/".repeat(40);
        fs::write(&path, &long).unwrap();
        assert_eq!(read_small_file(&path, 2000).unwrap(), long.as_bytes());
    }

    #[test]
    fn what_stands_in_for_a_file_is_not_a_missing_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vocab.json");
        assert_eq!(missing_reason(&path), None);
        fs::write(folder.path().join("vocab.json.dvc"), "outs:").unwrap();
        let error = is_file(&path).unwrap_err().to_string();
        assert!(error.contains("vocab.json.dvc"), "{error}");
        #[cfg(unix)]
        for (target, advice) in [
            ("nowhere/at all", "which doesn't exist"),
            (".git/annex/objects/W8/x", "git annex get"),
        ] {
            std::os::unix::fs::symlink(target, &path).unwrap();
            let error = is_file(&path).unwrap_err().to_string();
            assert!(error.contains(target) && error.contains(advice), "{error}");
            assert_ne!(
                open_file(&path).unwrap_err().source.kind(),
                ErrorKind::NotFound
            );
            fs::remove_file(&path).unwrap();
        }
    }
}
