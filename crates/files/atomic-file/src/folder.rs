//! Folders: made, filled out of sight and put in their place by one rename, taken away by one
//! rename.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::name::{create_locked, folder_of, is_system_file, new_name, unfinished_of};
use crate::{FileError, open_file};

/// A new folder, `.NAME.4711-0.unfinished`, that becomes the folder `NAME` beside it once it is
/// whole; dropped before, it is deleted.
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
///
/// It is always created, so that no existing link is followed.
#[derive(Debug)]
#[must_use = "dropped, it is deleted"]
pub struct StagedFolder {
    path: PathBuf,
    target: PathBuf,
    /// Shows other processes that the writer is still running.
    _lock: Option<File>,
}

impl StagedFolder {
    /// Makes an empty folder beside `target`, in the folder that this is in, which must be there.
    ///
    /// # Errors
    /// If the operating system refuses, or `target` has no name.
    pub fn beside(target: impl AsRef<Path>) -> Result<Self, FileError> {
        let target = target.as_ref().to_owned();
        let (path, lock) = create_locked(&target, |name| {
            fs::create_dir(name)?;
            // On Windows a folder can't be opened, so the remains of a crash stay there.
            Ok(File::open(name).ok())
        })?;
        Ok(Self {
            path,
            target,
            _lock: lock,
        })
    }

    /// The folder to fill.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the folder in its place, where there is nothing or an empty folder (system files don't
    /// count).
    ///
    /// # Errors
    /// If the operating system refuses; usually because the folder isn't empty.
    pub fn create(self) -> Result<(), FileError> {
        // Of empty folders only system files can be left over, which are harmless.
        self.replace(|_| false).map(|_| ())
    }

    /// Puts the folder in its place, if that is free or a folder in which everything is `ours`:
    /// then the two are exchanged, so that the path always exists, and the old folder is deleted.
    /// Returns the error if the old folder couldn't be deleted.
    ///
    /// A file system that can't exchange two names (NFS) gets two renames instead.
    ///
    /// # Errors
    /// If the folder contains a file that isn't `ours`, or the operating system refuses; its
    /// contents stay.
    pub fn replace(self, ours: impl Fn(&str) -> bool) -> Result<Option<FileError>, FileError> {
        sync_folder(&self.path)?;
        let failed = FileError::at(&self.target, "create");
        let above = folder_of(&self.target);
        require_only(&self.target, &ours)?;
        if cfg!(windows) {
            let _ = fs::remove_dir(&self.target); // if it is empty; elsewhere a rename replaces it
        }
        match fs::rename(&self.path, &self.target) {
            Ok(()) => return sync_folder(above).map(|()| None),
            Err(_) if self.target.is_dir() && !self.target.is_symlink() => {}
            Err(error) => return Err(failed(error)),
        }
        swap(&self.path, &self.target).map_err(&failed)?;
        sync_folder(above)?;
        // Something may have been put there since it was looked at.
        if let Err(error) = require_only(&self.path, &ours) {
            if let Err(error) = swap(&self.path, &self.target) {
                let error = failed(error);
                std::mem::forget(self); // the new contents aren't ours to delete
                return Err(error);
            }
            return Err(failed(error.source));
        }
        let deleted = fs::remove_dir_all(&self.path);
        Ok(deleted.map_err(FileError::at(&self.path, "delete")).err())
    }
}

/// Exchanges two folders: in one step where the file system can, otherwise by three renames.
fn swap(one: &Path, other: &Path) -> io::Result<()> {
    if exchange(one, other).is_ok() {
        return Ok(());
    }
    let aside = new_name(other).map_err(|error| error.source)?;
    fs::rename(other, &aside)?;
    if let Err(error) = fs::rename(one, other) {
        fs::rename(&aside, other)?;
        return Err(error);
    }
    fs::rename(&aside, one)
}

/// Exchanges two names in one step.
#[cfg(unix)]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Exchanges two names in one step, which only Unix can.
#[cfg(not(unix))]
fn exchange(_one: &Path, _other: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

impl Drop for StagedFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path); // not there any more if it was created
    }
}

