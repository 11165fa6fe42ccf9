//! Files: opened only if they are files, read at a position, and replaced so that a crash leaves the old or the new one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{CheckpointError, ConfigProblem, in_config, io as io_error};

/// What the name of a file being written begins and ends with; the file's own name is between.
const UNFINISHED: (&str, &str) = (".", ".unfinished");

/// Opens a file to be read and returns its size.
///
/// It looks before it opens: opening a pipe would wait for its other end.
pub(crate) fn open(path: &Path) -> Result<(File, u64), CheckpointError> {
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

/// The text of a JSON file that may not have more than `limit` bytes.
pub(crate) fn read_small(path: &Path, limit: u64) -> Result<String, CheckpointError> {
    let problem = in_config(path);
    let (file, bytes) = open(path)?;
    if bytes > limit {
        return Err(problem(ConfigProblem::TooLong { bytes, limit }));
    }
    let mut text = Vec::new();
    // The file may grow between the look and the read.
    file.take(limit)
        .read_to_end(&mut text)
        .map_err(io_error(path, "read"))?;
    if text.starts_with(b"\xef\xbb\xbf") {
        return Err(problem(ConfigProblem::ByteOrderMark));
    }
    String::from_utf8(text)
        .map_err(|e| problem(ConfigProblem::NotUtf8(e.utf8_error().valid_up_to())))
}

/// Writes a file so that a crash at any moment leaves the old one or the new one: a temporary file beside it, `sync_all`, rename, sync of the folder.
///
/// A failure deletes the temporary file; a crash leaves it for [`remove_unfinished`].
///
/// # Errors
/// If the operating system refuses, or `write` does.
pub fn write_atomically(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), CheckpointError> {
    let path = path.as_ref();
    replace(path, |out| write(out).map_err(io_error(path, "write")))
}

/// As [`write_atomically`], for writers that can fail in more ways than one.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    const BUFFER: usize = 1 << 20;
    let unfinished = unfinished_path(path)?;
    let result = File::create(&unfinished)
        .map_err(io_error(&unfinished, "create"))
        .and_then(|file| {
            let mut out = BufWriter::with_capacity(BUFFER, file);
            write(&mut out)?;
            let file = out
                .into_inner()
                .map_err(|e| io_error(&unfinished, "write")(e.into_error()))?;
            file.sync_all().map_err(io_error(&unfinished, "sync"))?;
            fs::rename(&unfinished, path).map_err(io_error(path, "replace"))
        });
    if result.is_err() {
        // The first failure is the one to tell; the old file is untouched.
        let _ = fs::remove_file(&unfinished);
    }
    result?;
    sync_folder(path)
}

/// Deletes the temporary files that a crash during a save left in a folder, and returns how many there were.
///
/// # Errors
/// If the folder can't be read or a file can't be deleted.
pub fn remove_unfinished(folder: impl AsRef<Path>) -> Result<usize, CheckpointError> {
    let folder = folder.as_ref();
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(io_error(folder, "read"))? {
        let path = entry.map_err(io_error(folder, "read"))?.path();
        let is_unfinished = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1));
        if is_unfinished && path.is_file() {
            fs::remove_file(&path).map_err(io_error(&path, "delete"))?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn unfinished_path(path: &Path) -> Result<PathBuf, CheckpointError> {
    let name = path.file_name().ok_or(CheckpointError::Folder {
        path: path.to_owned(),
        problem: "not a file's path",
    })?;
    let mut unfinished = OsString::from(UNFINISHED.0);
    unfinished.push(name);
    unfinished.push(UNFINISHED.1);
    Ok(path.with_file_name(unfinished))
}

/// A rename is on the disk when the folder is.
fn sync_folder(path: &Path) -> Result<(), CheckpointError> {
    if cfg!(unix) {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(io_error(folder, "sync"))?;
    }
    Ok(())
}

/// Makes a folder for files to be written into, if it isn't there.
pub(crate) fn create_folder(folder: &Path) -> Result<(), CheckpointError> {
    fs::create_dir_all(folder).map_err(io_error(folder, "create"))
}

/// Writes a small text file atomically.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), CheckpointError> {
    write_atomically(path, |out| out.write_all(text.as_bytes()))
}
