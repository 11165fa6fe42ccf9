//! Writing where a user points, and appending to a log.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::FileError;
use crate::folder::sync_folder;
use crate::name::folder_of;
use crate::replace::create_new;
use crate::support::missing_support;

/// True if a path names a descriptor, like `/dev/stdout` and `/proc/self/fd/1`: the file behind it
/// may belong to another program.
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

/// Writes a new file where a user asked for one.
///
/// - A name that is not there: the file appears once it is whole, as with
///   [`write_atomically`](crate::write_atomically).
/// - A device, a FIFO, and a descriptor (`/dev/stdout`, `/dev/fd/3`, `/proc/self/fd/1`): written
///   through; a regular file behind a descriptor is appended to, like a shell's `>>`.
///
/// Nothing is ever overwritten, not even a file that appears while this one is being written.
///
/// # Errors
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if there is a file, a folder, or a link to one
/// of these or to nothing; if the operating system refuses, or `write` does.
pub fn write_output(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), FileError> {
    let path = path.as_ref();
    create_output(path, |out| write(out).map_err(FileError::at(path, "write")))
}

/// Like [`write_output`], for writers with a different error type.
///
/// # Errors
/// As there.
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

/// The ways to write an output.
enum Output {
    New,
    /// A device, a pipe or a descriptor, which is written through; true for a regular file behind a
    /// descriptor, which is appended to.
    Stream(bool),
}

/// Checks that [`write_output`] can write to `path`, before there is anything to write. Returns the
/// note of [`missing_support`], if there is one.
///
/// # Errors
/// As [`write_output`] and [`missing_support`].
pub fn require_new_output(path: impl AsRef<Path>) -> Result<Option<String>, FileError> {
    match output_at(path.as_ref())? {
        Output::New => missing_support(path),
        Output::Stream(_) => Ok(None),
    }
}

/// Returns the way to write an output to a path.
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

/// Opens a file that lines are appended to, or that is locked; it is made if it isn't there.
///
/// It is never anything but a regular file of this very name: a link is refused, and a pipe not
/// waited for.
///
/// # Errors
/// If there is something else of this name, or the operating system refuses.
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
        // Not every container has it.
        if Path::new("/dev/full").exists() {
            let full = put(Path::new("/dev/full"), b"x").unwrap_err();
            assert_eq!(full.source.kind(), ErrorKind::StorageFull);
        }
        // A link to a device.
        std::os::unix::fs::symlink("/dev/null", folder.path().join("null")).unwrap();
        put(&folder.path().join("null"), b"x").unwrap();
        assert!(folder.path().join("null").is_symlink());
        // A file behind a descriptor keeps its contents and its place.
        let path = folder.path().join("redirected");
        fs::write(&path, "head ").unwrap();
        let file = File::options().append(true).open(&path).unwrap();
        let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        put(Path::new(&descriptor), b"tail").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"head tail");
        // A pipe.
        let (mut reader, writer) = io::pipe().unwrap();
        let descriptor = format!("/dev/fd/{}", writer.as_raw_fd());
        put(Path::new(&descriptor), b"through").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
