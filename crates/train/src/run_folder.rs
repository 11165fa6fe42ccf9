//! The folder of a training run, which contains its checkpoints and a lock.
//!
//! ```text
//! checkpoints/step-00000120/                     a checkpoint
//! checkpoints/.step-00000120.4711-0.unfinished/  a checkpoint that is being written or deleted
//! .lock                                          the ID of the run; locked by the process that
//!                                                owns the folder
//! run.json                                       the ID of the run, and the token of this process
//! ```
//!
//! To save a checkpoint, a process writes all files to a folder with a temporary name and then
//! renames this folder to its final name. A checkpoint that has its final name is therefore
//! complete, even if the process is killed or a file operation fails. The process then reads the
//! manifest of the new checkpoint to check it. Finally, the process deletes old checkpoints, except
//! for the newest ones and the one with the lowest validation loss.
//!
//! A process deletes only the complete checkpoints of its own run and the folders of unfinished
//! checkpoints. It deletes complete checkpoints only after it has saved a new checkpoint
//! successfully. Before it writes to the run's folder, it checks that it still owns the folder, as
//! described in `identity.rs`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use atomic_file::{
    StagedFolder, create_folder, folder_of, remove_folder, remove_unfinished_folders,
    write_atomically,
};
use checkpoint::SpecialTokens;

use crate::TrainError;
use crate::identity::Owned;
use crate::manifest::{FILES, Manifest, is_gone};
use crate::run_checkpoints::{CHECKPOINTS, RunCheckpoints};

/// The folder of a training run. The folder is locked until this value is dropped.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    owned: Owned,
    /// Serial number of the newest checkpoint of the run. The next checkpoint must get a higher
    /// number. The number of the newest checkpoint is also in its manifest, but it is kept here in
    /// case the manifest can't be read when the next checkpoint is saved.
    newest: AtomicU64,
    /// Names and contents of the additional files that are written to every checkpoint.
    files: Vec<(String, Vec<u8>)>,
    /// Special tokens that are written to the configuration of every checkpoint.
    pub(crate) tokens: SpecialTokens,
}

