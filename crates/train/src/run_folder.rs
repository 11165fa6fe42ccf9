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
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use atomic_file::{
    StagedFolder, append, copy_file, create_folder, names_in, remove_folder,
    remove_unfinished_folders, unfinished_of,
};

use crate::TrainError;
use crate::kept::{CHECKPOINTS, Kept};
use crate::manifest::{MANIFEST_FILE, Manifest, is_gone};

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
    /// The number of the newest save: one whose manifest can't be read for a moment stays older
    /// than the next.
    newest: AtomicU64,
}

impl RunFolder {
    /// Makes the folder if there is none, and locks it; of what is in it, the rest of a save that
    /// was killed is deleted.
    ///
    /// ```
    /// let path = std::env::temp_dir().join(format!("run-folder-{}", std::process::id()));
    /// let folder = train::RunFolder::open(&path)?;
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
        let newest = AtomicU64::new(0);
        let folder = Self { path, lock, newest };
        folder.check()?;
        let kept = Kept::of(&folder.path)?.or_damaged()?;
        folder.newest.store(kept.number(), Ordering::Relaxed);
        let _ = folder.delete_unfinished(); // a save tells what can't be deleted
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
        let lock = self.path.join(LOCK);
        let path = self.path.clone();
        match is_at(&lock, &self.lock) {
            Ok(true) => Ok(()),
            Err(error) if !is_gone(&lock) => Err(TrainError::io(&lock, "read")(error)),
            _ => Err(TrainError::FolderLost { path }),
        }
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

    /// Lets `write` fill a new folder, which becomes the newest checkpoint, and deletes all but the
    /// `keep` newest and the best. Returns its path, and why others couldn't be deleted.
    ///
    /// # Errors
    /// If the folder is no longer this run's, or a call fails: the checkpoints from before are then
    /// as they were.
    pub(crate) fn add(
        &self,
        step: u64,
        val_loss: Option<f64>,
        keep: usize,
        write: impl FnOnce(&Path) -> Result<(), TrainError>,
    ) -> Result<(PathBuf, Vec<TrainError>), TrainError> {
        self.check()?;
        // What a killed save left takes room, which may be what this one needs.
        let mut not_deleted = Vec::from_iter(self.delete_unfinished().err());
        let before = Kept::of(&self.path)?;
        let newest = before.number().max(self.newest.load(Ordering::Relaxed));
        let number = newest.saturating_add(1);
        let mut folder = self
            .path
            .join(CHECKPOINTS)
            .join(Manifest::folder_name(step));
        if !is_gone(&folder) {
            folder.set_extension(number.to_string()); // a run that went back saves a step again
        }
        let staged = StagedFolder::beside(&folder)?;
        copy_files(&self.path.join(TOKENIZER), staged.path())?;
        write(staged.path())?;
        Manifest::write(staged.path(), number, step, val_loss)?;
        self.check()?;
        staged.create()?;
        self.newest.store(number, Ordering::Relaxed);
        let kept = Kept::of(&self.path)?;
        let best = kept.best().map(|(best, _)| best);
        let is_old = |&(i, path): &(usize, &PathBuf)| i >= keep && Some(path) != best;
        let newest_first = kept.whole.iter().rev().map(|(path, _)| path);
        for (_, old) in newest_first.enumerate().filter(is_old) {
            not_deleted.extend(remove(old).err());
        }
        Ok((folder, not_deleted))
    }