/// Checks that `target` doesn't exist or is an empty folder (system files don't count), before a
/// [`StagedFolder`] is filled in vain.
///
/// # Errors
/// Names the file or folder that exists.
pub fn require_new_or_empty(target: impl AsRef<Path>) -> Result<(), FileError> {
    require_only(target.as_ref(), |_| false)
}

/// Checks that `target` doesn't exist, or is a folder in which everything is `ours`.
fn require_only(target: &Path, ours: impl Fn(&str) -> bool) -> Result<(), FileError> {
    let problem = match fs::symlink_metadata(target) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => error,
        Ok(found) if !found.is_dir() => io::Error::new(
            ErrorKind::AlreadyExists,
            "already exists and is not a folder",
        ),
        Ok(_) => match foreign(target, ours)? {
            None => return Ok(()),
            Some(name) => {
                let problem = format!("the folder contains {name:?}");
                io::Error::new(ErrorKind::DirectoryNotEmpty, problem)
            }
        },
    };
    Err(FileError::at(target, "create")(problem))
}

/// Makes a folder and its missing parents; they survive a power cut.
///
/// # Errors
/// If the operating system refuses.
pub fn create_folder(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    if path.is_dir() {
        return Ok(());
    }
    if path.parent().is_some() {
        create_folder(folder_of(path))?;
    }
    match create_new_folder(path) {
        // Another process has made it since.
        Err(error) if error.source.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

/// Creates a new folder.
///
/// # Errors
/// If it exists ([`ErrorKind::AlreadyExists`]), or the operating system refuses.
pub fn create_new_folder(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    fs::create_dir(path).map_err(FileError::at(path, "create"))?;
    sync_folder(folder_of(path))
}

/// Copies a regular file to a new one, which is on the disk when this returns.
///
/// # Errors
/// If `from` is not a regular file or `to` exists, or the operating system refuses.
pub fn copy_file(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), FileError> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let (mut source, _) = open_file(from)?;
    let mut copy = File::create_new(to).map_err(FileError::at(to, "create"))?;
    io::copy(&mut source, &mut copy)
        .and_then(|_| copy.sync_all())
        .map_err(FileError::at(to, "write"))
}

/// Deletes a folder if all in it is `ours` by name, and returns whether it did.
///
/// It is out of sight by one rename before the first file goes; after a crash,
/// [`remove_unfinished_folders`] does the rest.
///
/// # Errors
/// If the operating system refuses.
pub fn remove_folder(
    path: impl AsRef<Path>,
    ours: impl Fn(&str) -> bool,
) -> Result<bool, FileError> {
    let path = path.as_ref();
    if foreign(path, ours)?.is_some() {
        return Ok(false);
    }
    let hidden = new_name(path)?;
    fs::rename(path, &hidden).map_err(FileError::at(path, "delete"))?;
    fs::remove_dir_all(&hidden).map_err(FileError::at(&hidden, "delete"))?;
    Ok(true)
}

/// Deletes the unfinished folders in `folder` whose processes have ended, if `ours` is true for
/// their final names.
///
/// # Errors
/// If the operating system refuses.
pub fn remove_unfinished_folders(
    folder: impl AsRef<Path>,
    ours: impl Fn(&str) -> bool,
) -> Result<(), FileError> {
    for (left, _lock) in left_behind(folder.as_ref(), ours)? {
        if left.is_dir() {
            fs::remove_dir_all(&left).map_err(FileError::at(&left, "delete"))?;
        }
    }
    Ok(())
}

/// The names in a folder, in order, without those that a system leaves there
/// ([`is_system_file`]) and those that aren't UTF-8, which this project never writes.
///
/// # Errors
/// If the folder can't be read.
pub fn names_in(folder: impl AsRef<Path>) -> Result<Vec<String>, FileError> {
    let names = all_names_in(folder.as_ref())?.into_iter();
    Ok(names.filter_map(|name| name.into_string().ok()).collect())
}

/// Returns all names in a folder except system files, in order.
///
/// # Errors
/// If the folder can't be read.
pub fn all_names_in(folder: &Path) -> Result<Vec<OsString>, FileError> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let entries = entries.map_err(FileError::at(folder, "read"))?;
    let mut names: Vec<OsString> = entries.into_iter().map(|entry| entry.file_name()).collect();
    names.retain(|name| !name.to_str().is_some_and(is_system_file));
    names.sort();
    Ok(names)
}