impl RunFolder {
    /// Opens and locks the folder of a run. If the folder doesn't exist, it is created. Unfinished
    /// checkpoints that were left by killed processes are deleted.
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
    ///
    /// Returns [`TrainError::Locked`] if another process has locked the folder. Returns
    /// [`TrainError::Damaged`] if `path` is a file, if the subfolder for checkpoints is a symbolic
    /// link, if the folder contains files of two different runs, if its file `run.json` wasn't
    /// written by this program, or if all checkpoints are damaged. Also returns an error if a file
    /// operation fails.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TrainError> {
        let path = path.as_ref().to_owned();
        if fs::metadata(&path).is_ok_and(|found| !found.is_dir()) {
            let problem = "a run is stored in a folder, but this is a file; specify a folder";
            return Err(TrainError::damaged(path, problem));
        }
        refuse_link(&path.join(CHECKPOINTS))?;
        create_folder(&path)?;
        let owned = Owned::new(&path, || Ok(RunCheckpoints::of(&path)?.run))?;
        create_folder(path.join(CHECKPOINTS))?;
        let folder = Self {
            path,
            owned,
            newest: AtomicU64::new(0),
            files: Vec::new(),
            tokens: SpecialTokens::default(),
        };
        let kept = RunCheckpoints::of(&folder.path)?.or_damaged()?;
        folder.newest.store(kept.number(), Ordering::Relaxed);
        let _ = folder.delete_unfinished(); // The next save reports folders that can't be deleted.
        Ok(folder)
    }

    /// Adds files, such as the files of a tokenizer, to all checkpoints that will be saved. Each
    /// name has the form `file` or `subfolder/file`. A file that a checkpoint already contains
    /// under the same name is replaced.
    #[must_use]
    pub fn with_files(self, files: Vec<(String, Vec<u8>)>) -> Self {
        Self { files, ..self }
    }

    /// Sets the IDs of the BOS, EOS and padding tokens, which are written to the configuration of
    /// all checkpoints that will be saved. Programs that generate text with a checkpoint need these
    /// IDs.
    #[must_use]
    pub fn with_special_tokens(self, tokens: SpecialTokens) -> Self {
        Self { tokens, ..self }
    }

    /// Returns the path that was passed to [`open`](Self::open).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that this process still owns the folder and may therefore write to it.
    ///
    /// # Errors
    ///
    /// Returns [`TrainError::FolderLost`] if the folder was renamed or deleted, or if another
    /// process has opened it in the meantime. Another process can open the folder if a user deletes
    /// the lock file or if the file system doesn't support locks.
    pub fn check(&self) -> Result<(), TrainError> {
        self.owned.check(&self.path)
    }

    /// Checks that a checkpoint was saved by this run.
    ///
    /// # Errors
    ///
    /// Returns [`TrainError::Damaged`] if another run saved the checkpoint. Also returns an error
    /// if the manifest of the checkpoint can't be read.
    pub fn check_owner(&self, checkpoint: impl AsRef<Path>) -> Result<(), TrainError> {
        let checkpoint = checkpoint.as_ref();
        match Manifest::read(checkpoint)?.run == self.owned.run {
            true => Ok(()),
            false => Err(TrainError::damaged(
                checkpoint,
                "this checkpoint was saved by another run; resume it in the folder of that run",
            )),
        }
    }

    /// Returns the path to the checkpoint with the lowest validation loss, together with this loss.
    /// Returns `None` if no checkpoint contains a validation loss.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder can't be read.
    pub fn best(&self) -> Result<Option<(PathBuf, f64)>, TrainError> {
        let kept = RunCheckpoints::of(&self.path)?;
        Ok(kept.best().map(|(path, loss)| (path.clone(), loss)))
    }

    /// Saves a new checkpoint. The closure `write` receives the path to a temporary folder and must
    /// write the files of the checkpoint to this folder. After the checkpoint has been saved, old
    /// checkpoints are deleted, except for the `keep` newest checkpoints and the one with the
    /// lowest validation loss.
    ///
    /// Returns the path to the new checkpoint, and the errors that occurred when old checkpoints or
    /// unfinished checkpoints were deleted.
    ///
    /// # Errors
    ///
    /// Returns an error if this process no longer owns the folder, or if the new checkpoint can't
    /// be written. If an error is returned, no complete checkpoint has been changed or deleted.
    pub(crate) fn add(
        &self,
        step: u64,
        val_loss: Option<f64>,
        keep: usize,
        write: impl FnOnce(&Path) -> Result<(), TrainError>,
    ) -> Result<(PathBuf, Vec<TrainError>), TrainError> {
        self.check()?;
        refuse_link(&self.path.join(CHECKPOINTS))?;
        // Delete unfinished checkpoints first, because the new checkpoint may need the disk space
        // that they occupy.
        let mut not_deleted = Vec::from_iter(self.delete_unfinished().err());
        let before = RunCheckpoints::of(&self.path)?;
        let newest = before.number().max(self.newest.load(Ordering::Relaxed));
        let number = newest.saturating_add(1);
        let mut folder = self
            .path
            .join(CHECKPOINTS)
            .join(Manifest::folder_name(step));
        if !is_gone(&folder) {
            // A checkpoint folder for this step already exists, for example because the run was
            // resumed from an earlier step and has reached this step again. To be unique, the name
            // of the new folder also contains the checkpoint's serial number.
            folder.set_extension(number.to_string());
        }
        let staged = StagedFolder::beside(&folder)?;
        // If a user renames the run's folder while `write` is writing the files, `write` returns an
        // error about a missing file. In this case, the more helpful error `FolderLost` is returned
        // instead.
        let or_lost = |error| match self.check() {
            Err(lost @ TrainError::FolderLost { .. }) => lost,
            _ => error,
        };
        write(staged.path()).map_err(or_lost)?;
        for (name, bytes) in &self.files {
            let file = staged.path().join(name);
            create_folder(folder_of(&file))?;
            write_atomically(file, |out| out.write_all(bytes))?;
        }
        Manifest::write(staged.path(), &self.owned.run, number, step, val_loss)?;
        self.check()?;
        staged.create()?;
        Manifest::read(&folder)?; // checked before older checkpoints are deleted
        self.newest.store(number, Ordering::Relaxed);
        let kept = RunCheckpoints::of(&self.path)?;
        let best = kept.best().map(|(best, _)| best);
        let stays = |path: &PathBuf| *path == folder || Some(path) == best;
        let is_old = |&(i, path): &(usize, &PathBuf)| i >= keep && !stays(path);
        let newest_first = kept.whole.iter().rev().map(|(path, _)| path);
        for (_, old) in newest_first.enumerate().filter(is_old) {
            not_deleted.extend(remove(old).err());
        }
        Ok((folder, not_deleted))
    }

    /// Deletes the unfinished checkpoints that were left by processes that have ended.
    fn delete_unfinished(&self) -> Result<(), TrainError> {
        let checkpoints = self.path.join(CHECKPOINTS);
        let is_checkpoint = |name: &[u8]| name.starts_with(b"step-");
        Ok(remove_unfinished_folders(checkpoints, is_checkpoint)?)
    }
}

/// Checks that the subfolder for checkpoints isn't a symbolic link. The target of such a link might
/// contain files that don't belong to the run, so this program must not delete anything there.
fn refuse_link(checkpoints: &Path) -> Result<(), TrainError> {
    match checkpoints.is_symlink() {
        true => Err(TrainError::damaged(
            checkpoints,
            "this is a link, but a run writes only to its own folder; replace the link with the folder",
        )),
        false => Ok(()),
    }
}

