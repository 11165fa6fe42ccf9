//! Reading: only regular files are opened, and one that should be small is not read if it isn't.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::FileError;

/// True if there is a file at `path`.
///
/// # Errors
/// If the system can't report it, which doesn't mean that the file is missing; if it exists but
/// isn't a file.
pub fn is_file(path: impl AsRef<Path>) -> Result<bool, FileError> {
    match length(path.as_ref()) {
        Err(error) if error.source.kind() == ErrorKind::NotFound => Ok(false),
        found => found.map(|_| true),
    }
}

/// Opens a file to be read and returns its length in bytes.
///
/// It looks before it opens: opening a pipe would wait for its other end.
///
/// # Errors
/// If it can't be read; [`ErrorKind::IsADirectory`] for a folder, [`ErrorKind::Unsupported`] for
/// anything else that isn't a file.
pub fn open_file(path: impl AsRef<Path>) -> Result<(File, u64), FileError> {
    let path = path.as_ref();
    let length = length(path)?;
    let file = File::open(path).map_err(FileError::at(path, "read"))?;
    Ok((file, length))
}

/// The bytes of a file that may not have more than `limit`.
///
/// # Errors
/// As [`open_file`]; [`ErrorKind::FileTooLarge`] if it is longer.
pub fn read_small_file(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>, FileError> {
    let path = path.as_ref();
    let failed = FileError::at(path, "read");
    let (file, mut length) = open_file(path)?;
    let mut bytes = Vec::new();
    if length <= limit {
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(&failed)?;
        length = bytes.len() as u64; // it may have grown between the look and the read
    }
    if length > limit {
        let problem = format!("the file has {length} bytes, more than the {limit} that are read");
        return Err(failed(io::Error::new(ErrorKind::FileTooLarge, problem)));
    }
    Ok(bytes)
}

/// Fills `out` from a file's bytes at `offset`, independent of the file's position; several threads
/// may read one file.
///
/// # Errors
/// If the file ends before, or can't be read; always on a system that is neither Unix nor Windows.
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

/// Puts quotes around the numbers that Python's `json` writes and JSON doesn't have: `NaN`,
/// `Infinity` and `-Infinity`.
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
        // A file instead of a folder: the system doesn't report a missing file.
        assert!(is_file(path.join("inside")).is_err());
        if cfg!(unix) {
            let error = open_file("/dev/null").unwrap_err();
            assert_eq!(error.source.to_string(), "not a file");
        }
        // Opening it would wait for ever.
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if made.is_ok_and(|status| status.success()) {
            assert!(is_file(&pipe).is_err() && open_file(&pipe).is_err());
        }
    }
}
