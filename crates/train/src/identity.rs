//! A run's id and the identity of its folder, both in the file that a run locks.
//!
//! Each manifest contains the id, so that checkpoints of other runs are recognised. The folder's
//! identity distinguishes a hard-linked copy (`cp -al`), which shares the lock's file, from the
//! folder itself.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use atomic_file::{append, read_small_file, write_atomically};
use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::manifest::sha256;

/// The file that a run locks, by its name in the run's folder.
pub const LOCK: &str = ".lock";

/// The most bytes of a lock.
const MAX_BYTES: u64 = 1 << 12;

/// The contents of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    /// The run's id.
    run: String,
    /// The folder's device and number, where the system has them.
    folder: Option<[u64; 2]>,
}

impl Identity {
    /// Reads a folder's lock; `None` if it is missing or has other contents.
    fn read(folder: &Path) -> Option<Self> {
        let bytes = read_small_file(folder.join(LOCK), MAX_BYTES).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// The id in the lock of the run kept in `folder`.
pub(crate) fn of(folder: &Path) -> Option<String> {
    Identity::read(folder).map(|identity| identity.run)
}

/// A run's folder that this process has locked.
#[derive(Debug)]
pub(crate) struct Locked {
    lock: File,
    /// The folder's device and number.
    folder: Option<[u64; 2]>,
    /// The run's id.
    pub(crate) run: String,
}

impl Locked {
    /// Locks a folder; `found` is the id in its checkpoints, which counts if the lock has none.
    ///
    /// # Errors
    /// [`TrainError::Locked`], or the operating system's refusal.
    pub(crate) fn new(
        folder: &Path,
        found: impl FnOnce() -> Result<Option<String>, TrainError>,
    ) -> Result<Self, TrainError> {
        let path = folder.join(LOCK);
        let here = number_of(folder);
        let to_bytes =
            |identity: &Identity| serde_json::to_vec(identity).expect("plain data is JSON");
        if let Some(before) = Identity::read(folder)
            && before.folder != here
            && has_links(&path)
        {
            // It is the lock of the folder that this one is a hard-linked copy of.
            write_atomically(&path, |file| file.write_all(&to_bytes(&before)))?;
        }
        let mut lock = append(&path)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => TrainError::Locked {
                path: folder.to_owned(),
            },
            TryLockError::Error(error) => TrainError::io(&path, "lock")(error),
        })?;
        let before = Identity::read(folder);
        let run = match &before {
            Some(before) => before.run.clone(),
            None => found()?.unwrap_or_else(|| new_id(folder)),
        };
        let identity = Identity { run, folder: here };
        if before.as_ref() != Some(&identity) {
            let written = lock.set_len(0);
            let written = written.and_then(|()| lock.write_all(&to_bytes(&identity)));
            written.map_err(TrainError::io(&path, "write"))?;
        }
        Ok(Self {
            lock,
            folder: here,
            run: identity.run,
        })
    }

    /// True if `folder` is the one that was locked.
    ///
    /// # Errors
    /// If the system doesn't report it.
    pub(crate) fn is_at(&self, folder: &Path) -> io::Result<bool> {
        Ok(self.folder == number_of(folder) && is_same(&self.lock, &folder.join(LOCK))?)
    }
}

/// A new run's id: different for each folder, process and moment.
fn new_id(folder: &Path) -> String {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = now.map_or(0, |now| now.as_nanos());
    let count = RUNS.fetch_add(1, Ordering::Relaxed);
    let process = process::id();
    let mut id = sha256(format!("{nanoseconds} {process} {count} {folder:?}"));
    id.truncate(32);
    id
}

/// A folder's device and number.
#[cfg(unix)]
fn number_of(folder: &Path) -> Option<[u64; 2]> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(folder).ok()?;
    Some([found.dev(), found.ino()])
}

/// A folder's device and inode number, which std doesn't expose here.
#[cfg(not(unix))]
fn number_of(_folder: &Path) -> Option<[u64; 2]> {
    None
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

/// True if an open file is the one at `path`.
#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let [here, there] = [file.metadata()?, std::fs::metadata(path)?];
    Ok((here.dev(), here.ino()) == (there.dev(), there.ino()))
}

/// True if a file that this process has locked is the one at `path`: then that can't be locked.
#[cfg(not(unix))]
fn is_same(_locked: &File, path: &Path) -> io::Result<bool> {
    let there = File::open(path)?;
    Ok(matches!(there.try_lock(), Err(TryLockError::WouldBlock)))
}
