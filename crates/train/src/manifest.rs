//! manifest.json: every file of a checkpoint with its length and SHA-256, written when all of them
//! are on the disk.
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

/// The most bytes of a JSON file that lists names.
pub(crate) const MOST_LIST_BYTES: u64 = 16 << 20;

/// The version of manifest.json that this crate writes and reads.
const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    version: u32,
    files: BTreeMap<String, FileEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    bytes: u64,
    sha256: String,
}

impl Manifest {
    /// Of all files of `folder`.
    pub(crate) fn of(folder: &Path) -> Result<Self, TrainError> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(folder).map_err(TrainError::io(folder, "read"))? {
            let entry = entry.map_err(TrainError::io(folder, "read"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.insert(name, FileEntry::of(&entry.path())?);
        }
        Ok(Self {
            version: VERSION,
            files,
        })
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), TrainError> {
        write_json(&folder.join(MANIFEST_FILE), self)
    }

    pub(crate) fn read(folder: &Path) -> Result<Self, TrainError> {
        let path = folder.join(MANIFEST_FILE);
        let manifest: Self = read_json(&path, MOST_LIST_BYTES)?;
        let is_name = |name: &String| Path::new(name).file_name() == Some(OsStr::new(name));
        if manifest.version != VERSION {
            return Err(other_version(&path, manifest.version, VERSION));
        }
        match manifest.files.keys().all(is_name) {
            true => Ok(manifest),
            false => Err(TrainError::damaged(
                path,
                "it names a file of another folder",
            )),
        }
    }

    /// Whether the file is one of the checkpoint's.
    pub(crate) fn names(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// That the manifest names each of `files`.
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

    /// That all files are there, each as long as it was.
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

    /// That the files of these names are there as they were written.
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

/// A file of another version than this crate reads.
pub(crate) fn other_version(path: &Path, found: u32, expected: u32) -> TrainError {
    let problem = format!("version {found}, this program reads version {expected}");
    TrainError::damaged(path, problem)
}

/// Writes a value as JSON, so that a crash leaves the old file or the new one.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TrainError> {
    let text = serde_json::to_vec_pretty(value).map_err(TrainError::json(path))?;
    Ok(write_atomically(path, |file| file.write_all(&text))?)
}

/// Reads what [`write_json`] wrote, if it has no more bytes than `limit`.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, limit: u64) -> Result<T, TrainError> {
    let text = read_small_file(path, limit)?;
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
/// assert!(train::sha256(b"abc").starts_with("ba7816bf"));
/// ```
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
