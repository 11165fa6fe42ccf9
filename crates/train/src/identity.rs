//! Records which run a folder belongs to, and which process may write to the folder.
//!
//! Each run is identified by a random ID, which is stored in the run's folder (in `run.json` and
//! `.lock`) and in each checkpoint. When a process opens the folder, it writes a random token to
//! `run.json`, which makes the process the owner of the folder. Before each later write, the
//! process checks that `run.json` still contains its token. For example, if a user deletes the lock
//! file and starts a second process, the second process writes its own token to `run.json`. The
//! first process then finds this token before its next write and ends.
//!
//! Paths, inode numbers and timestamps aren't used to identify a run. They can change when the
//! run's folder is copied or renamed, and they aren't always reliable on network file systems.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use atomic_file::{Lock, append, read_small_file, write_atomically};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::manifest::{is_gone, sha256, write_json};

/// Name of the lock file in the folder of a run.
pub const LOCK: &str = ".lock";

/// Name of the file in a run's folder that contains the ID of the run and the token of the process
/// that owns the folder.
pub const RUN_FILE: &str = "run.json";

/// Maximum size in bytes of the files [`LOCK`] and [`RUN_FILE`]. A larger file is treated as
/// unreadable.
const MAX_BYTES: u64 = 1 << 12;

/// The contents of the file [`LOCK`] in the folder of a run. The ID of the run is stored both in
/// this file and in [`RUN_FILE`] to detect when a user has copied the files of another run into the
/// folder. The shell pattern `RUN/*` matches [`RUN_FILE`] but not [`LOCK`], whose name starts with
/// a dot, so `cp` replaces only [`RUN_FILE`].
#[derive(Serialize, Deserialize)]
struct LockFile {
    run: String,
}

/// The contents of the file [`RUN_FILE`] in the folder of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunFile {
    /// ID of the run.
    pub(crate) run: String,
    /// Random token of the process that most recently opened the folder.
    owner: String,
    /// Name that the folder had when it was last opened. If its current name is different, the
    /// folder was copied or renamed in the meantime.
    folder: String,
}

impl RunFile {
    /// Reads the file [`RUN_FILE`] in a folder. Returns `None` if the file can't be read or doesn't
    /// have the expected format.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        read(&folder.join(RUN_FILE))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&read_small_file(path, MAX_BYTES).ok()?).ok()
}

/// Returns the ID of the run that is stored in the file [`LOCK`] in a folder, or `None` if the file
/// can't be read.
pub(crate) fn of_lock(folder: &Path) -> Option<String> {
    Some(read::<LockFile>(&folder.join(LOCK))?.run)
}

/// Returns the ID of the run to which a folder belongs, and whether the folder still has the name
/// that it had when it was last opened. A different name means that the folder was copied or
/// renamed. Returns `None` if the folder doesn't belong to a run.
pub fn run_id(folder: impl AsRef<Path>) -> Option<(String, bool)> {
    let file = RunFile::read(folder.as_ref())?;
    Some((file.run, file.folder == name_of(folder.as_ref())))
}

/// Returns the last component of a folder's path after symbolic links have been resolved.
fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize();
    let whole = whole.as_deref().unwrap_or(folder);
    let name = whole.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A run's folder that this process owns.
#[derive(Debug)]
pub(crate) struct Owned {
    /// Lock file of the folder. The lock is held until this file is closed. If the file system
    /// doesn't support locks, the file is open but not locked.
    _lock: File,
    owner: String,
    /// ID of the run.
    pub(crate) run: String,
}