    /// Deletes unfinished checkpoints of processes that live no more.
    fn delete_unfinished(&self) -> Result<(), TrainError> {
        let checkpoints = self.path.join(CHECKPOINTS);
        let is_checkpoint = |name: &str| name.starts_with("step-");
        Ok(remove_unfinished_folders(checkpoints, is_checkpoint)?)
    }
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
    if is_gone(from) {
        return Ok(());
    }
    for name in names_in(from)? {
        let file = from.join(&name);
        if file.is_file() && unfinished_of(&name).is_none() {
            copy_file(&file, to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::checkpoint::FILES;
    use crate::runs::{check_copies, damaged_checkpoint};
    use crate::{best_checkpoint, latest_checkpoint};

    /// Something that looks whole: the files that each checkpoint has.
    fn write(folder: &Path) -> Result<(), TrainError> {
        for file in FILES {
            fs::write(folder.join(file), "{}").expect("a file");
        }
        Ok(())
    }

    /// The checkpoint after so many steps.
    fn save(folder: &RunFolder, step: u64, keep: usize) -> PathBuf {
        let saved = folder.add(step, None, keep, write);
        saved.expect("a save that works").0
    }

    fn names(folder: &Path) -> Vec<String> {
        names_in(folder.join(CHECKPOINTS)).expect("a folder")
    }

    #[test]
    fn a_save_that_fails_leaves_the_checkpoint_before_and_nothing_else() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let good = save(&folder, 1, 1);
        let full = |folder: &Path| {
            write(folder)?;
            Err(TrainError::io(folder, "write")(
                ErrorKind::StorageFull.into(),
            ))
        };
        let error = folder.add(2, None, 1, full);
        let said = error.expect_err("a full disk").to_string();
        assert!(said.contains("unfinished: can't write"), "{said}");
        assert_eq!(latest_checkpoint(&temporary).expect("readable"), good);
        assert_eq!(names(temporary.path()), ["step-00000001"]);
    }

    #[test]
    fn a_save_is_newer_than_those_that_could_not_be_read_meanwhile() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        save(&folder, 1, 9);
        let manifests = [2, 3].map(|step| save(&folder, step, 9).join(MANIFEST_FILE));
        let texts = manifests
            .each_ref()
            .map(|path| fs::read(path).expect("a file"));
        for path in &manifests {
            fs::write(path, "").expect("a file");
        }
        let fourth = save(&folder, 4, 9);
        for (path, text) in manifests.iter().zip(texts) {
            fs::write(path, text).expect("a file");
        }
        assert_eq!(latest_checkpoint(&temporary).expect("readable"), fourth);
        let fifth = save(&folder, 5, 1);
        assert_eq!(names(temporary.path()), ["step-00000005"]);
        assert_eq!(latest_checkpoint(&temporary).expect("readable"), fifth);
    }

    /// The number of the save counts, not the step: a run may have gone back.
    #[test]
    fn the_newest_and_the_best_stay_and_are_found_again() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        for (step, val_loss) in [(10, 3.0), (20, 1.0), (30, 1.0), (40, 2.0), (35, 2.0)] {
            let saved = folder.add(step, Some(val_loss), 1, write);
            saved.expect("a save that works");
        }
        assert_eq!(names(temporary.path()), ["step-00000030", "step-00000035"]);
        let ends = |path: Result<PathBuf, _>, name: &str| path.expect("a run").ends_with(name);
        assert!(ends(latest_checkpoint(&temporary), "step-00000035"));
        assert!(ends(best_checkpoint(&temporary), "step-00000030"));
        drop(folder);
        let folder = RunFolder::open(&temporary).expect("the same folder");
        let best = folder.best().expect("readable");
        assert_eq!(best.map(|best| best.1), Some(1.0));
        // A step that is saved again, and doesn't know its loss, is the best of none.
        save(&folder, 35, 1);
        assert_eq!(
            names(temporary.path()),
            ["step-00000030", "step-00000035.6"]
        );
    }

    #[test]
    fn what_is_not_demonstrably_ours_is_never_deleted() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let checkpoints = temporary.path().join(CHECKPOINTS);
        let foreign = [
            "step-1000/lit_model.pth",
            "step-00000001/model.safetensors", // without a manifest
            "step-notes",
            ".step-draft.unfinished/config.json",
            ".notes.unfinished",
        ];
        for path in foreign {
            let path = checkpoints.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "x").expect("a file");
        }
        // What a killed save or deletion left is cleared away by whoever opens the run next.
        let half = checkpoints.join(".step-00000003.7-0.unfinished");
        fs::create_dir(&half).expect("a folder");
        fs::write(half.join(".config.json.7-0.unfinished"), "x").expect("a file");
        let folder = RunFolder::open(&temporary).expect("a folder with other things");
        assert!(!half.exists());
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
        let saved = [1, 2].map(|step| save(&folder, step, 2));
        let told = || damaged_checkpoint(&temporary).expect("readable");
        assert_eq!(told(), None);
        fs::write(saved[1].join(FILES[1]), "").expect("a file");
        assert_eq!(
            latest_checkpoint(&temporary).expect("a whole one"),
            saved[0]
        );
        let note = told().expect("something is wrong");
        assert!(
            note.ends_with("step-00000001") && note.contains("the file has 0"),
            "{note}"
        );
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
            let second = (i < 3).then(|| RunFolder::open(&path).expect("a new run"));
            let error = first.add(2, None, 1, write).expect_err("another folder");
            if second.is_some() {
                assert!(matches!(error, TrainError::FolderLost { .. }), "{error}");
                assert_eq!(names(&path).len(), usize::from(i == 2), "case {i}");
            } else {
                assert!(!path.join(CHECKPOINTS).exists(), "{error}");
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
        assert!(saved.ends_with("step-00000001.1"));
        assert!(saved.join("tokenizer.json").is_file() && !saved.join("pipe").exists());
        // The copy is part of the checkpoint: cut or changed, it is noticed.
        check_copies(&saved).expect("as it was saved");
        fs::write(saved.join("tokenizer.json"), "[]").expect("a file");
        let error = check_copies(&saved).expect_err("changed");
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
