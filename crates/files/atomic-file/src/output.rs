//! Writes output to paths that the user chooses, and appends to log files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::FileError;
use crate::folder::sync_folder;
use crate::name::folder_of;
use crate::replace::create_new;
use crate::support::missing_support;

/// Returns true if `path` refers to a file descriptor, as `/dev/stdout` and `/proc/self/fd/1` do.
/// If the file descriptor stands for a regular file, this file must not be replaced, because it may
/// belong to another program.
///
/// The function examines only the text of the path, so the file doesn't have to exist.
pub fn is_descriptor(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let of_device = ["/dev/stdout", "/dev/stderr", "/dev/fd"].iter();
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    let of_process = match parts[..] {
        ["/", "proc", process, "fd", fd] => {
            (is_number(process) || ["self", "thread-self"].contains(&process)) && is_number(fd)
        }
        _ => false,
    };
    of_process || of_device.into_iter().any(|name| path.starts_with(name))
}

/// Writes output to a path that the user has chosen, and never overwrites an existing file.
///
/// - If nothing exists at `path`, the function creates a file, which appears under its name when it
///   is complete, as with [`write_atomically`](crate::write_atomically).
/// - If `path` is a device, a FIFO or a file descriptor (`/dev/stdout`, `/dev/fd/3`,
///   `/proc/self/fd/1`), the function writes directly to it. If a descriptor refers to a regular
///   file, the output is appended to this file, as with `>>` in a shell.
///
/// Another program may create a file at `path` while the output is being written. In this case, the
/// function returns an error when the output is complete, and doesn't overwrite the other program's
/// file.
///
/// # Errors
///
/// Returns an error of kind [`AlreadyExists`](io::ErrorKind::AlreadyExists) if `path` is a regular
/// file, a folder, a link to one of these, or a link whose target doesn't exist. Also returns an
/// error if `write` or a file operation fails.
pub fn write_output(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), FileError> {
    let path = path.as_ref();
    create_output(path, |out| write(out).map_err(FileError::at(path, "write")))
}

/// Writes output in the same way as [`write_output`], but lets `write` return any error type that
/// can be created from a [`FileError`].
///
/// # Errors
///
/// Returns the error of `write`, or one of the errors described at [`write_output`].
pub fn create_output<E: From<FileError>>(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let path = path.as_ref();
    match output_at(path)? {
        Output::New => create_new(path, |out| write(out)),
        Output::Stream(appends) => {
            let failed = FileError::at(path, "write");
            let stream = File::options().write(true).append(appends).open(path);
            let mut out = BufWriter::new(stream.map_err(&failed)?);
            write(&mut out)?;
            Ok(out.flush().map_err(failed)?)
        }
    }
}

/// The kind of output at a path, which determines how the output is written.
enum Output {
    /// Nothing exists at the path, so the output is written to a new file. The file is renamed to
    /// its final name when it is complete.
    New,
    /// The path refers to a device, a FIFO or a file descriptor, and the output is written directly
    /// to it. The `bool` is true if the file descriptor stands for a regular file. The output is
    /// then appended to this file.
    Stream(bool),
}

/// Checks that [`write_output`] can write to `path`. A program should call this function before it
/// starts a long computation whose output is written to `path`.
///
/// If [`write_output`] would create a file, and the file system lacks features that make writing
/// safe, such as locks, this function returns the warning of [`missing_support`]. Otherwise, it
/// returns `None`.
///
/// # Errors
///
/// Returns an error of kind [`AlreadyExists`](io::ErrorKind::AlreadyExists) in the same cases as
/// [`write_output`]. Also returns an error if no file can be created in the folder that contains
/// `path`.
pub fn require_new_output(path: impl AsRef<Path>) -> Result<Option<String>, FileError> {
    match output_at(path.as_ref())? {
        Output::New => missing_support(path),
        Output::Stream(_) => Ok(None),
    }
}

