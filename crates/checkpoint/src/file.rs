//! Files: opened only if they are files, read at a position, and replaced so that a crash leaves the old or the new one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{CheckpointError, ConfigProblem, in_config, io as io_error};

/// What the name of a file being written ends with; it begins with a dot, the file's own name, and who writes.
const UNFINISHED: &str = ".unfinished";

/// Writes that this process has begun.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// Whether there is a file at `path`.
///
/// # Errors
/// If the system doesn't tell, which doesn't mean that there is none; if there is something that is not a file.
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
    // What a crash left takes room, but is no reason to fail.
    let _ = remove_unfinished(path);
    let result = File::create_new(&unfinished)
        .map_err(io_error(&unfinished, "create"))
        .and_then(|file| {
            // Tells others that somebody still writes here; where files can't be locked nobody asks.
            let _ = file.try_lock();
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

/// Deletes the temporary files that killed writers of the file `path` left beside it, and returns how many there were.
///
/// # Errors
/// If the folder can't be read or a file can't be deleted.
pub fn remove_unfinished(path: impl AsRef<Path>) -> Result<usize, CheckpointError> {
    let path = path.as_ref();
    let folder = folder_of(path);
    let Some(name) = path.file_name().and_then(OsStr::to_str) else {
        return Ok(0);
    };
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(io_error(folder, "read"))? {
        let found = entry.map_err(io_error(folder, "read"))?;
        let is_file = found.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || found.file_name().to_str().and_then(unfinished_of) != Some(name) {
            continue;
        }
        let found = found.path();
        // A writer that lives holds its lock.
        let dead = File::open(&found).is_ok_and(|file| file.try_lock().is_ok());
        if dead {
            fs::remove_file(&found).map_err(io_error(&found, "delete"))?;
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
fn unfinished_path(path: &Path) -> Result<PathBuf, CheckpointError> {
    let name = path.file_name().ok_or(CheckpointError::Folder {
        path: path.to_owned(),
        problem: "not a file's path",
    })?;
    let write = WRITES.fetch_add(1, Ordering::Relaxed);
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(format!(".{}-{write}{UNFINISHED}", process::id()));
    Ok(path.with_file_name(unfinished))
}

/// The folder that a file is in.
pub(crate) fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A rename is on the disk when the folder is.
fn sync_folder(path: &Path) -> Result<(), CheckpointError> {
    if cfg!(unix) {
        let folder = folder_of(path);
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
