//! manifest.json: what a checkpoint is (its step, its validation loss, the number of its save), and
//! every file of it with length and SHA-256; written when all of them are on the disk.
//!
//! A folder without one is no checkpoint.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use atomic_file::{open_file, read_small_file, write_atomically};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::TrainError;

/// The manifest's name in a checkpoint's folder.
pub const MANIFEST_FILE: &str = "manifest.json";

/// The most bytes of a manifest, and of a state.
const MOST_BYTES: u64 = 16 << 20;

/// The version of a checkpoint's files that this crate writes and reads.
pub(crate) const VERSION: u32 = 2;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    version: u32,
    pub(crate) save: Save,
    files: BTreeMap<String, FileEntry>,
}

/// Which of a run's checkpoints it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Save {
    /// The number of this save among those of the run, from 1: the newest has the highest.
    pub(crate) number: u64,
    /// Optimizer steps so far.
    pub(crate) step: u64,
    /// Batches accumulated since the last of them.
    pub(crate) batch: u64,
    /// The validation loss, if the run was validated when it was saved.
    pub(crate) val_loss: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    bytes: u64,
    sha256: String,
}

/// The field that every version of a manifest has.
#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
}

impl Save {
    /// The name of its folder: `step-00000120`, or `step-00000120-batch-3` within a step.
    pub(crate) fn name(&self) -> String {
        match self.batch {
            0 => format!("step-{:08}", self.step),
            batch => format!("step-{:08}-batch-{batch}", self.step),
        }
    }

    /// True if a folder's name is its own, or that of a later save of the same step:
    /// `step-00000120.2`.
    pub(crate) fn is_named(&self, folder: &str) -> bool {
        let digits = |n: &str| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit());
        let copy = folder.strip_prefix(&self.name());
        copy.is_some_and(|copy| copy.is_empty() || copy.strip_prefix('.').is_some_and(digits))
    }
}

impl Manifest {
    /// The manifest of all files in `folder`.
    pub(crate) fn of(folder: &Path, save: Save) -> Result<Self, TrainError> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(folder).map_err(TrainError::io(folder, "read"))? {
            let entry = entry.map_err(TrainError::io(folder, "read"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.insert(name, FileEntry::of(&entry.path())?);
        }
        Ok(Self {
            version: VERSION,
            save,
            files,
        })
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), TrainError> {
        write_json(&folder.join(MANIFEST_FILE), self)
    }

    pub(crate) fn read(folder: &Path) -> Result<Self, TrainError> {
        let path = folder.join(MANIFEST_FILE);
        let version = read_json::<AnyVersion>(&path)?.version;
        if version != VERSION {
            let problem = format!(
                "version {version}, this program reads version {VERSION}: the run can't be resumed, \
                but its model/ can be used, to generate, to eval, and to train with --init-from"
            );
            return Err(TrainError::damaged(path, problem));
        }
        let manifest: Self = read_json(&path)?;
        let is_name = |name: &String| Path::new(name).file_name() == Some(OsStr::new(name));
        match manifest.files.keys().all(is_name) {
            true => Ok(manifest),
            false => Err(TrainError::damaged(
                path,
                "it names a file of another folder",
            )),
        }
    }

    /// True if the file is one of the checkpoint's.
    pub(crate) fn names(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// Checks that the manifest names each of `files`.
    pub(crate) fn require(&self, folder: &Path, files: &[&'static str]) -> Result<(), TrainError> {
        match files.iter().find(|&&file| !self.names(file)) {
            None => Ok(()),
            Some(file) => {
                let path = folder.join(MANIFEST_FILE);
                Err(TrainError::damaged(
                    path,
                    format!("it does not name {file}"),
                ))
            }
        }
    }

    /// Checks that all files are there, each as long as it was.
    pub(crate) fn check_lengths(&self, folder: &Path) -> Result<(), TrainError> {
        for (name, expected) in &self.files {
            let path = folder.join(name);
            let (_, found) = open_file(&path)?;
            if found != expected.bytes {
                let bytes = expected.bytes;
                let problem = format!("the manifest says {bytes} bytes, but the file has {found}");
                return Err(TrainError::damaged(path, problem));
            }
        }
        Ok(())
    }

    /// Checks that the files of these names are as they were written.
    pub(crate) fn verify(
        &self,
        folder: &Path,
        which: impl Fn(&str) -> bool,
    ) -> Result<(), TrainError> {
        self.check_lengths(folder)?;
        for (name, expected) in self.files.iter().filter(|(name, _)| which(name)) {
            let path = folder.join(name);
            let (expected, found) = (&expected.sha256, FileEntry::of(&path)?.sha256);
            if found != *expected {
                let problem =
                    format!("the manifest says SHA-256 {expected}, but the file's is {found}");
                return Err(TrainError::damaged(path, problem));
            }
        }
        Ok(())
    }
}

impl FileEntry {
    fn of(path: &Path) -> Result<Self, TrainError> {
        let (mut file, _) = open_file(path)?;
        let (mut hasher, mut bytes) = (Sha256::new(), 0);
        let mut buffer = vec![0; 1 << 20];
        loop {
            let n = file
                .read(&mut buffer)
                .map_err(TrainError::io(path, "read"))?;
            if n == 0 {
                break;
            }
            hasher.update(&buffer[..n]);
            bytes += n as u64;
        }
        Ok(Self {
            bytes,
            sha256: hex(&hasher.finalize()),
        })
    }
}

/// Writes a value as JSON, so that a crash leaves the old file or the new one.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TrainError> {
    let text = serde_json::to_vec_pretty(value).map_err(TrainError::json(path))?;
    Ok(write_atomically(path, |file| file.write_all(&text))?)
}

/// Reads the JSON of a checkpoint.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TrainError> {
    let text = read_small_file(path, MOST_BYTES)?;
    serde_json::from_slice(&text).map_err(TrainError::json(path))
}

/// The SHA-256 of numbers, one slice after the other.
pub(crate) fn hash_of_numbers<'a>(slices: impl Iterator<Item = &'a [f32]>) -> String {
    let mut hasher = Sha256::new();
    for numbers in slices {
        hasher.update(bytemuck::cast_slice::<f32, u8>(numbers));
    }
    hex(&hasher.finalize())
}

/// A SHA-256 in hexadecimal digits, as a checkpoint's manifest has it.
///
/// ```
/// assert!(train::runs::sha256(b"abc").starts_with("ba7816bf"));
/// ```
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_by_its_step_and_its_copy() {
        let save = |step, batch| Save {
            number: 1,
            step,
            batch,
            val_loss: None,
        };
        for (save, name) in [
            (save(120, 0), "step-00000120"),
            (save(120, 0), "step-00000120.2"),
            (save(120, 3), "step-00000120-batch-3"),
            (save(100_000_000, 0), "step-100000000"),
        ] {
            assert!(save.is_named(name), "{name}");
        }
        for other in [
            "step-00000121",
            "step-00000120-batch-3",
            "step-00000120.",
            "step-00000120.+2",
            "step-00000120-good",
        ] {
            assert!(!save(120, 0).is_named(other), "{other}");
        }
    }
}