/// Determines whether output to `path` creates a new file or is written to a device, a FIFO or a
/// file descriptor. Returns an error if `path` refers to anything else, because it must not be
/// overwritten.
fn output_at(path: &Path) -> Result<Output, FileError> {
    let exists = || io::Error::new(io::ErrorKind::AlreadyExists, "already exists");
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(exists()),
        Ok(found) if found.is_file() && !is_descriptor(path) => Err(exists()),
        Ok(found) => Ok(Output::Stream(found.is_file())),
        Err(_) if path.is_symlink() => Err(exists()),
        Err(_) => Ok(Output::New),
    }
    .map_err(FileError::at(path, "write"))
}

/// Opens a regular file for appending, and syncs the folder that contains it. Creates the file if
/// it doesn't exist. This function is meant for log files and lock files.
///
/// Symbolic links are rejected, so the file that a link refers to can't be changed. FIFOs are
/// rejected because opening a FIFO would block until another process reads from it.
///
/// # Errors
///
/// Returns an error if `path` is anything other than a regular file, if the file can't be opened or
/// created, or if the folder can't be synced.
pub fn append(path: impl AsRef<Path>) -> Result<File, FileError> {
    let path = path.as_ref();
    let file = match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => Err(io::Error::other("not a regular file")),
        _ => File::options().append(true).create(true).open(path),
    };
    let file = file.map_err(FileError::at(path, "open"))?;
    sync_folder(folder_of(path))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    fn put(path: &Path, text: &[u8]) -> Result<(), FileError> {
        write_output(path, |out| out.write_all(text))
    }

    #[test]
    fn lines_are_appended_to_a_file_and_to_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        for line in ["a\n", "b\n"] {
            append(&log).unwrap().write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&log).unwrap(), "a\nb\n");
        assert!(append(folder.path()).is_err());
    }

    #[test]
    fn nothing_is_overwritten_not_even_what_came_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let meanwhile = write_output(&path, |out| {
            fs::write(&path, "thesis")?;
            out.write_all(b"ids")
        });
        for error in [meanwhile, put(&path, b"ids"), put(folder.path(), b"x")] {
            let error = error.unwrap_err();
            assert_eq!(error.source.kind(), ErrorKind::AlreadyExists);
            assert!(error.to_string().ends_with("already exists"), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), b"thesis");
        put(&folder.path().join("new"), b"ids").unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    }

    #[test]
    fn only_descriptors_are_descriptors() {
        for path in [
            "/dev/stdout",
            "/dev/fd/3",
            "/proc/self/fd/1",
            "/proc/12/fd/0",
        ] {
            assert!(is_descriptor(path), "{path}");
        }
        for path in [
            "/proc/self/cwd/text.txt",
            "/proc/12/root/a",
            "/proc/self/fd",
            "fd/1",
        ] {
            assert!(!is_descriptor(path), "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_no_new_name() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "old").unwrap();
        for (to, link) in [("file", "link"), ("link", "second"), ("new", "dangling")] {
            symlink(to, at(link)).unwrap();
            put(&at(link), b"new").unwrap_err();
            assert!(at(link).is_symlink());
        }
        assert_eq!(fs::read(at("file")).unwrap(), b"old");
        assert!(!at("new").exists());
        assert!(append(at("link")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_pipes_and_descriptors_are_written_through() {
        use std::io::Read;
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        put(Path::new("/dev/null"), b"x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        // Some containers don't have `/dev/full`.
        if Path::new("/dev/full").exists() {
            let full = put(Path::new("/dev/full"), b"x").unwrap_err();
            assert_eq!(full.source.kind(), ErrorKind::StorageFull);
        }
        // The output is written through a link to a device.
        std::os::unix::fs::symlink("/dev/null", folder.path().join("null")).unwrap();
        put(&folder.path().join("null"), b"x").unwrap();
        assert!(folder.path().join("null").is_symlink());
        // Checks that output to a file descriptor that stands for a regular file, as after `>>` in
        // a shell, is appended to the file's old contents.
        let path = folder.path().join("redirected");
        fs::write(&path, "head ").unwrap();
        let file = File::options().append(true).open(&path).unwrap();
        let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        put(Path::new(&descriptor), b"tail").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"head tail");
        // The output is written to a pipe.
        let (mut reader, writer) = io::pipe().unwrap();
        let descriptor = format!("/dev/fd/{}", writer.as_raw_fd());
        put(Path::new(&descriptor), b"through").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
