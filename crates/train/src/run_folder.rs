//! The folder that a run is kept in: its checkpoints, which of them count, and a lock.
//!
//! ```text
//! latest.json                             the checkpoints that count, the newest last, and the best
//! checkpoints/step-00000120/              one checkpoint
//! checkpoints/.step-00000120.unfinished/  one that is being written or deleted
//! tokenizer/                              copied into every checkpoint
//! .lock                                   held by the run that writes here
//! ```
//!
//! A save writes an unfinished folder, renames it, then replaces latest.json, then deletes what that no longer names.
//! So after a kill, or a failure of any call, latest.json names complete checkpoints.
//! Nothing is deleted but files that a manifest of ours names, and unfinished ones by their names.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use atomic_file::{remove_unfinished, sync_folder, unfinished_of};
use checkpoint::is_file;

use crate::TrainError;
use crate::checkpoint::FILES;
use crate::latest::{CHECKPOINTS, LATEST, hidden, newest, order, read_latest, step_folders};
use crate::manifest::{MANIFEST_FILE, Manifest, write_json};

/// The file that a run locks, by its name in the run's folder.
pub const LOCK: &str = ".lock";

/// The folder in a run whose files are copied into every checkpoint: its tokenizer.
pub const BESIDE: &str = "tokenizer";

/// A run's folder, locked as long as this lives.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    _lock: File,
}

impl RunFolder {
    /// Makes the folder if there is none, locks it, and deletes what a killed run left half-written.
    ///
    /// # Errors
    /// [`TrainError::NotAFolder`], [`TrainError::Locked`], or what the system says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TrainError> {
        let path = path.as_ref().to_owned();
        match fs::metadata(&path) {
            Ok(found) if !found.is_dir() => return Err(TrainError::NotAFolder { path }),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(TrainError::io(&path, "read")(error));
            }
            _ => {}
        }
        let checkpoints = path.join(CHECKPOINTS);
        fs::create_dir_all(&checkpoints).map_err(TrainError::io(&checkpoints, "create"))?;
        let lock_path = path.join(LOCK);
        is_file(&lock_path)?; // opening a pipe would wait for its other end
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(TrainError::io(&lock_path, "create"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(TrainError::Locked { path }),
            Err(TryLockError::Error(error)) => {
                return Err(TrainError::io(&lock_path, "lock")(error));
            }
        }
        let folder = Self { path, _lock: lock };
        folder.clean_up()?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder, in the run at `path`, of files that every checkpoint gets a copy of; it may not be there.
    pub fn beside(path: &Path) -> PathBuf {
        path.join(BESIDE)
    }

    /// The newest checkpoint; none if nothing has been saved.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn newest(&self) -> Result<Option<PathBuf>, TrainError> {
        newest(&self.path)
    }

    /// The checkpoint with the lowest validation loss when it was saved, and that loss; none without validation.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn best(&self) -> Result<Option<(PathBuf, f64)>, TrainError> {
        let best = read_latest(&self.path)?.best;
        Ok(best.map(|best| {
            let folder = self.path.join(CHECKPOINTS).join(best.checkpoint);
            (folder, best.val_loss)
        }))
    }

    /// Lets `write` fill a new folder, makes that the newest checkpoint, and deletes all but the `keep` newest and the best.
    ///
    /// # Errors
    /// If a call fails: the checkpoints from before are then as they were, and the new one is there if latest.json names it.
    pub(crate) fn add(
        &self,
        name: &str,
        keep: usize,
        val_loss: Option<f64>,
        write: impl FnOnce(&Path) -> Result<(), TrainError>,
    ) -> Result<PathBuf, TrainError> {
        let checkpoints = self.path.join(CHECKPOINTS);
        let before = read_latest(&self.path)?;
        let name = free_name(&checkpoints, name)?;
        let (unfinished, folder) = (checkpoints.join(hidden(&name)), checkpoints.join(&name));
        fs::create_dir(&unfinished).map_err(TrainError::io(&unfinished, "create"))?;
        let written = copy_files(&Self::beside(&self.path), &unfinished)
            .and_then(|()| write(&unfinished))
            .and_then(|()| Ok(sync_folder(&unfinished)?))
            .and_then(|()| {
                fs::rename(&unfinished, &folder).map_err(TrainError::io(&folder, "create"))
            });
        if let Err(error) = written {
            // A full disk, most likely: the error to report is the first one.
            let _ = remove_hidden(&unfinished);
            return Err(error);
        }
        let latest = before.with(&name, keep, val_loss);
        let named = sync_folder(&checkpoints)
            .map_err(TrainError::from)
            .and_then(|()| write_json(&self.path.join(LATEST), &latest));
        if let Err(error) = named {
            // A sync may have failed behind the rename of latest.json: what that names, or may name, stays.
            if read_latest(&self.path).is_ok_and(|found| !found.names(&name)) {
                let _ = remove(&checkpoints, &name);
            }
            return Err(error);
        }
        for old in before.all().filter(|old| !latest.names(old)) {
            remove(&checkpoints, old)?;
        }
        // A save that was killed before it was named has left one, too.
        self.clean_up()?;
        Ok(folder)
    }

    /// Deletes what a killed save left: temporary files, unfinished checkpoints, and older ones that latest.json no longer names.
    fn clean_up(&self) -> Result<(), TrainError> {
        let latest_path = self.path.join(LATEST);
        remove_unfinished(&latest_path)?;
        let checkpoints = self.path.join(CHECKPOINTS);
        let (finished, unfinished) = step_folders(&checkpoints)?;
        for name in unfinished {
            remove_hidden(&checkpoints.join(name))?;
        }
        if !is_file(&latest_path)? {
            return Ok(());
        }
        let latest = read_latest(&self.path)?;
        let newest = latest.checkpoints.last().and_then(|name| order(name));
        for name in finished {
            if !latest.names(&name) && order(&name) < newest {
                remove(&checkpoints, &name)?;
            }
        }
        Ok(())
    }
}

