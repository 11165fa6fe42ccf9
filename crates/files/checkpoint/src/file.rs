//! Files: opened only if they are files, read at a position, small ones as text.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use atomic_file::write_atomically;

use crate::error::{CheckpointError, ConfigProblem, in_config, io as io_error};

/// Whether there is a file at `path`.
///
/// # Errors
/// If the system doesn't tell, which doesn't mean that there is none; if there is something that is
/// not a file.
pub fn is_file(path: impl AsRef<Path>) -> Result<bool, CheckpointError> {
    let path = path.as_ref();
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(CheckpointError::Folder {
            path: path.to_owned(),
            problem: "not a file",
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error(path, "read")(error)),
    }
}

/// Opens a file to be read and returns its size.
///
/// It looks before it opens: opening a pipe would wait for its other end.
///
/// # Errors
/// If it can't be read, or is not a file.
pub fn open_file(path: impl AsRef<Path>) -> Result<(File, u64), CheckpointError> {
    let path = path.as_ref();
    let metadata = fs::metadata(path).map_err(io_error(path, "read"))?;
    if !metadata.is_file() {
        return Err(CheckpointError::Folder {
            path: path.to_owned(),
            problem: "not a file",
        });
    }
    let file = File::open(path).map_err(io_error(path, "read"))?;
    Ok((file, metadata.len()))
}

/// Fills `out` from the file's bytes at `offset`; several threads may read one file.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

/// Fills `out` from the file's bytes at `offset`; several threads may read one file.
#[cfg(windows)]
pub(crate) fn read_exact_at(file: &File, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !out.is_empty() {
        match file.seek_read(out, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                out = &mut out[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// Fills `out` from the file's bytes at `offset`; where a file has one position for all, one thread
/// reads at a time.
#[cfg(not(any(unix, windows)))]
pub(crate) fn read_exact_at(mut file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom};
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock();
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(out)
}

/// The bytes of a file that may not have more than `limit`.
///
/// # Errors
/// If it can't be read, is not a file, or is longer.
pub fn read_small_file(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>, CheckpointError> {
    let path = path.as_ref();
    let (file, bytes) = open_file(path)?;
    if bytes > limit {
        return Err(in_config(path)(ConfigProblem::TooLong { bytes, limit }));
    }
    let mut text = Vec::new();
    // The file may grow between the look and the read.
    file.take(limit)
        .read_to_end(&mut text)
        .map_err(io_error(path, "read"))?;
    Ok(text)
}

/// The text of a JSON file that may not have more than `limit` bytes.
pub(crate) fn read_small(path: &Path, limit: u64) -> Result<String, CheckpointError> {
    let problem = in_config(path);
    let text = read_small_file(path, limit)?;
    if text.starts_with(b"\xef\xbb\xbf") {
        return Err(problem(ConfigProblem::ByteOrderMark));
    }
    String::from_utf8(text)
        .map_err(|e| problem(ConfigProblem::NotUtf8(e.utf8_error().valid_up_to())))
}

/// The folder that a file is in.
pub(crate) fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Writes a small text file atomically.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), CheckpointError> {
    Ok(write_atomically(path, |out| {
        out.write_all(text.as_bytes())
    })?)
}
