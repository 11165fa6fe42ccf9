//! Creating, listing and deleting folders.
//!
//! A new folder is filled under a temporary name and appears under its final name by a single
//! rename. Deletion also begins with a rename to a temporary name. Therefore, a crash never leaves
//! an incomplete folder under its final name.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::FileError;
use crate::file_system::is_unsupported;
use crate::name::{
    create_locked, folder_of, is_system_file, is_system_file_of, new_name, unfinished_of,
};

/// A new folder that is filled under a temporary name, such as `.NAME.4711-0.unfinished`. The
/// method [`create`](Self::create) renames it to `NAME`. If the `StagedFolder` is dropped before
/// `create` is called, the temporary folder is deleted.
///
/// The temporary folder is always new. Therefore, it contains no symbolic links from other programs
/// that could redirect the files to another location.
///
/// ```
/// let folder = std::env::temp_dir().join(format!("staged-{}", std::process::id()));
/// let staged = atomic_file::StagedFolder::beside(&folder)?;
/// std::fs::write(staged.path().join("config.json"), "{}").expect("a file");
/// assert!(!folder.exists());
/// staged.create()?;
/// assert!(folder.join("config.json").exists());
/// // A folder that isn't empty is never replaced.
/// assert!(atomic_file::StagedFolder::beside(&folder)?.create().is_err());
/// assert!(atomic_file::require_new_or_empty(&folder).is_err());
/// # std::fs::remove_dir_all(&folder).expect("a folder");
/// # Ok::<(), atomic_file::FileError>(())
/// ```
#[derive(Debug)]
#[must_use = "dropped, it is deleted"]
pub struct StagedFolder {
    path: PathBuf,
    target: PathBuf,
    /// Lock that shows other processes that the writer is still running.
    _lock: Option<File>,
}

impl StagedFolder {
    /// Creates an empty folder with a temporary name for `target`. The parent folder of `target`
    /// must exist. Whether `target` itself exists is checked only by [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// Returns an error if `target` doesn't end in a name, or if the folder can't be created.
    pub fn beside(target: impl AsRef<Path>) -> Result<Self, FileError> {
        let target = target.as_ref().to_owned();
        let (path, lock) = create_locked(&target, |name| {
            fs::create_dir(name)?;
            // Windows can't open a folder as a file. Folders are therefore not locked on Windows,
            // and folders that were left behind by a crash aren't deleted.
            Ok(File::open(name).ok())
        })?;
        Ok(Self {
            path,
            target,
            _lock: lock,
        })
    }

    /// Returns the path of the temporary folder, in which the caller creates the files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the folder and renames it to its final name.
    ///
    /// The final name may already belong to a folder, but only if that folder is empty or contains
    /// only system files such as `.DS_Store` (see [`is_system_file`]). The system files are then
    /// moved to the new folder, which replaces the old one.
    ///
    /// The method syncs the names in the folder but not the contents of its files. If the contents
    /// must survive a power failure, write the files with
    /// [`write_atomically`](crate::write_atomically).
    ///
    /// # Errors
    ///
    /// Returns an error if the target is a file, a link, or a folder that contains anything other
    /// than system files, or if a file operation fails. The temporary folder is then deleted, and
    /// the target doesn't change.
    ///
    /// Also returns an error if the parent folder can't be synced after the folder has been
    /// renamed. In this case, the new folder already has its final name, but a power failure may
    /// undo the renaming.
    pub fn create(self) -> Result<(), FileError> {
        sync_folder(&self.path)?;
        let failed = FileError::at(&self.target, "create");
        require_new_or_empty(&self.target)?;
        // A rename can replace only an empty folder, so the system files in the target are moved to
        // the new folder first.
        let renamed = move_system_files(&self.target, &self.path).and_then(|()| {
            if cfg!(windows) {
                // On Windows, a rename doesn't replace an empty folder, so the empty target is
                // deleted first.
                let _ = fs::remove_dir(&self.target);
            }
            fs::rename(&self.path, &self.target).map_err(failed)
        });
        renamed.inspect_err(|_| {
            let _ = move_system_files(&self.path, &self.target);
        })?;
        sync_folder(folder_of(&self.target))
    }
}

/// Moves the files that the operating system has created in the folder `from`, such as macOS's
/// `.DS_Store`, to the folder `to`. Does nothing if `from` doesn't exist.
fn move_system_files(from: &Path, to: &Path) -> Result<(), FileError> {
    let names = match names_in(from) {
        Err(error) if error.source.kind() == ErrorKind::NotFound => return Ok(()),
        names => names?.into_iter(),
    };
    for name in names.filter(|name| is_system_file(name)) {
        let moved = fs::rename(from.join(&name), to.join(&name));
        moved.map_err(FileError::at(&from.join(name), "move"))?;
    }
    Ok(())
}