/// Returns the unfinished files and folders in `folder` whose processes have ended, each with its
/// lock, which this process now holds, if `ours` is true for their final names.
///
/// A file that can't be opened or locked may still have a writer, so it is left alone.
pub(crate) fn left_behind(
    folder: &Path,
    ours: impl Fn(&str) -> bool,
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

/// The first name in a folder that isn't `ours`.
fn foreign(folder: &Path, ours: impl Fn(&str) -> bool) -> Result<Option<OsString>, FileError> {
    let mut names = all_names_in(folder)?.into_iter();
    Ok(names.find(|name| !name.to_str().is_some_and(&ours)))
}

/// Makes the names in a folder durable: a rename is on the disk when its folder is. Does nothing
/// where a folder can't be opened.
///
/// # Errors
/// If the operating system refuses.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), FileError> {
    if cfg!(unix) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(FileError::at(folder, "sync"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(name: &str) -> bool {
        ["model", "config"].contains(&name)
    }

    fn names(folder: &Path) -> Vec<String> {
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
        // Only the first of two makes it.
        second.create().unwrap_err();
        assert_eq!(fs::read(target.join("model")).unwrap(), b"first");
        assert_eq!(names(above), ["new"]);
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
    fn a_folder_is_replaced_as_a_whole_and_only_if_all_in_it_is_ours() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("model");
        for text in ["first", "second"] {
            assert!(stage(&target, text).replace(ours).unwrap().is_none());
            assert_eq!(fs::read(target.join("model")).unwrap(), text.as_bytes());
        }
        fs::write(target.join(".DS_Store"), "macOS's").unwrap();
        stage(&target, "third").replace(ours).unwrap();
        assert_eq!(names(folder.path()), ["model"]);
        fs::write(target.join("notes"), "theirs").unwrap();
        let refused = stage(&target, "fourth").replace(ours).unwrap_err();
        assert!(refused.to_string().contains("\"notes\""), "{refused}");
        assert_eq!(fs::read(target.join("model")).unwrap(), b"third");
        assert_eq!(names(folder.path()), ["model"]);
    }

    #[test]
    fn system_files_are_nobodys_and_other_names_are_somebodys() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in [
            ".DS_Store",
            "._a.txt",
            ".#a.txt",
            "a.txt~",
            "Desktop.ini",
            ".nfs012",
        ] {
            fs::write(at(name), "").unwrap();
        }
        assert_eq!(names(folder.path()), [""; 0]);
        require_new_or_empty(&folder).unwrap();
        fs::create_dir(at("new")).unwrap();
        fs::write(at("new/.DS_Store"), "").unwrap();
        stage(&at("new"), "x").create().unwrap();
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::ffi::OsStrExt;
            let not_utf8 = std::ffi::OsStr::from_bytes(b"gut f\xfcr Kapitel 5");
            fs::write(at("new").join(not_utf8), "theirs").unwrap();
            assert_eq!(names(&at("new")), ["config", "model"]);
            require_new_or_empty(at("new")).unwrap_err();
            assert!(!remove_folder(at("new"), ours).unwrap());
            stage(&at("new"), "y").replace(ours).unwrap_err();
        }
    }

    #[test]
    fn a_folder_is_removed_only_if_all_in_it_is_ours() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("gone");
        stage(&target, "x").create().unwrap();
        fs::write(target.join("notes"), "theirs").unwrap();
        assert!(!remove_folder(&target, ours).unwrap());
        assert_eq!(names(&target), ["config", "model", "notes"]);
        fs::remove_file(target.join("notes")).unwrap();
        assert!(remove_folder(&target, ours).unwrap());
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
        remove_unfinished_folders(&folder, |name| name == "model").unwrap();
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
        copy_file(at("victim"), at("copy")).unwrap_err();
        assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
    }
}
