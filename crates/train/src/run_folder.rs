//! The folder that a run is kept in: its checkpoints, which of them count, and a lock.
//!
//! ```text
//! latest.json                       the checkpoints that count, the newest last, and the best
//! checkpoints/step-00000120/        one checkpoint
//! checkpoints/.step-00000120.4711-0.unfinished/  one that is being written or deleted
//! tokenizer/                        its files are copied into every checkpoint
//! .lock                             held by the run that writes here
//! ```
//!
//! A save stages a folder, renames it, then replaces latest.json, then deletes what that no longer
//! names. So after a kill, or a failure of any call, latest.json names complete checkpoints.
//! Nothing is deleted but by a save whose own checkpoint is whole, and then only files that a
//! manifest of ours names, and unfinished ones by their names.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atomic_file::{
    StagedFolder, append, copy_file, create_folder, remove_folder, remove_unfinished,
    remove_unfinished_folders, unfinished_of,
};

use crate::TrainError;
use crate::checkpoint::{FILES, is_whole};
use crate::latest::{CHECKPOINTS, LATEST, Latest, known, name_of, order, read_list, step_folders};
use crate::manifest::{MANIFEST_FILE, Manifest, write_json};

/// The file that a run locks, by its name in the run's folder.
pub const LOCK: &str = ".lock";

/// The folder in a run whose files are copied into every checkpoint: its tokenizer. It may not be
/// there.
pub const BESIDE: &str = "tokenizer";

/// A run's folder, locked as long as this lives.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    _lock: File,
    /// What counts, whatever happens to latest.json meanwhile.
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    latest: Latest,
    /// What couldn't be deleted since somebody asked.
    not_deleted: Vec<TrainError>,
}