/// Copies the files of a folder, if it is there.
fn copy_files(from: &Path, to: &Path) -> Result<(), TrainError> {
    if !from.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(from).map_err(TrainError::io(from, "read"))? {
        let entry = entry.map_err(TrainError::io(from, "read"))?;
        let file = to.join(entry.file_name());
        fs::copy(entry.path(), &file).map_err(TrainError::io(&file, "write"))?;
    }
    Ok(())
}

/// `name`, or `name.2` and so on if that is there already: a run that went back saves the same step again.
fn free_name(checkpoints: &Path, name: &str) -> Result<String, TrainError> {
    let mut free = name.to_owned();
    let mut copy = 2;
    loop {
        let path = checkpoints.join(&free);
        if !path.try_exists().map_err(TrainError::io(&path, "read"))? {
            return Ok(free);
        }
        free = format!("{name}.{copy}");
        copy += 1;
    }
}

/// Deletes a complete checkpoint, if it is ours and holds nothing else; it is out of sight from the first moment.
fn remove(checkpoints: &Path, name: &str) -> Result<(), TrainError> {
    let folder = checkpoints.join(name);
    let Ok(manifest) = Manifest::read(&folder) else {
        return Ok(()); // not demonstrably ours
    };
    let ours = |file: &str| file == MANIFEST_FILE || manifest.names(file) || is_copy(&folder, file);
    if !holds_only(&folder, ours)? {
        return Ok(());
    }
    let hidden = checkpoints.join(hidden(name));
    fs::rename(&folder, &hidden).map_err(TrainError::io(&folder, "delete"))?;
    remove_hidden(&hidden)
}

/// Deletes an unfinished checkpoint, if it holds nothing but files that a save writes.
fn remove_hidden(folder: &Path) -> Result<(), TrainError> {
    let ours =
        |name: &str| FILES.contains(&unfinished_of(name).unwrap_or(name)) || is_copy(folder, name);
    if holds_only(folder, ours)? {
        fs::remove_dir_all(folder).map_err(TrainError::io(folder, "delete"))?;
    }
    Ok(())
}

/// Whether a checkpoint's file is one that every checkpoint of its run gets.
fn is_copy(checkpoint: &Path, file: &str) -> bool {
    let run = checkpoint.ancestors().nth(2);
    run.is_some_and(|run| RunFolder::beside(run).join(file).is_file())
}