/// Deletes a complete checkpoint. If a user has added files to it or edited files such as those of
/// the tokenizer, returns an error and deletes nothing.
fn remove(folder: &Path) -> Result<(), TrainError> {
    let manifest = Manifest::read(folder)?;
    manifest.verify(folder, |file| {
        !FILES.contains(&file) && folder.join(file).exists()
    })?;
    remove_folder(folder, |path| manifest.covers(path))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::ErrorKind;

    use atomic_file::{FileError, names_in};

    use super::*;
    use crate::check_tokenizer;
    use crate::identity::{LOCK, RUN_FILE};
    use crate::manifest::MANIFEST_FILE;
    use crate::runs::ignored_checkpoints;
    use crate::{best_checkpoint, latest_checkpoint};

    /// Writes the files of a checkpoint when a test saves one. All files that a checkpoint must
    /// contain are written, but these tests never load them, so their contents don't matter.
    fn write(folder: &Path) -> Result<(), TrainError> {
        for file in FILES {
            fs::write(folder.join(file), "{}").expect("a file");
        }
        Ok(())
    }

    /// Saves a checkpoint and returns its path.
    fn save(folder: &RunFolder, step: u64, keep: usize) -> PathBuf {
        let saved = folder.add(step, None, keep, write);
        saved.expect("a save that works").0
    }

    fn names(folder: &Path) -> Vec<OsString> {
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
        let message = error.expect_err("a full disk").to_string();
        assert!(message.contains("unfinished: can't write"), "{message}");
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

    /// The newest checkpoint is the one with the highest save number. Another checkpoint may have a
    /// higher number of steps, because a run can be resumed from an earlier step.
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
        // Save a checkpoint after step 35, with the setting to keep only the newest one. This
        // checkpoint has no validation loss, so the best checkpoint is still the one after step 30,
        // which must therefore be kept as well.
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
            "step-00000001/model.safetensors", // a checkpoint without a manifest
            "step-notes",
            ".step-draft.unfinished/config.json",
            ".notes.unfinished",
        ];
        for path in foreign {
            let path = checkpoints.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "x").expect("a file");
        }
        // Opening a run must delete unfinished checkpoints, which a process leaves behind if it is
        // killed while it saves or deletes a checkpoint.
        let half = checkpoints.join(".step-00000003.7-0.unfinished");
        fs::create_dir(&half).expect("a folder");
        fs::write(half.join(".config.json.7-0.unfinished"), "x").expect("a file");
        let folder = RunFolder::open(&temporary).expect("a folder with other things");
        assert!(!half.exists());
        for step in [5, 6, 7, 8] {
            let saved = save(&folder, step, 1);
            // A checkpoint must not be deleted if a user has renamed its folder or added a file to
            // it.
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

    /// This test damages a checkpoint. In practice, a run can contain a damaged checkpoint if a
    /// user has copied the run with `cp -r` while one of its checkpoints was being deleted.
    #[test]
    fn a_checkpoint_that_is_not_whole_is_not_the_newest_and_is_told() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let saved = [1, 2].map(|step| save(&folder, step, 2));
        let notes = || ignored_checkpoints(&temporary).expect("readable");
        assert_eq!(notes(), [""; 0]);
        fs::write(saved[1].join(FILES[1]), "").expect("a file");
        assert_eq!(
            latest_checkpoint(&temporary).expect("a whole one"),
            saved[0]
        );
        let note = notes().pop().expect("something is wrong");
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
        let renamed = RunFolder::open(&path)
            .expect("a new folder")
            .add(1, None, 1, |staged| {
                fs::rename(&path, all.path().join("elsewhere")).expect("renamed");
                Ok(fs::write(staged.join("file"), "").map_err(FileError::at(staged, "write"))?)
            });
        let error = renamed.expect_err("another folder");
        assert!(matches!(error, TrainError::FolderLost { .. }), "{error}");
        fs::remove_dir_all(all.path().join("elsewhere")).expect("deleted");
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

    #[test]
    fn each_checkpoint_gets_the_runs_files_and_no_others() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| (name.to_owned(), b"{}".to_vec());
        let files = vec![file("tokenizer.json"), file("templates/tool.json")];
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let folder = folder.with_files(files);
        // The next checkpoint would usually be saved as `step-00000001`. If a symbolic link with
        // this name already exists, it may belong to another program, so the checkpoint must get
        // another name.
        #[cfg(unix)]
        let in_the_way = temporary.path().join(CHECKPOINTS).join("step-00000001");
        #[cfg(unix)]
        std::os::unix::fs::symlink("nowhere", in_the_way).expect("a link");
        let first = save(&folder, 1, 1);
        assert!(!cfg!(unix) || first.ends_with("step-00000001.1"));
        check_tokenizer(&first).expect("as it was saved");
        let second = save(&folder, 2, 1);
        assert!(!first.exists());
        // `check_tokenizer` must return an error if a tokenizer file in a checkpoint was changed.
        for name in ["tokenizer.json", "templates/tool.json"] {
            fs::write(second.join(name), "[]").expect("a file");
            let error = check_tokenizer(&second).expect_err("changed");
            assert!(error.to_string().contains(name), "{error}");
            fs::write(second.join(name), "{}").expect("a file");
        }
        // A checkpoint must not be deleted if a user has added a file to one of its subfolders.
        fs::write(second.join("templates/notes"), "mine").expect("a file");
        save(&folder, 3, 1);
        assert!(second.join("templates/notes").exists());
    }

    #[test]
    fn a_save_that_cant_be_read_back_is_an_error_and_deletes_nothing() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let good = save(&folder, 1, 1);
        let damaging = folder.with_files(vec![(MANIFEST_FILE.to_owned(), b"{}".to_vec())]);
        let error = damaging.add(2, None, 1, write).expect_err("a damaged save");
        assert!(error.to_string().contains(MANIFEST_FILE), "{error}");
        assert_eq!(latest_checkpoint(&temporary).expect("whole"), good);
    }

    #[test]
    fn a_checkpoint_of_another_run_is_never_best_and_never_deleted() {
        let all = tempfile::tempdir().expect("a temporary folder");
        let [one, other] = ["one", "other"].map(|name| all.path().join(name));
        let [own, others] = [&one, &other].map(|path| {
            let folder = RunFolder::open(path).expect("a new folder");
            let saved = folder.add(200, Some(0.5), 1, write);
            saved.expect("a save that works").0
        });
        let guest = one.join(CHECKPOINTS).join("step-00000200.1");
        fs::rename(others, &guest).expect("a folder");
        let folder = RunFolder::open(&one).expect("the run");
        assert_eq!(folder.best().expect("readable"), Some((own.clone(), 0.5)));
        assert_eq!(latest_checkpoint(&one).expect("a checkpoint"), own);
        folder.check_owner(&own).expect("its own");
        folder.check_owner(&guest).expect_err("another run's");
        save(&folder, 300, 1);
        assert!(guest.exists());
        let notes = ignored_checkpoints(&one).expect("readable");
        assert!(notes[0].contains("another run"), "{notes:?}");
        // The ID of a run is stored not only in its lock file but also in its checkpoints, so a run
        // can be identified even if its lock file is missing.
        drop(folder);
        fs::remove_file(one.join(LOCK)).expect("a file");
        fs::remove_dir_all(guest).expect("a folder");
        let folder = RunFolder::open(&one).expect("the run");
        folder.check_owner(&own).expect("its own");
    }

    #[cfg(unix)]
    #[test]
    fn a_hard_linked_copy_is_another_run() {
        let all = tempfile::tempdir().expect("a temporary folder");
        let [run, copy] = ["run", "copy"].map(|name| all.path().join(name));
        let folder = RunFolder::open(&run).expect("a new folder");
        save(&folder, 1, 1);
        fs::create_dir_all(copy.join(CHECKPOINTS)).expect("a folder");
        for name in [LOCK, RUN_FILE] {
            fs::hard_link(run.join(name), copy.join(name)).expect("a link");
        }
        let both = RunFolder::open(&copy).expect("not locked");
        RunFolder::open(&run).expect_err("locked");
        drop(both);
        // Checks that a process notices if a user has moved its run's folder and put a copy, which
        // another process has opened, in its place. The process must not write to this copy.
        fs::rename(&run, all.path().join("aside")).expect("renamed");
        fs::rename(&copy, &run).expect("renamed");
        let error = folder.add(2, None, 1, write).expect_err("another folder");
        assert!(matches!(error, TrainError::FolderLost { .. }), "{error}");
    }

    #[test]
    fn a_number_that_no_run_reaches_is_a_damaged_manifest() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let good = save(&folder, 1, 9);
        let manifest = save(&folder, 2, 9).join(MANIFEST_FILE);
        let text = fs::read_to_string(&manifest).expect("a file");
        let forged = text.replace("\"number\": 2", &format!("\"number\": {}", u64::MAX));
        assert_ne!(text, forged);
        fs::write(&manifest, forged).expect("a file");
        assert_eq!(latest_checkpoint(&temporary).expect("whole"), good);
    }

    #[test]
    fn not_knowing_is_no_licence_to_delete() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let manifest = save(&folder, 1, 1).join(MANIFEST_FILE);
        drop(folder);
        // If all checkpoints of a run are damaged, opening the run must fail. Otherwise, the run
        // would start again from the first step.
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
