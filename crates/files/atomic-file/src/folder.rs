//! Folders: made, filled out of sight and put in their place by one rename, taken away by one
//! rename.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::{CLEAR, REPLACE, SYNC_AROUND};
use crate::name::{create_locked, folder_of, is_there, left_behind, new_name};
use crate::{FileError, open_file};

/// A new folder, `.NAME.4711-0.unfinished`, that will be the folder `NAME` beside it once it is
/// whole; dropped before, it is deleted.
///
/// It is created, never taken over, so that no link that somebody has laid there is followed.
#[derive(Debug)]
#[must_use = "dropped, it is deleted"]
pub struct StagedFolder {
    path: PathBuf,
    target: PathBuf,
    /// Whether what is at `path` is still the new folder.
    is_new: bool,
    /// Tells others that we live.
    _lock: Option<File>,
}

impl StagedFolder {
    /// An empty folder beside `target`, or beside what that leads to if it is a link.
    ///
    /// # Errors
    /// If `target` is no folder, or the current folder is in it (a shell would stand in a folder
    /// that is gone), or the operating system refuses.
    pub fn beside(target: impl AsRef<Path>) -> Result<Self, FileError> {
        let target = target.as_ref();
        let failed = FileError::at(target, REPLACE);
        let target = match fs::canonicalize(target) {
            Err(error) if error.kind() == ErrorKind::NotFound && !target.is_symlink() => {
                create_folder(folder_of(target))?;
                target.to_owned()
            }
            found => found.map_err(&failed)?,
        };
        if target.exists() && !target.is_dir() {
            return Err(failed(ErrorKind::NotADirectory.into()));
        }
        if std::env::current_dir().is_ok_and(|current| current.starts_with(&target)) {
            return Err(failed(io::Error::other("the current folder is in it")));
        }
        Self::of(target)
    }

    /// An empty folder within `target`, for [`Self::move_out`].
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn within(target: impl AsRef<Path>) -> Result<Self, FileError> {
        Self::of(target.as_ref().join("new"))
    }

    fn of(target: PathBuf) -> Result<Self, FileError> {
        let (path, lock) = create_locked(&target, |name| {
            fs::create_dir(name)?;
            // On Windows a folder can't be opened; what a crash leaves there stays.
            Ok(File::open(name).ok())
        })?;
        Ok(Self {
            path,
            target,
            is_new: true,
            _lock: lock,
        })
    }

    /// Where it is now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it the folder it is meant to be, which may not be there, or be empty.
    ///
    /// # Errors
    /// If the operating system refuses: because there is something in the folder, most likely.
    pub fn create(self) -> Result<(), FileError> {
        let failed = FileError::at(&self.target, "create");
        sync_folder(&self.path)?;
        if cfg!(windows) {
            let _ = fs::remove_dir(&self.target); // if it is empty; elsewhere a rename replaces it
        }
        fs::rename(&self.path, &self.target).map_err(failed)?;
        self.sync_around()
    }

    fn sync_around(&self) -> Result<(), FileError> {
        let synced = sync_folder(folder_of(&self.target));
        synced.map_err(|error| FileError::at(&self.target, SYNC_AROUND)(error.source))
    }

    /// As [`remove_unfinished_folders`], of this folder.
    ///
    /// # Errors
    /// As there.
    pub fn remove_left_behind(&self, ours: impl Fn(&str) -> bool) -> Result<usize, FileError> {
        remove_unfinished_folders(&self.target, ours)
    }

    /// Makes it the folder it is meant to be, in place of the one that is there: on Linux and macOS
    /// by one exchange, so that a reader finds the old one or the new one at every moment;
    /// elsewhere by two renames.
    ///
    /// Of the old folder, files that are `ours` by name are deleted, and all else is moved into the
    /// new one; if the process is killed at that, [`take_back`] does the rest.
    ///
    /// # Errors
    /// With the action "replace" the old folder is as it was; with any other the new one is in its
    /// place.
    pub fn replace(self, ours: impl Fn(&str) -> bool) -> Result<(), FileError> {
        self.replace_by(exchange, ours)
    }

