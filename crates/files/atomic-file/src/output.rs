//! Writing where a user points, and appending to a log.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::folder::sync_folder;
use crate::name::folder_of;
use crate::{FileError, replace};

/// Descriptors of this process: a file behind one may be somebody else's to fill.
const DESCRIPTORS: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];

/// True if a path is that of a descriptor of this process, as `/dev/stdout` and `/proc/self/fd/1`.
pub fn is_descriptor(path: impl AsRef<Path>) -> bool {
    DESCRIPTORS
        .iter()
        .any(|name| path.as_ref().starts_with(name))
}

/// Writes what a user asked for to the path that the user named.
///
/// - A regular file, or a name that is not there: as
///   [`write_atomically`](crate::write_atomically).
/// - A link to a file: that file; the link stays.
/// - A device, a FIFO, and a descriptor of this process (`/dev/stdout`, `/dev/fd/3`,
///   `/proc/self/fd/1`): written through, never replaced; a regular file behind a descriptor is
///   appended to, as a shell's `>>` does.
///
/// # Errors
/// If the path is a folder or a link to nothing, the operating system refuses, or `write` does.
pub fn write_output(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), FileError> {
    let path = path.as_ref();
    replace_output(path, |out| write(out).map_err(FileError::at(path, "write")))
}

/// Writes as [`write_output`] does, for writers that have errors of their own.
///
/// # Errors
/// As there.
pub fn replace_output<E: From<FileError>>(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let (named, failed) = (path.as_ref(), FileError::at(path.as_ref(), "write"));
    match fs::metadata(named) {
        Err(error) if named.is_symlink() => Err(failed(error).into()),
        Err(_) => replace(named, |out| write(out)),
        Ok(found) if found.is_file() && !is_descriptor(named) => {
            let path = fs::canonicalize(named).map_err(failed)?;
            replace(path, |out| write(out))
        }
        Ok(found) => {
            let is_file = found.is_file();
            let stream = File::options().write(true).append(is_file).open(named);
            let mut out = BufWriter::new(stream.map_err(&failed)?);
            write(&mut out)?;
            Ok(out.flush().map_err(failed)?)
        }
    }
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
    fn a_folder_is_no_output() {
        let folder = tempfile::tempdir().unwrap();
        let error = put(folder.path(), b"x").unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::IsADirectory);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_what_it_leads_to_is_written() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("other")).unwrap();
        fs::write(at("other/file"), "old").unwrap();
        for (to, link) in [
            ("other/file", "link"),
            ("link", "second"),
            ("other/new", "dangling"),
        ] {
            symlink(to, at(link)).unwrap();
        }
        put(&at("second"), b"new").unwrap();
        put(&at("dangling"), b"made").unwrap_err();
        assert_eq!(fs::read(at("other/file")).unwrap(), b"new");
        let links = ["link", "second", "dangling"];
        assert!(links.iter().all(|name| at(name).is_symlink()));
        assert_eq!(fs::read_dir(at("other")).unwrap().count(), 1);
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
        // A file behind a descriptor keeps what it has, and its place.
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