impl Owned {
    /// Locks a folder and makes this process its owner. The closure `found` returns the ID of the
    /// run to which the checkpoints in the folder belong, or `None` if the folder contains no
    /// checkpoints.
    ///
    /// # Errors
    ///
    /// Returns [`TrainError::Locked`] if another process has locked the folder. Returns
    /// [`TrainError::Damaged`] if the folder contains files of two different runs, or if its
    /// [`RUN_FILE`] wasn't written by this program. Also returns an error if `found` fails or if a
    /// file can't be read or written.
    pub(crate) fn new(
        folder: &Path,
        found: impl FnOnce() -> Result<Option<String>, TrainError>,
    ) -> Result<Self, TrainError> {
        let (path, file) = (folder.join(LOCK), folder.join(RUN_FILE));
        let (before, name) = (RunFile::read(folder), name_of(folder));
        if before.is_none() && !is_gone(&file) {
            let problem = "this file doesn't belong to a run; move or rename it, because a run must use this file name";
            return Err(TrainError::damaged(file, problem));
        }
        let write_lock = |out: &mut dyn Write, run: String| {
            let bytes = serde_json::to_vec(&LockFile { run }).expect("plain data is valid JSON");
            out.write_all(&bytes)
        };
        if let (Some(before), Some(run)) = (&before, of_lock(folder))
            && before.folder != name
            && has_links(&path)
        {
            // The folder was copied with hard links, so it shares its lock file with the original
            // folder. Replacing the link with a new lock file separates the two folders.
            write_atomically(&path, |out| write_lock(out, run))?;
        }
        let mut lock = append(&path)?;
        match Lock::take(&lock).map_err(TrainError::io(&path, "lock"))? {
            Lock::Held | Lock::Unsupported => {}
            Lock::HeldByAnother => {
                let path = folder.to_owned();
                return Err(TrainError::Locked { path });
            }
        }
        let run = found()?.unwrap_or_else(|| random_id(folder));
        if let Some(other) = before.filter(|before| before.run != run) {
            let problem = format!(
                "this file belongs to the run {}, but the checkpoints belong to the run {run}, which \
                means that the files of another run were copied into this folder; to resume the run, restore its \
                own run.json and options.toml",
                other.run
            );
            return Err(TrainError::damaged(file, problem));
        }
        if of_lock(folder).as_ref() != Some(&run) {
            let written = lock.set_len(0);
            let written = written.and_then(|()| write_lock(&mut lock, run.clone()));
            written.map_err(TrainError::io(&path, "write"))?;
        }
        let owned = RunFile {
            run,
            owner: random_id(folder),
            folder: name,
        };
        write_json(&file, &owned)?;
        Ok(Self {
            _lock: lock,
            owner: owned.owner,
            run: owned.run,
        })
    }

    /// Checks that this process still owns the folder.
    ///
    /// # Errors
    ///
    /// Returns [`TrainError::FolderLost`] if the folder no longer exists or another process has
    /// become its owner. Also returns an error if [`RUN_FILE`] can't be read.
    pub(crate) fn check(&self, folder: &Path) -> Result<(), TrainError> {
        let file = folder.join(RUN_FILE);
        let lost = TrainError::FolderLost {
            path: folder.to_owned(),
        };
        if is_gone(&file) {
            return Err(lost);
        }
        let found = serde_json::from_slice(&read_small_file(file, MAX_BYTES)?);
        match found {
            Ok(RunFile { owner, .. }) if owner == self.owner => Ok(()),
            _ => Err(lost),
        }
    }
}

/// Returns a new ID, which is the truncated hash of the current time, the process ID, the number of
/// earlier calls, and the path of the folder. Two calls therefore don't return the same ID, even in
/// different processes.
fn random_id(folder: &Path) -> String {
    static IDS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = now.map_or(0, |now| now.as_nanos());
    let count = IDS.fetch_add(1, Ordering::Relaxed);
    let process = process::id();
    let mut id = sha256(format!("{nanoseconds} {process} {count} {folder:?}"));
    id.truncate(32);
    id
}

/// Returns whether more than one hard link refers to a file.
#[cfg(unix)]
fn has_links(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).is_ok_and(|found| found.nlink() > 1)
}

/// Returns whether a file has more than one hard link, which shows that its folder was copied with
/// hard links. On this operating system, the standard library can't count hard links, so the result
/// is always false.
#[cfg(not(unix))]
fn has_links(_path: &Path) -> bool {
    false
}