    fn replace_by(
        mut self,
        exchange: impl Fn(&Path, &Path) -> io::Result<()>,
        ours: impl Fn(&str) -> bool,
    ) -> Result<(), FileError> {
        let failed = FileError::at(&self.target, REPLACE);
        sync_folder(&self.path).map_err(|error| failed(error.source))?;
        match fs::metadata(&self.target) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => {
                let permissions = found.map_err(&failed)?.permissions();
                let _ = fs::set_permissions(&self.path, permissions); // the folder may be another's
            }
        }
        let old = self.take_place(exchange).map_err(failed)?;
        self.is_new = false;
        self.sync_around()?;
        old.iter()
            .try_for_each(|old| carry_over(old, &self.target, &ours))
    }

    /// Puts it where the old folder is, and returns where that is now, if there was one; several if
    /// other processes put theirs there meanwhile.
    fn take_place(
        &self,
        exchange: impl Fn(&Path, &Path) -> io::Result<()>,
    ) -> io::Result<Vec<PathBuf>> {
        // What a file system may say of a folder in the way.
        const TAKEN: [ErrorKind; 2] = [ErrorKind::DirectoryNotEmpty, ErrorKind::AlreadyExists];
        let mut old = Vec::new();
        loop {
            match exchange(&self.path, &self.target) {
                Ok(()) => {
                    old.push(self.path.clone());
                    return Ok(old);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    let aside = new_name(&self.target).map_err(|error| error.source)?;
                    match fs::rename(&self.target, &aside) {
                        Err(error) if error.kind() == ErrorKind::NotFound => {}
                        moved => {
                            moved?;
                            old.push(aside);
                        }
                    }
                }
                Err(error) => return Err(error),
            }
            // Nothing is there, unless another process has put it there since.
            match fs::rename(&self.path, &self.target) {
                Ok(()) => return Ok(old),
                Err(error) if TAKEN.contains(&error.kind()) => {}
                Err(error) => {
                    if let Some(old) = old.pop() {
                        let _ = fs::rename(old, &self.target);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Moves its files into the folder that it is [within](Self::within), `last` at the end, for a
    /// folder that can't be replaced: a file system's own, or the current one.
    ///
    /// # Errors
    /// If the operating system refuses; files that were not moved are deleted.
    pub fn move_out(self, last: &str) -> Result<(), FileError> {
        let to = folder_of(&self.path);
        let mut names = names_in(&self.path)?;
        names.sort_by_key(|name| name == last);
        for name in names {
            let (from, to) = (self.path.join(&name), to.join(&name));
            fs::rename(from, &to).map_err(FileError::at(&to, "replace"))?;
        }
        sync_folder(to)
    }
}

impl Drop for StagedFolder {
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Moves into a folder what was not `ours` in the one before it, where a process was killed while
/// it [replaced](StagedFolder::replace) that; the rest of it is deleted.
///
/// # Errors
/// If the operating system refuses, or a file's name has come anew: the error names the folder that
/// has the old one. Each [is after replacing](FileError::is_after_replacing).
pub fn take_back(folder: impl AsRef<Path>, ours: impl Fn(&str) -> bool) -> Result<(), FileError> {
    let folder = folder.as_ref();
    let failed = FileError::at(folder, CLEAR);
    let folder = fs::canonicalize(folder).map_err(&failed)?;
    let all_left = left_behind(&folder).map_err(|error| failed(error.source))?;
    for (left, _lock) in all_left {
        if left.is_dir() {
            carry_over(&left, &folder, &ours)?;
        }
    }
    Ok(())
}

/// Empties an old folder: what is not ours goes into the new one. Somebody who cleans up may be
/// faster.
fn carry_over(old: &Path, new: &Path, ours: &impl Fn(&str) -> bool) -> Result<(), FileError> {
    let failed = FileError::at(old, CLEAR);
    let unless_gone = |done: io::Result<()>| match done {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    };
    let entries = match fs::read_dir(old) {
        Ok(entries) => entries,
        Err(error) => return unless_gone(Err(error)),
    };
    for entry in entries {
        let entry = entry.map_err(&failed)?;
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| ours(finished(name)));
        let place = new.join(name);
        if is_ours && entry.file_type().is_ok_and(|kind| !kind.is_dir()) {
            unless_gone(fs::remove_file(entry.path()))?;
        } else if !is_there(&place).map_err(|error| failed(error.source))? {
            unless_gone(fs::rename(entry.path(), place))?;
        }
    }
    // What was moved is on the disk before the folder that had it goes.
    unless_gone(sync_folder(new).map_err(|error| error.source))?;
    unless_gone(fs::remove_dir(old))
}

/// Two folders change places.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        // This file system can't, or this kernel.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Err(ErrorKind::Unsupported.into()),
        done => Ok(done?),
    }
}

/// Two folders change places: not here.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Makes a folder, and those above it, if they aren't there; what is made stays after a power cut.
///
/// # Errors
/// If the operating system refuses.
pub fn create_folder(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    if path.is_dir() {
        return Ok(());
    }
    let parent = folder_of(path);
    if path.parent().is_some() {
        create_folder(parent)?;
    }
    match create_new_folder(path) {
        // Another process has made it since.
        Err(error) if error.source.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

/// Makes a folder that is new.
///
/// # Errors
/// If it is there ([`ErrorKind::AlreadyExists`]), or the operating system refuses.
pub fn create_new_folder(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    fs::create_dir(path).map_err(FileError::at(path, "create"))?;
    sync_folder(folder_of(path))
}

/// Copies a regular file to a new one, which is on the disk when this returns.
///
/// # Errors
/// If `from` is not a regular file or `to` is there, or the operating system refuses.
pub fn copy_file(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), FileError> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let (mut source, _) = open_file(from)?;
    let mut copy = File::create_new(to).map_err(FileError::at(to, "create"))?;
    io::copy(&mut source, &mut copy)
        .and_then(|_| copy.sync_all())
        .map_err(FileError::at(to, "write"))
}

/// Deletes a folder whose files are all `ours` by name, and returns whether it did: with anything
/// else in it it stays.
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
    if !holds_only(path, &ours)? {
        return Ok(false);
    }
    let hidden = new_name(path)?;
    fs::rename(path, &hidden).map_err(FileError::at(path, "delete"))?;
    remove_files_and_folder(&hidden)?;
    Ok(true)
}

/// Deletes what processes that live no more left unfinished of the folder `path`, if all files in
/// it are `ours` by name;
/// returns how many folders there were.
///
/// # Errors
/// If the operating system refuses.
pub fn remove_unfinished_folders(
    path: impl AsRef<Path>,
    ours: impl Fn(&str) -> bool,
) -> Result<usize, FileError> {
    let mut removed = 0;
    for (left, _lock) in left_behind(path.as_ref())? {
        if left.is_dir() && holds_only(&left, &ours)? {
            remove_files_and_folder(&left)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether all that is in a folder are files that are `ours` by name, or will be.
fn holds_only(folder: &Path, ours: &impl Fn(&str) -> bool) -> Result<bool, FileError> {
    for name in names_in(folder)? {
        let found = folder.join(&name);
        let is_file = fs::symlink_metadata(found).is_ok_and(|found| found.is_file());
        if !is_file || !ours(finished(&name)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A name, or of an unfinished file that of the one it would be.
fn finished(name: &str) -> &str {
    crate::unfinished_of(name).unwrap_or(name)
}

/// The rest of a folder that [`holds_only`] files of ours.
fn remove_files_and_folder(folder: &Path) -> Result<(), FileError> {
    for name in names_in(folder)? {
        let file = folder.join(name);
        fs::remove_file(&file).map_err(FileError::at(&file, "delete"))?;
    }
    fs::remove_dir(folder).map_err(FileError::at(folder, "delete"))
}

/// Names in a folder; one that is no text is shown as one, and so is nobody's.
fn names_in(folder: &Path) -> Result<Vec<String>, FileError> {
    let failed = FileError::at(folder, "read");
    fs::read_dir(folder)
        .map_err(&failed)?
        .map(|entry| {
            Ok(entry
                .map_err(&failed)?
                .file_name()
                .to_string_lossy()
                .into_owned())
        })
        .collect()
}

/// Makes the names in a folder last, as a rename is on the disk when its folder is; where a folder
/// can't be opened there is nothing to do.
///
/// # Errors
/// If the operating system refuses.
pub fn sync_folder(folder: impl AsRef<Path>) -> Result<(), FileError> {
    let folder = folder.as_ref();
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
        let mut names = names_in(folder).unwrap();
        names.sort();
        names
    }

    fn stage(target: &Path, text: &str) -> StagedFolder {
        let staged = StagedFolder::beside(target).unwrap();
        for name in ["model", "config"] {
            fs::write(staged.path().join(name), text).unwrap();
        }
        staged
    }

    #[test]
    fn a_new_folder_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("above/new");
        drop(stage(&target, "dropped"));
        assert_eq!(names(&folder.path().join("above")), [""; 0]);
        let second = stage(&target, "second");
        stage(&target, "first").create().unwrap();
        // Only the first of two makes it.
        second.create().unwrap_err();
        assert_eq!(fs::read(target.join("model")).unwrap(), b"first");
        assert_eq!(names(&folder.path().join("above")), ["new"]);
    }

    #[test]
    fn a_folder_is_replaced_and_what_is_not_ours_stays_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("kept");
        fs::create_dir_all(target.join(".git")).unwrap();
        for name in ["README.md", ".git/HEAD", "model"] {
            fs::write(target.join(name), "old").unwrap();
        }
        stage(&target, "new").replace(ours).unwrap();
        assert_eq!(names(&target), [".git", "README.md", "config", "model"]);
        assert_eq!(fs::read(target.join("model")).unwrap(), b"new");
        assert_eq!(fs::read(target.join(".git/HEAD")).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["kept"]);
    }

    /// By one exchange, and as on file systems that have none.
    #[cfg(unix)]
    #[test]
    fn of_several_that_replace_at_once_each_does() {
        let folder = tempfile::tempdir().unwrap();
        let without = |_: &Path, _: &Path| Err(ErrorKind::Unsupported.into());
        for round in 0..50 {
            let target = folder.path().join(round.to_string());
            let staged = [(); 4].map(|()| stage(&target, "new"));
            std::thread::scope(|scope| {
                let running = staged.map(|staged| {
                    scope.spawn(move || match round % 2 {
                        0 => staged.replace(ours),
                        _ => staged.replace_by(without, ours),
                    })
                });
                for replaced in running {
                    replaced.join().unwrap().unwrap();
                }
            });
            assert_eq!(names(&target), ["config", "model"]);
        }
        assert_eq!(names(folder.path()).len(), 50);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_process_left_that_was_killed_after_the_exchange_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("kept");
        let old = folder.path().join(".kept.4711-0.unfinished");
        fs::create_dir_all(old.join("notes")).unwrap();
        for name in [
            "README.md",
            "notes/today",
            "model",
            ".config.4711-1.unfinished",
        ] {
            fs::write(old.join(name), "old").unwrap();
        }
        fs::create_dir(&target).unwrap();
        stage(&target, "new").create().unwrap();
        take_back(&target, ours).unwrap();
        assert_eq!(names(&target), ["README.md", "config", "model", "notes"]);
        assert_eq!(fs::read(target.join("model")).unwrap(), b"new");
        assert_eq!(fs::read(target.join("notes/today")).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["kept"]);
        // One that has come anew takes nobody's place, and is named.
        fs::create_dir(&old).unwrap();
        fs::write(old.join("README.md"), "older").unwrap();
        let error = take_back(&target, ours).unwrap_err();
        assert!(error.is_after_replacing() && error.path.ends_with(old.file_name().unwrap()));
        assert_eq!(fs::read(target.join("README.md")).unwrap(), b"old");
        assert_eq!(fs::read(old.join("README.md")).unwrap(), b"older");
        assert_eq!(names(&target), ["README.md", "config", "model", "notes"]);
    }

    #[test]
    fn files_are_moved_into_a_folder_that_stays_the_last_one_last() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("README.md"), "kept").unwrap();
        let staged = StagedFolder::within(folder.path()).unwrap();
        fs::write(staged.path().join("config"), "new").unwrap();
        staged.move_out("config").unwrap();
        assert_eq!(names(folder.path()), ["README.md", "config"]);
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
        let left = |name: &str, file: &str| {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join(file), "x").unwrap();
        };
        left(".model.4711-0.unfinished", "config");
        left(".model.4711-1.unfinished", ".config.4711-2.unfinished");
        left(".model.4711-3.unfinished", "thesis.txt");
        left(".other.4711-4.unfinished", "config");
        let living = stage(&target, "x");
        assert_eq!(remove_unfinished_folders(&target, ours).unwrap(), 2);
        assert_eq!(names(folder.path()).len(), 3);
        assert!(living.path().exists());
        living.create().unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_folder_stays_and_one_in_our_way_is_not_followed() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("real/model"), folder.path().join("link"));
        fs::create_dir_all(&target).unwrap();
        symlink(&target, &link).unwrap();
        stage(&link, "new").replace(ours).unwrap();
        assert!(link.is_symlink());
        assert_eq!(names(&target), ["config", "model"]);
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, folder.path().join("copy")).unwrap();
        copy_file(target.join("model"), folder.path().join("copy")).unwrap_err();
        symlink(
            folder.path().join("nowhere"),
            folder.path().join("dangling"),
        )
        .unwrap();
        StagedFolder::beside(folder.path().join("dangling")).unwrap_err();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }
}