/// Whether all that is in a folder are files of these names.
fn holds_only(folder: &Path, ours: impl Fn(&str) -> bool) -> Result<bool, TrainError> {
    for entry in fs::read_dir(folder).map_err(TrainError::io(folder, "read"))? {
        let entry = entry.map_err(TrainError::io(folder, "read"))?;
        let kind = entry.file_type().map_err(TrainError::io(folder, "read"))?;
        if !kind.is_file() || !entry.file_name().to_str().is_some_and(&ours) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latest::step_name;

    fn write(folder: &Path) -> Result<(), TrainError> {
        let path = folder.join(FILES[0]);
        fs::write(&path, "{}").map_err(TrainError::io(&path, "write"))?;
        Manifest::of(folder, &FILES[..1])?.write(folder)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder.join(CHECKPOINTS)).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string())
            .collect::<Result<_, _>>()
            .expect("text");
        names.sort();
        names
    }

    #[test]
    fn a_save_that_fails_leaves_the_checkpoint_before_and_nothing_else() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let good = folder.add("step-00000001", 1, None, write);
        let good = good.expect("a save that works");
        let full = |folder: &Path| {
            write(folder)?;
            Err(TrainError::io(folder, "write")(
                std::io::ErrorKind::StorageFull.into(),
            ))
        };
        let error = folder
            .add("step-00000002", 1, None, full)
            .expect_err("a full disk");
        assert!(
            error
                .to_string()
                .contains("step-00000002.unfinished: can't write"),
            "{error}"
        );
        assert_eq!(folder.newest().expect("latest.json"), Some(good));
        assert_eq!(names(temporary.path()), ["step-00000001"]);
    }

    #[test]
    fn the_newest_and_the_best_stay() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        for (step, val_loss) in [(1, 3.0), (2, 2.0), (3, 5.0), (4, 4.0)] {
            let saved = folder.add(&step_name(step, 0), 1, Some(val_loss), write);
            saved.expect("a save that works");
        }
        assert_eq!(names(temporary.path()), ["step-00000002", "step-00000004"]);
        let best = folder.best().expect("latest.json").expect("a best one");
        assert!(
            best.0.ends_with("step-00000002") && best.1 == 2.0,
            "{best:?}"
        );
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
        for step in [5, 6, 7] {
            let saved = folder.add(&step_name(step, 0), 1, None, write);
            // A note in a checkpoint makes it the user's.
            let saved = saved.expect("a save that works");
            if step == 5 {
                fs::write(saved.join("notes.txt"), "good one").expect("a file");
            }
        }
        drop(folder);
        RunFolder::open(&temporary).expect("the same folder");
        for path in foreign.iter().chain(&["step-00000005/notes.txt"]) {
            assert!(checkpoints.join(path).exists(), "{path}");
        }
        assert!(!checkpoints.join(".step-00000003.unfinished").exists());
        assert!(!checkpoints.join("step-00000006").exists());
    }

    #[test]
    fn an_older_checkpoint_that_a_kill_left_goes_at_the_next_start_and_a_newer_one_stays() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        for step in [1, 2, 3] {
            let saved = folder.add(&step_name(step, 0), 3, None, write);
            saved.expect("a save that works");
        }
        drop(folder);
        let latest = br#"{"checkpoints": ["step-00000002"]}"#;
        fs::write(temporary.path().join(LATEST), latest).expect("a file");
        RunFolder::open(&temporary).expect("the same folder");
        assert_eq!(names(temporary.path()), ["step-00000002", "step-00000003"]);
    }

    #[test]
    fn not_knowing_is_no_licence_to_delete() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = RunFolder::open(&temporary).expect("a new folder");
        let saved = folder.add("step-00000001", 1, None, write);
        let manifest = saved.expect("a save that works").join(MANIFEST_FILE);
        drop(folder);
        fs::remove_file(&manifest).expect("deleted");
        fs::create_dir(&manifest).expect("a folder in its place");
        let folder = RunFolder::open(&temporary).expect("the same folder");
        let saved = folder.add("step-00000002", 1, None, write);
        saved.expect("a save that works");
        assert_eq!(names(temporary.path()), ["step-00000001", "step-00000002"]);
    }
}