impl Drop for StagedFolder {
    fn drop(&mut self) {
        // If `create` has already renamed the temporary folder, nothing exists at its old path.
        // `remove_dir_all` then returns an error, which is ignored.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Checks that `target` doesn't exist, or that it is a folder that is empty or contains only system
/// files (see [`is_system_file`]).
///
/// A program can call this function to reject an invalid target before it spends time filling a
/// [`StagedFolder`].
///
/// # Errors
///
/// Returns an error if `target` is a file or a link, or if it can't be read. Also returns an error
/// if `target` is a folder that contains anything other than system files. This error contains the
/// name of one such item.
pub fn require_new_or_empty(target: impl AsRef<Path>) -> Result<(), FileError> {
    let target = target.as_ref();
    let problem = match fs::symlink_metadata(target) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => error,
        Ok(found) if !found.is_dir() => io::Error::new(
            ErrorKind::AlreadyExists,
            "already exists and is not a folder",
        ),
        Ok(_) => match names_in(target)?.iter().find(|name| !is_system_file(name)) {
            None => return Ok(()),
            Some(name) => not_empty(name),
        },
    };
    Err(FileError::at(target, "create")(problem))
}

/// Creates a folder and any missing parent folders, and syncs the changed folders so that the new
/// ones survive a power failure. Does nothing if the folder already exists. An empty path stands
/// for the current folder, because [`Path::parent`] returns it for a file in this folder.
///
/// # Errors
///
/// Returns an error if a folder can't be created, for example because a file with the same name
/// exists.
pub fn create_folder(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if path.parent().is_some() {
        create_folder(folder_of(path))?;
    }
    match create_new_folder(path) {
        // Another process has created the folder in the meantime.
        Err(error) if error.source.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

/// Creates a folder, and syncs its parent folder so that the new folder survives a power failure.
///
/// # Errors
///
/// Returns an error of kind [`ErrorKind::AlreadyExists`] if `path` exists, and another error if the
/// folder can't be created, for example because its parent folder doesn't exist.
pub fn create_new_folder(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    fs::create_dir(path).map_err(FileError::at(path, "create"))?;
    sync_folder(folder_of(path))
}

/// Deletes a folder if it contains only files that this program may delete.
///
/// `ours` receives the path to each item in the folder and returns true if this program may delete
/// the item. System files such as `.DS_Store` may always be deleted. A file such as `._notes.txt`,
/// in which macOS stores attributes, may be deleted only if `ours` returns true for `notes.txt`. If
/// `ours` returns true for a subfolder, the subfolder is deleted with all of its contents.
///
/// Before anything is deleted, the folder gets a temporary name, and its contents are checked again
/// in case another program has just added a file. If the process crashes during the deletion,
/// [`remove_unfinished_folders`] can delete the remaining files.
///
/// # Errors
///
/// Returns an error of kind [`ErrorKind::DirectoryNotEmpty`] if the folder contains an item that
/// may not be deleted. The error contains the name of this item, and the folder isn't changed.
/// Returns an error of kind [`ErrorKind::NotADirectory`] if `path` is a file or a link. Also
/// returns an error if a file operation fails.
pub fn remove_folder(
    path: impl AsRef<Path>,
    ours: impl Fn(&Path) -> bool,
) -> Result<(), FileError> {
    let path = path.as_ref();
    let failed = FileError::at(path, "delete");
    let found = fs::symlink_metadata(path).map_err(&failed)?;
    if !found.is_dir() {
        return Err(failed(ErrorKind::NotADirectory.into()));
    }
    let require_ours = |folder: &Path| {
        let ours = |name: &OsStr| ours(&folder.join(name));
        let mut names = names_in(folder)?.into_iter();
        match names.find(|name| !ours(name) && !is_system_file_of(name, ours)) {
            Some(name) => Err(failed(not_empty(&name))),
            None => Ok(()),
        }
    };
    require_ours(path)?;
    let hidden = new_name(path)?;
    fs::rename(path, &hidden).map_err(&failed)?;
    // Another program may have added a file to the folder after the first check and before the
    // folder was renamed. So that this file isn't lost, the folder then gets its old name back and
    // isn't deleted.
    if let Err(error) = require_ours(&hidden) {
        fs::rename(&hidden, path).map_err(&failed)?;
        return Err(error);
    }
    fs::remove_dir_all(&hidden).map_err(FileError::at(&hidden, "delete"))
}

/// Returns the error for a folder that can't be replaced or deleted because it contains a file or
/// folder, `name`, that doesn't belong to this program.
fn not_empty(name: &OsStr) -> io::Error {
    let problem = format!("the folder contains {name:?}");
    io::Error::new(ErrorKind::DirectoryNotEmpty, problem)
}

/// Deletes unfinished folders that a crash of this program has left behind in `folder`. An
/// unfinished folder is kept if the process that writes it is still running.
///
/// `ours` receives the final name of each unfinished folder, as returned by [`unfinished_of`], and
/// returns true if this program created the folder. On Windows and on file systems that don't
/// support locks, nothing is deleted, because the function can't determine whether the writing
/// process is still running.
///
/// # Errors
///
/// Returns an error if `folder` can't be read or if an unfinished folder can't be deleted.
pub fn remove_unfinished_folders(
    folder: impl AsRef<Path>,
    ours: impl Fn(&[u8]) -> bool,
) -> Result<(), FileError> {
    for (left, _lock) in left_behind(folder.as_ref(), ours)? {
        if left.is_dir() {
            fs::remove_dir_all(&left).map_err(FileError::at(&left, "delete"))?;
        }
    }
    Ok(())
}

/// Returns the names of all files and folders in `folder` in ascending order, without duplicates.
/// The list includes system files (see [`is_system_file`]) and names that aren't valid UTF-8.
///
/// Some network file systems list a name twice if the folder changes while it's being read. Such
/// duplicates are removed.
///
/// # Errors
///
/// Returns an error if the folder can't be read.
pub fn names_in(folder: impl AsRef<Path>) -> Result<Vec<OsString>, FileError> {
    let folder = folder.as_ref();
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let entries = entries.map_err(FileError::at(folder, "read"))?.into_iter();
    Ok(each_once(entries.map(|entry| entry.file_name()).collect()))
}

fn each_once(mut names: Vec<OsString>) -> Vec<OsString> {
    names.sort();
    names.dedup();
    names
}

/// Finds the unfinished files and folders that a crash of this program has left behind in `folder`.
/// Returns the path to each of them, together with an open and locked file handle. As long as the
/// caller keeps the handle, no other process can lock the item.
///
/// `ours` receives the final name of each item, as returned by [`unfinished_of`], and returns true
/// if this program created the item. If an item can't be opened or locked, another process may
/// still be writing it, so it isn't returned.
pub(crate) fn left_behind(
    folder: &Path,
    ours: impl Fn(&[u8]) -> bool,
) -> Result<Vec<(PathBuf, File)>, FileError> {
    let mut left = Vec::new();
    for name in names_in(folder)? {
        let path = folder.join(&name);
        let found = fs::symlink_metadata(&path);
        if unfinished_of(&name).is_some_and(&ours)
            && found.is_ok_and(|found| found.is_file() || found.is_dir())
            && let Ok(file) = File::open(&path)
            && file.try_lock().is_ok()
        {
            left.push((path, file));
        }
    }
    Ok(left)
}

/// Syncs a folder so that new and renamed files in it survive a power failure. Does nothing if the
/// file system doesn't support `fsync` for folders.
///
/// # Errors
///
/// Returns an error if the folder can't be opened or synced.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), FileError> {
    match sync_to_disk(folder) {
        Err(error) if is_unsupported(&error) => Ok(()),
        synced => synced.map_err(FileError::at(folder, "sync")),
    }
}

/// Calls `fsync` on a folder. Does nothing on systems other than Unix, where a folder can't be
/// opened as a file.
pub(crate) fn sync_to_disk(folder: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(path: &Path) -> bool {
        path.ends_with("model") || path.ends_with("config")
    }

    fn names(folder: &Path) -> Vec<OsString> {
        names_in(folder).unwrap()
    }

    fn stage(target: &Path, text: &str) -> StagedFolder {
        let staged = StagedFolder::beside(target).unwrap();
        for name in ["model", "config"] {
            fs::write(staged.path().join(name), text).unwrap();
        }
        staged
    }

    #[test]
    fn a_new_or_empty_folder_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let above = folder.path();
        let target = above.join("new");
        drop(stage(&target, "dropped"));
        assert_eq!(names(above), [""; 0]);
        fs::create_dir(&target).unwrap();
        let second = stage(&target, "second");
        stage(&target, "first").create().unwrap();
        // Checks that a staged folder never replaces a folder with contents. The target now
        // contains the files of the first staged folder, so the second staged folder can't be
        // renamed to it.
        second.create().unwrap_err();
        assert_eq!(fs::read(target.join("model")).unwrap(), b"first");
        assert_eq!(names(above), ["new"]);
    }

    #[test]
    fn missing_folders_are_created_and_an_empty_path_is_the_current_folder() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("a/b");
        create_folder(&new).unwrap();
        create_folder(&new).unwrap();
        assert!(new.is_dir());
        create_folder(Path::new("file").parent().unwrap()).unwrap();
    }

