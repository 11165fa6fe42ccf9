//! The folder that a run is kept in: its checkpoints, and a lock.
//!
//! ```text
//! checkpoints/step-00000120/        one checkpoint
//! checkpoints/.step-00000120.4711-0.unfinished/  one that is being written or deleted
//! tokenizer/                        its files are copied into every checkpoint
//! .lock                             held by the run that writes here
//! ```
//!
//! A save stages a folder, renames it, then deletes what is neither among the newest nor the best:
//! after a kill, or a failure of any call, all folders under their names are whole checkpoints.
//! Nothing is deleted but whole checkpoints of this run, by a save whose own is whole, and
//! unfinished ones by their names.
//!
//! A run is its folder, not its path: if the path leads elsewhere, nothing is written there.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atomic_file::{
    StagedFolder, append, copy_file, create_folder, remove_folder, remove_unfinished_folders,
    unfinished_of,
};

use crate::TrainError;
use crate::checkpoint::FILES;
use crate::kept::{CHECKPOINTS, Kept};
use crate::manifest::{MANIFEST_FILE, Manifest, Save};

/// The file that a run locks, by its name in the run's folder.
pub const LOCK: &str = ".lock";

/// The folder in a run whose files are copied into every checkpoint: its tokenizer. It may not be
/// there.
pub const TOKENIZER: &str = "tokenizer";

/// A run's folder, locked as long as this lives.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    lock: File,
    /// Why something couldn't be deleted, since somebody asked.
    not_deleted: Mutex<Vec<TrainError>>,
}

impl RunFolder {
    /// Makes the folder if there is none, and locks it; of what is in it, the rest of a save that
    /// was killed is deleted.
    ///
    /// ```
    /// let path = std::env::temp_dir().join(format!("run-folder-{}", std::process::id()));
    /// let folder = train::RunFolder::open(&path)?;
    /// assert_eq!(folder.newest()?, None);
    /// let again = train::RunFolder::open(&path);
    /// assert!(matches!(again, Err(train::TrainError::Locked { .. })));
    /// drop(folder);
    /// train::RunFolder::open(&path)?;
    /// # std::fs::remove_dir_all(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TrainError::Locked`], what the system says, or that none of the checkpoints is whole.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TrainError> {
        let path = path.as_ref().to_owned();
        if fs::metadata(&path).is_ok_and(|found| !found.is_dir()) {
            let problem = "expected a folder to keep the run in, but it is a file";
            return Err(TrainError::damaged(path, problem));
        }
        create_folder(path.join(CHECKPOINTS))?;
        let lock_path = path.join(LOCK);
        let lock = append(&lock_path)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => TrainError::Locked { path: path.clone() },
            TryLockError::Error(error) => TrainError::io(&lock_path, "lock")(error),
        })?;
        let folder = Self {
            path,
            lock,
            not_deleted: Mutex::default(),
        };
        folder.check()?;
        Kept::of(&folder.path)?.or_damaged()?;
        folder.delete_unfinished();
        Ok(folder)
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the path still leads to the folder that is locked, so that what is written there
    /// is this run's.
    ///
    /// # Errors
    /// [`TrainError::FolderLost`] if the folder was renamed, deleted, or taken over by another run.
    pub fn check(&self) -> Result<(), TrainError> {
        let is_ours = is_at(&self.path.join(LOCK), &self.lock);
        let checkpoints = || io::Result::Ok(fs::metadata(self.path.join(CHECKPOINTS))?.is_dir());
        match is_ours.and_then(|is_ours| Ok(is_ours && checkpoints()?)) {
            Ok(true) => Ok(()),
            Err(error) if !is_nothing(&error) => Err(TrainError::io(&self.path, "read")(error)),
            _ => Err(TrainError::FolderLost {
                path: self.path.clone(),
            }),
        }
    }

    /// The newest checkpoint; `None` if nothing has been saved.
    ///
    /// # Errors
    /// If the folder can't be read, or what is wrong with the newest checkpoint if none is whole.
    pub fn newest(&self) -> Result<Option<PathBuf>, TrainError> {
        let kept = Kept::of(&self.path)?.or_damaged()?;
        Ok(kept.newest().map(|(path, _)| path.clone()))
    }

    /// The checkpoint with the lowest validation loss when it was saved, and that loss; `None`
    /// without validation.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn best(&self) -> Result<Option<(PathBuf, f64)>, TrainError> {
        let kept = Kept::of(&self.path)?;
        Ok(kept.best().map(|(path, loss)| (path.clone(), loss)))
    }

    /// The errors of deleting old checkpoints since this was last asked: the run goes on, and each
    /// later save tries again.
    pub fn not_deleted(&self) -> Vec<TrainError> {
        take(&mut self.errors())
    }

    fn errors(&self) -> MutexGuard<'_, Vec<TrainError>> {
        self.not_deleted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `write` fill a new folder, which becomes the newest checkpoint, and deletes all but the
    /// `keep` newest and the best. The save's number is filled in here.
    ///
    /// # Errors
    /// If the folder is no longer this run's, or a call fails: the checkpoints from before are then
    /// as they were.
    pub(crate) fn add(
        &self,
        save: Save,
        keep: usize,
        write: impl FnOnce(&Path, Save) -> Result<(), TrainError>,
    ) -> Result<PathBuf, TrainError> {
        self.check()?;
        self.errors().clear();
        // What a killed save left takes room, which may be what this one needs.
        self.delete_unfinished();
        let before = Kept::of(&self.path)?;
        let save = Save {
            number: before
                .newest()
                .map_or(0, |(_, newest)| newest.number)
                .saturating_add(1),
            ..save
        };
        let folder = free_folder(&self.path.join(CHECKPOINTS), &save)?;
        let staged = StagedFolder::beside(&folder)?;
        copy_files(&self.path.join(TOKENIZER), staged.path())?;
        write(staged.path(), save)?;
        self.check()?;
        staged.create()?;
        let kept = Kept::of(&self.path)?;
        if kept.newest().is_some_and(|(newest, _)| *newest == folder) {
            let best = kept.best().map(|(best, _)| best);
            let old = kept.whole.iter().rev().skip(keep).map(|(old, _)| old);
            for old in old.filter(|old| Some(*old) != best) {
                let removed = remove(old);
                self.errors().extend(removed.err());
            }
        }
        Ok(folder)
    }

    /// Deletes unfinished checkpoints of processes that live no more.
    fn delete_unfinished(&self) {
        let checkpoints = self.path.join(CHECKPOINTS);
        let is_copy = |file: &str| self.path.join(TOKENIZER).join(file).is_file();
        let names = fs::read_dir(&checkpoints).into_iter().flatten().flatten();
        for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
            if let Some(name) = unfinished_of(&name).filter(|name| name.starts_with("step-")) {
                let ours = |file: &str| FILES.contains(&file) || is_copy(file);
                let removed = remove_unfinished_folders(checkpoints.join(name), ours);
                self.errors().extend(removed.err().map(Into::into));
            }
        }
    }
}