impl RunFolder {
    /// Makes the folder if there is none, and locks it; what is in it stays as it is.
    ///
    /// ```
    /// let path = std::env::temp_dir().join(format!("run-folder-{}", std::process::id()));
    /// let folder = train::RunFolder::open(&path)?;
    /// assert_eq!(folder.newest(), None);
    /// let again = train::RunFolder::open(&path);
    /// assert!(matches!(again, Err(train::TrainError::Locked { .. })));
    /// drop(folder);
    /// train::RunFolder::open(&path)?;
    /// # std::fs::remove_dir_all(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TrainError::Locked`], what the system says, or that none of the checkpoints which
    /// latest.json names is whole.
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
        let latest = known(&path)?.0;
        Ok(Self {
            path,
            _lock: lock,
            known: Mutex::new(Known {
                latest,
                not_deleted: Vec::new(),
            }),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest checkpoint; none if nothing has been saved.
    pub fn newest(&self) -> Option<PathBuf> {
        let known = self.known();
        let name = known.latest.checkpoints.last();
        name.map(|name| self.path.join(CHECKPOINTS).join(name))
    }

    /// The checkpoint with the lowest validation loss when it was saved, and that loss; none
    /// without validation.
    pub fn best(&self) -> Option<(PathBuf, f64)> {
        let known = self.known();
        let best = known.latest.best.as_ref()?;
        let folder = self.path.join(CHECKPOINTS).join(&best.checkpoint);
        Some((folder, best.val_loss))
    }

    /// What saves could not delete since this was last asked: the run goes on, and each later save
    /// tries again.
    pub fn not_deleted(&self) -> Vec<TrainError> {
        take(&mut self.known().not_deleted)
    }

    /// Whether all checkpoints have a higher validation loss.
    pub(crate) fn is_best(&self, val_loss: f64) -> bool {
        self.known().latest.is_best(val_loss)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `write` fill a new folder, makes that the newest checkpoint, `after` so many steps and
    /// batches, and deletes all but the `keep` newest and the best.
    ///
    /// # Errors
    /// If a call fails: the checkpoints from before are then as they were, and the new one is there
    /// if latest.json names it.
    pub(crate) fn add(
        &self,
        after: (u64, u64),
        keep: usize,
        val_loss: Option<f64>,
        write: impl FnOnce(&Path) -> Result<(), TrainError>,
    ) -> Result<PathBuf, TrainError> {
        let checkpoints = self.path.join(CHECKPOINTS);
        self.known().not_deleted.clear();
        // What a killed save left takes room, which may be what this one needs.
        self.delete_unfinished();
        let name = free_name(&checkpoints, after)?;
        let folder = checkpoints.join(&name);
        let staged = StagedFolder::beside(&folder)?;
        copy_files(&self.path.join(BESIDE), staged.path())?;
        write(staged.path())?;
        staged.create()?;
        let before = self.known().latest.clone();
        let latest = before.with(&name, keep, val_loss);
        if let Err(error) = write_json(&self.path.join(LATEST), &latest) {
            // A sync may have failed behind the rename of latest.json: what that names, or may
            // name, stays.
            if read_list(&self.path).is_ok_and(|found| found.is_none_or(|l| !l.names(&name))) {
                let _ = self.remove(&name);
            }
            return Err(error);
        }
        self.known().latest = latest.clone();
        if is_whole(&folder) {
            let stray = step_folders(&checkpoints).unwrap_or_default().0.into_iter();
            // A save that was killed before it was named has left one, too.
            let stray = stray.filter(|stray| order(stray) < order(&name));
            let mut old: Vec<String> = before.all().cloned().chain(stray).collect();
            old.sort();
            old.dedup();
            for old in old.iter().filter(|old| !latest.names(old)) {
                let removed = self.remove(old);
                self.known().not_deleted.extend(removed.err());
            }
        }
        Ok(folder)
    }

    /// Deletes temporary files and unfinished checkpoints of processes that live no more.
    fn delete_unfinished(&self) {
        let checkpoints = self.path.join(CHECKPOINTS);
        let ours = |file: &str| FILES.contains(&file) || self.is_copy(file);
        let mut done = vec![remove_unfinished(self.path.join(LATEST))];
        for name in step_folders(&checkpoints).unwrap_or_default().1 {
            if let Some(name) = unfinished_of(&name).filter(|name| order(name).is_some()) {
                done.push(remove_unfinished_folders(checkpoints.join(name), ours));
                continue;
            }
            // Programs before this one gave them no process.
            let shown = name
                .strip_prefix('.')
                .and_then(|n| n.strip_suffix(".unfinished"));
            if shown.is_some_and(|name| order(name).is_some()) {
                done.push(remove_folder(checkpoints.join(name), ours).map(drop));
            }
        }
        let failed = done.into_iter().filter_map(|done| Some(done.err()?.into()));
        self.known().not_deleted.extend(failed);
    }

    /// Deletes a complete checkpoint, if it is ours and holds nothing else.
    fn remove(&self, name: &str) -> Result<(), TrainError> {
        let folder = self.path.join(CHECKPOINTS).join(name);
        let Ok(manifest) = Manifest::read(&folder) else {
            return Ok(()); // not demonstrably ours
        };
        remove_folder(&folder, |file| {
            file == MANIFEST_FILE || manifest.names(file) || self.is_copy(file)
        })?;
        Ok(())
    }

    /// Whether a checkpoint's file is one that every checkpoint gets.
    fn is_copy(&self, file: &str) -> bool {
        self.path.join(BESIDE).join(file).is_file()
    }
}

/// Copies the files of a folder, if it is there; what is no file is none of a tokenizer's.
fn copy_files(from: &Path, to: &Path) -> Result<(), TrainError> {
    let entries = match fs::read_dir(from) {
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            return Ok(());
        }
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

/// The name of the first copy of which there is nothing yet: a run that went back saves the same
/// step again.
fn free_name(checkpoints: &Path, (steps, batches): (u64, u64)) -> Result<String, TrainError> {
    let mut copy = 1;
    loop {
        let name = name_of((steps, batches, copy));
        let path = checkpoints.join(&name);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(name),
            found => found.map_err(TrainError::io(&path, "read"))?,
        };
        copy += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something that looks whole: the files that each checkpoint has.
    fn write(folder: &Path) -> Result<(), TrainError> {
        for file in &FILES[..4] {
            fs::write(folder.join(file), "{}").expect("a file");
        }
        Manifest::of(folder)?.write(folder)
    }

    /// The checkpoint after so many steps.
    fn save(folder: &RunFolder, steps: u64, keep: usize) -> PathBuf {
        let saved = folder.add((steps, 0), keep, None, write);
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
        let full = |folder: &Path| {
            write(folder)?;
            Err(TrainError::io(folder, "write")(
                ErrorKind::StorageFull.into(),
            ))
        };
        let error = folder.add((2, 0), 1, None, full).expect_err("a full disk");
        let said = error.to_string();
        assert!(said.contains("unfinished: can't write"), "{said}");
        assert_eq!(folder.newest(), Some(good));
        assert_eq!(names(temporary.path()), ["step-00000001"]);
    }

    #[test]
    fn what_is_not_demonstrably_ours_is_never_deleted() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let checkpoints = temporary.path().join(CHECKPOINTS);
        let foreign = [
            "step-1000/lit_model.pth",
            "step-00000001/model.safetensors", // without a manifest
            ".step-00000002.unfinished/thesis.txt",
            ".step-draft.unfinished/config.json",
            ".notes.unfinished",
        ];
        for path in foreign {
            let path = checkpoints.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "x").expect("a file");
        }
        fs::create_dir(checkpoints.join(".step-00000003.unfinished")).expect("a folder");
        let half = ".step-00000003.unfinished/.config.json.7-0.unfinished";
        fs::write(checkpoints.join(half), "x").expect("a file");
        let folder = RunFolder::open(&temporary).expect("a folder with other things");
        assert!(checkpoints.join(half).exists()); // opening deletes nothing
        for step in [5, 6, 7] {
            let saved = save(&folder, step, 1);
            // A note in a checkpoint makes it the user's.
            if step == 5 {
                fs::write(saved.join("notes.txt"), "good one").expect("a file");
            }
        }
        for path in foreign.iter().chain(&["step-00000005/notes.txt"]) {
            assert!(checkpoints.join(path).exists(), "{path}");
        }
        assert!(!checkpoints.join(".step-00000003.unfinished").exists());
        assert!(!checkpoints.join("step-00000006").exists());
    }

    /// A list that names what is not there deletes nothing, neither when the folder is opened nor
    /// by a reader; the newest whole checkpoint is found, and a save that works puts all right.
    #[test]
    fn a_list_that_is_ahead_damaged_or_forged_deletes_nothing() {
        for list in [
            r#"{"checkpoints": ["step-00000004"]}"#,
            r#"{"checkpoints": ["step-00000002", "step-00000009"], "best": null}"#,
            r#"{"checkpoints": ["../../etc"]}"#,
            r#"{"checkpoints": ["#,
            "",
        ] {
            let temporary = tempfile::tempdir().expect("a temporary folder");
            let folder = RunFolder::open(&temporary).expect("a new folder");
            for step in [1, 2] {
                save(&folder, step, 2);
            }
            drop(folder);
            fs::write(temporary.path().join(LATEST), list).expect("a file");
            let newest = crate::latest_checkpoint(&temporary).expect("a whole one");
            assert!(newest.ends_with("step-00000002"), "{list}");
            let note = crate::list_problem(&temporary).expect("readable");
            let note = note.expect("something is wrong");
            assert!(note.ends_with("is step-00000002"), "{note}");
            let folder = RunFolder::open(&temporary).expect("the same folder");
            assert_eq!(names(temporary.path()), ["step-00000001", "step-00000002"]);
            // Whatever happens to the list while a run goes on, the run knows it.
            fs::write(temporary.path().join(LATEST), "noise").expect("a file");
            save(&folder, 3, 1);
            assert_eq!(names(temporary.path()), ["step-00000003"]);
            assert_eq!(crate::list_problem(&temporary).expect("readable"), None);
        }
    }

    /// As `cp -r` leaves the newest checkpoint of a run that deletes it meanwhile.
    #[test]
    fn a_checkpoint_that_is_not_whole_is_not_the_newest() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        for step in [1, 2] {
            save(&folder, step, 2);
        }
        drop(folder);
        let newest = temporary.path().join(CHECKPOINTS).join("step-00000002");
        fs::write(newest.join(FILES[1]), "").expect("a file");
        let found = crate::latest_checkpoint(&temporary).expect("a whole one");
        assert!(found.ends_with("step-00000001"), "{}", found.display());
    }

    #[cfg(unix)]
    #[test]
    fn what_lies_in_the_tokenizers_folder_neither_hangs_nor_ends_a_save() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let beside = temporary.path().join(BESIDE);
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
        crate::check_copies(&saved).expect("as it was saved");
        fs::write(saved.join("tokenizer.json"), "[]").expect("a file");
        let error = crate::check_copies(&saved).expect_err("changed");
        assert!(error.to_string().contains("tokenizer.json"), "{error}");
    }

    #[test]
    fn not_knowing_is_no_licence_to_delete() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let manifest = save(&folder, 1, 1).join(MANIFEST_FILE);
        drop(folder);
        fs::remove_file(&manifest).expect("deleted");
        fs::create_dir(&manifest).expect("a folder in its place");
        // Nothing whole is left: that is an error, and no reason to begin anew.
        let error = RunFolder::open(&temporary).expect_err("nothing whole");
        assert!(error.to_string().contains("latest.json"), "{error}");
        assert_eq!(names(temporary.path()), ["step-00000001"]);
        // With an older one that is whole, or with no list, it goes on beside it.
        fs::remove_file(temporary.path().join(LATEST)).expect("a file");
        let folder = RunFolder::open(&temporary).expect("the same folder");
        save(&folder, 2, 1);
        assert_eq!(names(temporary.path()), ["step-00000001", "step-00000002"]);
    }
}