    #[test]
    fn what_is_no_new_or_empty_folder_is_refused_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("full")).unwrap();
        fs::write(at("full/notes"), "theirs").unwrap();
        let refused = |path: &Path| require_new_or_empty(path).unwrap_err().to_string();
        let error = refused(&at("full"));
        let expected = "can't create: the folder contains \"notes\"";
        assert!(error.ends_with(expected), "{error}");
        refused(&at("full/notes"));
        for path in ["not there/..", "not there/new"] {
            StagedFolder::beside(at(path)).unwrap_err();
        }
        assert_eq!(names(folder.path()), ["full"]);
        assert_eq!(names(&at("full")), ["notes"]);
    }

    #[test]
    fn a_folder_with_system_files_alone_is_empty_and_they_stay() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("new");
        fs::create_dir(&target).unwrap();
        for name in [".DS_Store", "._a.txt", "Desktop.ini"] {
            fs::write(target.join(name), "theirs").unwrap();
        }
        let staged = stage(&target, "x");
        for name in ["a.txt~", ".#a.txt", ".nfs012"] {
            fs::write(target.join(name), "theirs").unwrap();
            require_new_or_empty(&target).unwrap_err();
            stage(&target, "y").create().unwrap_err();
            fs::remove_file(target.join(name)).unwrap();
        }
        require_new_or_empty(&target).unwrap();
        staged.create().unwrap();
        let all = [".DS_Store", "._a.txt", "Desktop.ini", "config", "model"];
        assert_eq!(names(&target), all);
        assert_eq!(fs::read(target.join("._a.txt")).unwrap(), b"theirs");
    }

    #[test]
    fn every_name_is_listed_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".DS_Store"), "").unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        assert_eq!(names(folder.path()), [".DS_Store", "a"]);
        // Some network file systems list names twice.
        let twice = ["b", "a", "b", "a"].map(OsString::from).to_vec();
        assert_eq!(each_once(twice), ["a", "b"]);
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::ffi::OsStrExt;
            let not_utf8 = OsStr::from_bytes(b"gut f\xfcr Kapitel 5");
            fs::write(folder.path().join(not_utf8), "theirs").unwrap();
            assert!(names(folder.path()).contains(&not_utf8.to_owned()));
            require_new_or_empty(&folder).unwrap_err();
            remove_folder(&folder, ours).unwrap_err();
        }
    }

    #[test]
    fn a_folder_is_removed_only_if_all_in_it_is_ours() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("gone");
        stage(&target, "x").create().unwrap();
        for name in ["notes", "._notes", "model~"] {
            fs::write(target.join(name), "theirs").unwrap();
            let error = remove_folder(&target, ours).unwrap_err().to_string();
            let expected = format!("gone: can't delete: the folder contains {name:?}");
            assert!(error.ends_with(&expected), "{error}");
            assert_eq!(names(&target).len(), 3);
            fs::remove_file(target.join(name)).unwrap();
        }
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::ffi::OsStrExt;
            let not_utf8 = target.join(OsStr::from_bytes(b"._f\xfcr"));
            fs::write(&not_utf8, "theirs").unwrap();
            remove_folder(&target, ours).unwrap_err();
            fs::remove_file(not_utf8).unwrap();
        }
        for name in [".DS_Store", "._model"] {
            fs::write(target.join(name), "a system's").unwrap();
        }
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&target, &link).unwrap();
            remove_folder(&link, ours).unwrap_err();
            assert!(link.is_symlink());
            fs::remove_file(link).unwrap();
        }
        remove_folder(&target, ours).unwrap();
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_killed_process_left_goes_and_what_others_write_or_own_stays() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("model");
        for (name, file) in [
            (".model.4711-0.unfinished", "config"),
            (".model.4711-1.unfinished", ".config.4711-2.unfinished"),
            (".other.4711-4.unfinished", "config"),
            (".model.unfinished", "thesis.txt"),
        ] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join(file), "x").unwrap();
        }
        let living = stage(&target, "x");
        remove_unfinished_folders(&folder, |name| name == b"model").unwrap();
        assert_eq!(names(folder.path()).len(), 3);
        assert!(living.path().exists());
        living.create().unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_our_way_is_not_followed() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("real")).unwrap();
        fs::write(at("victim"), "precious").unwrap();
        for (to, link) in [
            ("real", "link"),
            ("victim", "copy"),
            ("nowhere", "dangling"),
        ] {
            symlink(at(to), at(link)).unwrap();
            require_new_or_empty(at(link)).unwrap_err();
            StagedFolder::beside(at(link))
                .unwrap()
                .create()
                .unwrap_err();
        }
        assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
    }
}