/// True if there is nothing at a path, or no way to it.
pub(crate) fn is_nothing(error: &io::Error) -> bool {
    [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind())
}

/// True if an open file is the one at `path`.
#[cfg(unix)]
fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let [here, there] = [file.metadata()?, fs::metadata(path)?];
    Ok((here.dev(), here.ino()) == (there.dev(), there.ino()))
}

/// True if a file that this process has locked is the one at `path`: then that can't be locked.
#[cfg(not(unix))]
fn is_at(path: &Path, _locked: &File) -> io::Result<bool> {
    let there = File::open(path)?;
    Ok(matches!(there.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Deletes a whole checkpoint, if it holds nothing that its manifest doesn't name.
fn remove(folder: &Path) -> Result<(), TrainError> {
    let manifest = Manifest::read(folder)?;
    remove_folder(folder, |file| file == MANIFEST_FILE || manifest.names(file))?;
    Ok(())
}

/// Copies the files of a folder, if it is there; what is no file is none of a tokenizer's.
fn copy_files(from: &Path, to: &Path) -> Result<(), TrainError> {
    let entries = match fs::read_dir(from) {
        Err(error) if is_nothing(&error) => return Ok(()),
        entries => entries.map_err(TrainError::io(from, "read"))?,
    };
    for entry in entries {
        let entry = entry.map_err(TrainError::io(from, "read"))?.path();
        let name = entry.file_name().unwrap_or_default();
        let is_file = match fs::metadata(&entry) {
            Err(error) if error.kind() == ErrorKind::NotFound => false, // a link to nothing
            found => found.map_err(TrainError::io(&entry, "read"))?.is_file(),
        };
        let is_unfinished = |name| unfinished_of(name).is_some();
        if is_file && !name.to_str().is_none_or(is_unfinished) {
            copy_file(&entry, to.join(name))?;
        }
    }
    Ok(())
}

/// The first folder by a save's name that isn't there: a run that went back saves the same step
/// again.
fn free_folder(checkpoints: &Path, save: &Save) -> Result<PathBuf, TrainError> {
    let (mut path, mut copy) = (checkpoints.join(save.name()), 1);
    loop {
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(path),
            found => found.map_err(TrainError::io(&path, "read"))?,
        };
        copy += 1;
        path = checkpoints.join(format!("{}.{copy}", save.name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{best_checkpoint, latest_checkpoint};

    /// Something that looks whole: the files that each checkpoint has.
    fn write(folder: &Path, save: Save) -> Result<(), TrainError> {
        for file in &FILES[..4] {
            fs::write(folder.join(file), "{}").expect("a file");
        }
        Manifest::of(folder, save)?.write(folder)
    }

    fn after(step: u64, val_loss: Option<f64>) -> Save {
        Save {
            number: 0,
            step,
            batch: 0,
            val_loss,
        }
    }

    /// The checkpoint after so many steps.
    fn save(folder: &RunFolder, step: u64, keep: usize) -> PathBuf {
        let saved = folder.add(after(step, None), keep, write);
        saved.expect("a save that works")
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder.join(CHECKPOINTS)).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
        let mut names: Vec<String> = names.collect::<Result<_, _>>().expect("text");
        names.sort();
        names
    }

    #[test]
    fn a_save_that_fails_leaves_the_checkpoint_before_and_nothing_else() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let good = save(&folder, 1, 1);
        let full = |folder: &Path, save| {
            write(folder, save)?;
            Err(TrainError::io(folder, "write")(
                ErrorKind::StorageFull.into(),
            ))
        };
        let error = folder.add(after(2, None), 1, full);
        let said = error.expect_err("a full disk").to_string();
        assert!(said.contains("unfinished: can't write"), "{said}");
        assert_eq!(folder.newest().expect("readable"), Some(good));
        assert_eq!(names(temporary.path()), ["step-00000001"]);
    }

    /// The number of the save counts, not the step: a run may have gone back.
    #[test]
    fn the_newest_and_the_best_stay_and_are_found_again() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        for (step, val_loss) in [(10, 3.0), (20, 1.0), (30, 1.0), (40, 2.0), (35, 2.0)] {
            let saved = folder.add(after(step, Some(val_loss)), 1, write);
            saved.expect("a save that works");
        }
        assert_eq!(names(temporary.path()), ["step-00000030", "step-00000035"]);
        let ends = |path: Result<PathBuf, _>, name: &str| path.expect("a run").ends_with(name);
        assert!(ends(latest_checkpoint(&temporary), "step-00000035"));
        assert!(ends(best_checkpoint(&temporary), "step-00000030"));
        drop(folder);
        let folder = RunFolder::open(&temporary).expect("the same folder");
        assert_eq!(
            folder.best().expect("readable").map(|best| best.1),
            Some(1.0)
        );
        // A save that doesn't know its loss is the best of none.
        save(&folder, 50, 1);
        assert_eq!(names(temporary.path()), ["step-00000030", "step-00000050"]);
    }

    #[test]
    fn what_is_not_demonstrably_ours_is_never_deleted() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let checkpoints = temporary.path().join(CHECKPOINTS);
        let foreign = [
            "step-1000/lit_model.pth",
            "step-00000001/model.safetensors", // without a manifest
            ".step-00000002.7-0.unfinished/thesis.txt",
            ".step-draft.unfinished/config.json",
            ".notes.unfinished",
        ];
        for path in foreign {
            let path = checkpoints.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "x").expect("a file");
        }
        // What a killed save or deletion left is cleared away by whoever opens the run next.
        fs::create_dir(checkpoints.join(".step-00000003.7-0.unfinished")).expect("a folder");
        let half = ".step-00000003.7-0.unfinished/.config.json.7-0.unfinished";
        fs::write(checkpoints.join(half), "x").expect("a file");
        let folder = RunFolder::open(&temporary).expect("a folder with other things");
        assert!(!checkpoints.join(".step-00000003.7-0.unfinished").exists());
        for step in [5, 6, 7, 8] {
            let saved = save(&folder, step, 1);
            // A note in a checkpoint, or another name, makes it the user's.
            match step {
                5 => fs::write(saved.join("notes.txt"), "good one").expect("a file"),
                6 => fs::rename(&saved, saved.with_file_name("step-good")).expect("a folder"),
                _ => {}
            }
        }
        for path in foreign
            .iter()
            .chain(&["step-00000005/notes.txt", "step-good"])
        {
            assert!(checkpoints.join(path).exists(), "{path}");
        }
        assert!(!checkpoints.join("step-00000007").exists());
    }

    /// `cp -r` may leave such a newest checkpoint of a run that deletes it meanwhile.
    #[test]
    fn a_checkpoint_that_is_not_whole_is_not_the_newest_and_is_told() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        for step in [1, 2] {
            save(&folder, step, 2);
        }
        let told = |path: &Path| crate::runs::damaged_checkpoint(path).expect("readable");
        assert_eq!(told(temporary.path()), None);
        let newest = temporary.path().join(CHECKPOINTS).join("step-00000002");
        fs::write(newest.join(FILES[1]), "").expect("a file");
        let found = latest_checkpoint(&temporary).expect("a whole one");
        assert!(found.ends_with("step-00000001"), "{}", found.display());
        let note = told(temporary.path()).expect("something is wrong");
        assert!(
            note.ends_with("step-00000001") && note.contains("0"),
            "{note}"
        );
    }

    /// All files and folders within `folder`.
    fn all_below(folder: &Path) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                all.extend(all_below(&path));
            }
            all.push(path);
        }
        all.sort();
        all
    }

    #[test]
    fn a_folder_that_is_another_or_gone_is_not_written_to() {
        let all = tempfile::tempdir().expect("a temporary folder");
        let path = all.path().join("run");
        type Change = fn(&Path);
        let changes: [Change; 4] = [
            |run| fs::rename(run, run.with_file_name("elsewhere")).expect("renamed"),
            |run| fs::remove_dir_all(run).expect("deleted"),
            |run| fs::remove_file(run.join(LOCK)).expect("deleted"),
            |run| fs::remove_dir_all(run.join(CHECKPOINTS)).expect("deleted"),
        ];
        for (i, change) in changes.into_iter().enumerate() {
            let first = RunFolder::open(&path).expect("a new folder");
            save(&first, 1, 1);
            change(&path);
            for has_second in [false, true] {
                let second = has_second.then(|| RunFolder::open(&path));
                if i == 3 && has_second {
                    assert!(matches!(second, Some(Err(TrainError::Locked { .. }))));
                    continue;
                }
                let before = all_below(all.path());
                let error = first.add(after(2, None), 1, write);
                let error = error.expect_err("another folder");
                assert!(matches!(error, TrainError::FolderLost { .. }), "{error}");
                assert_eq!(all_below(all.path()), before, "case {i}");
            }
            let _ = fs::remove_dir_all(&path);
            let _ = fs::remove_dir_all(all.path().join("elsewhere"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_lies_in_the_tokenizers_folder_neither_hangs_nor_ends_a_save() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let beside = temporary.path().join(TOKENIZER);
        fs::create_dir_all(beside.join(".ipynb_checkpoints")).expect("a folder");
        fs::write(beside.join("tokenizer.json"), "{}").expect("a file");
        std::os::unix::fs::symlink("nowhere", beside.join("link")).expect("a link");
        // Not with mkfifo: a child holds this process' locks until it is another program.
        let pipe = std::os::unix::net::UnixListener::bind(beside.join("pipe"));
        pipe.expect("a socket, which is no file either");
        // A link where the next checkpoint would be is somebody else's, too.
        let in_the_way = temporary.path().join(CHECKPOINTS).join("step-00000001");
        std::os::unix::fs::symlink("nowhere", in_the_way).expect("a link");
        let saved = save(&folder, 1, 1);
        assert!(saved.ends_with("step-00000001.2"));
        assert!(saved.join("tokenizer.json").is_file() && !saved.join("pipe").exists());
        // The copy is part of the checkpoint: cut or changed, it is noticed.
        crate::runs::check_copies(&saved).expect("as it was saved");
        fs::write(saved.join("tokenizer.json"), "[]").expect("a file");
        let error = crate::runs::check_copies(&saved).expect_err("changed");
        assert!(error.to_string().contains("tokenizer.json"), "{error}");
    }

    #[test]
    fn not_knowing_is_no_licence_to_delete() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let manifest = save(&folder, 1, 1).join(MANIFEST_FILE);
        drop(folder);
        // Nothing whole is left: that is an error, and no reason to begin anew.
        fs::write(&manifest, "").expect("a file");
        let error = RunFolder::open(&temporary).expect_err("nothing whole");
        assert!(error.to_string().contains("manifest.json"), "{error}");
        assert_eq!(names(temporary.path()), ["step-00000001"]);
        fs::remove_file(&manifest).expect("deleted");
        let folder = RunFolder::open(&temporary).expect("somebody else's checkpoint");
        save(&folder, 2, 1);
        assert_eq!(names(temporary.path()), ["step-00000001", "step-00000002"]);
    }
}
