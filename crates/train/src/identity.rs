//! The identity of a run and its owner: which run a folder belongs to, and which process writes
//! there.
//!
//! A run is identified by a random id, which is stored in its folder (`run.json` and `.lock`) and
//! in each checkpoint. The process that opens the folder writes a token of its own to `run.json`
//! and looks for it there before each write. If somebody deletes the lock and starts a second
//! process, or replaces the folder, the first process finds another token and ends.
//! Neither paths nor inode numbers nor times identify a run, because copies, renames and network
//! file systems change them.

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

/// The file that a run locks, by its name in the run's folder.
pub const LOCK: &str = ".lock";

/// The file with the id and the owner of a run, by its name in the run's folder.
pub const RUN_FILE: &str = "run.json";

/// The most bytes of either file.
const MAX_BYTES: u64 = 1 << 12;

/// The contents of a lock. It stays behind if a user copies `RUN/*` over another run.
#[derive(Serialize, Deserialize)]
struct LockFile {
    run: String,
}

/// The contents of [`RUN_FILE`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunFile {
    /// The run's id.
    pub(crate) run: String,
    /// The token of the process that opened the folder last.
    owner: String,
    /// The name of the folder when it was opened: a copy has another name.
    folder: String,
}

impl RunFile {
    /// Reads it; `None` if it is missing or is somebody else's.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        read(&folder.join(RUN_FILE))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&read_small_file(path, MAX_BYTES).ok()?).ok()
}

/// Returns the id in a folder's lock.
pub(crate) fn of_lock(folder: &Path) -> Option<String> {
    Some(read::<LockFile>(&folder.join(LOCK))?.run)
}

/// Returns the id of the run in a folder, and whether the folder still has the name under which it
/// was opened last: a copy has another one. Returns `None` if the folder isn't a run's.
pub fn run_id(folder: impl AsRef<Path>) -> Option<(String, bool)> {
    let file = RunFile::read(folder.as_ref())?;
    Some((file.run, file.folder == name_of(folder.as_ref())))
}

/// The name of a folder, without links.
fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize();
    let whole = whole.as_deref().unwrap_or(folder);
    let name = whole.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A run's folder that this process owns.
#[derive(Debug)]
pub(crate) struct Owned {
    /// It is locked where the file system has locks.
    _lock: File,
    owner: String,
    /// The run's id.
    pub(crate) run: String,
}

impl Owned {
    /// Locks a folder and becomes its owner; `found` returns the id of the run in it, if there is
    /// one.
    ///
    /// # Errors
    /// [`TrainError::Locked`]; [`TrainError::Damaged`] if the folder contains the files of two
    /// runs; the operating system's refusal.
    pub(crate) fn new(
        folder: &Path,
        found: impl FnOnce() -> Result<Option<String>, TrainError>,
    ) -> Result<Self, TrainError> {
        let (path, file) = (folder.join(LOCK), folder.join(RUN_FILE));
        let (before, name) = (RunFile::read(folder), name_of(folder));
        if before.is_none() && !is_gone(&file) {
            let problem =
                "not the file of a run; move it, because a run writes a file of this name";
            return Err(TrainError::damaged(file, problem));
        }
        let write_lock = |out: &mut dyn Write, run: String| {
            let bytes = serde_json::to_vec(&LockFile { run }).expect("plain data is JSON");
            out.write_all(&bytes)
        };
        if let (Some(before), Some(run)) = (&before, of_lock(folder))
            && before.folder != name
            && has_links(&path)
        {
            // The folder is a copy with hard links, whose lock is that of the original.
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
                "it belongs to the run {}, but the checkpoints belong to the run {run}: the files of \
                another run were copied over this one's; restore its run.json and options.toml to \
                resume it",
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

    /// Checks that this process still owns the folder at this path.
    ///
    /// # Errors
    /// [`TrainError::FolderLost`], or the operating system's refusal to read [`RUN_FILE`].
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

/// An id that no other folder, process or moment has.
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

/// True if a file has several names.
#[cfg(unix)]
fn has_links(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).is_ok_and(|found| found.nlink() > 1)
}

/// True if a file has several names, which std doesn't expose here.
#[cfg(not(unix))]
fn has_links(_path: &Path) -> bool {
    false
}
