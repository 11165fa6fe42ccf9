//! The file manifest.json of a checkpoint, which contains the ID of the run, the number of the
//! save, the step, the validation loss, and the length and SHA-256 of each other file. It is
//! written last, after all other files have been stored on disk.
//!
//! A folder without a manifest isn't a checkpoint.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use atomic_file::{is_system_file, names_in, open_file, read_small_file, write_atomically};
use checkpoint::{CONFIG, GENERATION_CONFIG, WEIGHTS};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::TrainError;
use crate::hex::hex;

/// Name of the manifest in the folder of a checkpoint.
pub(crate) const MANIFEST_FILE: &str = "manifest.json";

/// Maximum size of manifest.json and of state.json in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Exclusive upper limit for the number of a save and for the number of steps. A manifest that
/// reaches this limit is damaged. Because of the limit, both numbers can always be incremented.
const MAX_SAVES: u64 = 1 << 53;

/// Name of the file that contains the optimizer's moments in a checkpoint.
pub(crate) const OPTIMIZER: &str = "optimizer.safetensors";
/// Name of the file that contains all other values of the training state in a checkpoint.
pub(crate) const STATE: &str = "state.json";

/// Files that every checkpoint has, in addition to its manifest.
pub(crate) const FILES: [&str; 4] = [CONFIG, WEIGHTS, OPTIMIZER, STATE];

/// Returns true if users may edit this file in a checkpoint. Such a file contains a chat template
/// or generation settings, but no part of the model.
pub(crate) fn is_editable(file: &str) -> bool {
    file == GENERATION_CONFIG || file == "chat_template.json" || file.ends_with(".jinja")
}

/// Version of the checkpoint format. This crate writes and reads only this version.
const VERSION: u32 = 5;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    version: u32,
    /// ID of the run that saved the checkpoint.
    pub(crate) run: String,
    /// Number of the save. The first save of a run has number 1, and the newest checkpoint has the
    /// highest number.
    pub(crate) number: u64,
    /// Number of optimizer steps in the checkpoint.
    pub(crate) step: u64,
    /// Validation loss of the model, or `None` if it wasn't evaluated.
    pub(crate) val_loss: Option<f64>,
    files: BTreeMap<String, FileEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    bytes: u64,
    sha256: String,
}

/// The version number in a manifest, which has the same place in all versions of the format.
#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
}

/// Returns true if nothing exists at this path. A symbolic link exists even if its target is
/// missing.
pub(crate) fn is_gone(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let found = fs::symlink_metadata(path);
    found.is_err_and(|error| [NotFound, NotADirectory].contains(&error.kind()))
}

impl Manifest {
    /// Writes a manifest of all files in `folder`, which makes the folder a checkpoint.
    pub(crate) fn write(
        folder: &Path,
        run: &str,
        number: u64,
        step: u64,
        val_loss: Option<f64>,
    ) -> Result<(), TrainError> {
        let mut files = BTreeMap::new();
        for name in files_below(folder)? {
            let entry = FileEntry::of(&folder.join(&name))?;
            files.insert(name, entry);
        }
        let manifest = Self {
            version: VERSION,
            run: run.to_owned(),
            number,
            step,
            val_loss,
            files,
        };
        write_json(&folder.join(MANIFEST_FILE), &manifest)
    }

    /// Reads the manifest of a checkpoint and checks that all files exist and have the right
    /// lengths. Files that users may edit aren't checked, and hashes aren't computed.
    ///
    /// # Errors
    ///
    /// Returns [`TrainError::NoCheckpoint`] if there is no manifest. Also returns an error if the
    /// manifest isn't valid, or if a file can't be read or doesn't match the manifest.
    pub(crate) fn read(folder: &Path) -> Result<Self, TrainError> {
        let path = folder.join(MANIFEST_FILE);
        if is_gone(&path) {
            let path = folder.to_owned();
            return Err(TrainError::NoCheckpoint { path });
        }
        let version = read_json::<AnyVersion>(&path)?.version;
        if version != VERSION {
            let problem = format!(
                "another version of this program saved this checkpoint in format {version}, but \
                this version reads only format {VERSION}; use the version that saved it, or train again"
            );
            return Err(TrainError::damaged(path, problem));
        }
        let manifest: Self = read_json(&path)?;
        if !manifest.files.keys().all(|name| is_inside(name)) {
            let problem = "the manifest contains the path of a file in another folder; restore it";
            return Err(TrainError::damaged(path, problem));
        }
        if !(1..MAX_SAVES).contains(&manifest.number) || manifest.step >= MAX_SAVES {
            let (number, step) = (manifest.number, manifest.step);
            let problem = format!(
                "the manifest contains the save number {number} and the step {step}, but the number must \
                be at least 1, and both must be less than {MAX_SAVES}; restore the manifest"
            );
            return Err(TrainError::damaged(path, problem));
        }
        if manifest.val_loss.is_some_and(|loss| !loss.is_finite()) {
            return Err(TrainError::damaged(
                path,
                "the validation loss isn't finite; restore the manifest",
            ));
        }
        let mut always = FILES.into_iter();
        if let Some(file) = always.find(|file| !manifest.names(file)) {
            let problem = format!("the manifest doesn't contain {file}; restore the manifest");
            return Err(TrainError::damaged(path, problem));
        }
        let fixed = manifest.files.iter().filter(|(name, _)| !is_editable(name));
        for (name, FileEntry { bytes, .. }) in fixed {
            let path = folder.join(name);
            let (_, found) = open_file(&path)?;
            if found != *bytes {
                let problem = format!(
                    "the file has {found} bytes, but according to the manifest, it has {bytes}"
                );
                return Err(TrainError::damaged(path, problem));
            }
        }
        Ok(manifest)
    }

    /// Returns the name of a checkpoint's folder, such as `step-00000120`.
    pub(crate) fn folder_name(step: u64) -> String {
        format!("step-{step:08}")
    }

    /// Returns true if a folder with this name can contain this checkpoint. The name consists of
    /// the step and, if an earlier checkpoint has the same step, the number of the save.
    pub(crate) fn is_in(&self, folder: &str) -> bool {
        let name = Self::folder_name(self.step);
        folder == name || folder == format!("{name}.{}", self.number)
    }

    /// Returns true if the manifest contains this file.
    pub(crate) fn names(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// Returns true if `path` leads to a file of the checkpoint, or to a subfolder that contains
    /// only files of the checkpoint and isn't empty.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        let Some(name) = path.file_name().and_then(OsStr::to_str) else {
            return false;
        };
        if name == MANIFEST_FILE || self.names(name) {
            return true;
        }
        let inside = names_in(path).unwrap_or_default();
        let is_named = |file: &OsString| Some(self.names(&format!("{name}/{}", file.to_str()?)));
        !inside.is_empty() && inside.iter().all(|file| is_named(file) == Some(true))
    }

    /// Checks that the hashes of files match the manifest. Only the files for whose names `which`
    /// returns true are read.
    ///
    /// # Errors
    ///
    /// Returns an error that contains the path of the first file that doesn't match, or an error if
    /// a file can't be read.
    pub(crate) fn verify(
        &self,
        folder: &Path,
        which: impl Fn(&str) -> bool,
    ) -> Result<(), TrainError> {
        for (name, expected) in self.files.iter().filter(|(name, _)| which(name)) {
            let path = folder.join(name);
            let (expected, found) = (&expected.sha256, FileEntry::of(&path)?.sha256);
            if found != *expected {
                let problem = format!(
                    "the SHA-256 hash of the file is {found}, but in the manifest, it is {expected}"
                );
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
            let read = file.read(&mut buffer);
            let n = read.map_err(TrainError::io(path, "read"))?;
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

/// Returns the names of the files in a folder. The files of its subfolders are included in the form
/// `folder/file`.
fn files_below(folder: &Path) -> Result<Vec<String>, TrainError> {
    let names = |folder: &Path| -> Result<Vec<String>, TrainError> {
        let names = names_in(folder)?.into_iter();
        let names = names.filter(|name| !is_system_file(name));
        Ok(names.filter_map(|name| name.into_string().ok()).collect())
    };
    let mut files = Vec::new();
    for name in names(folder)? {
        match folder.join(&name).is_dir() {
            true => {
                let inside = names(&folder.join(&name))?.into_iter();
                files.extend(inside.map(|file| format!("{name}/{file}")));
            }
            false => files.push(name),
        }
    }
    Ok(files)
}

/// Returns true if a name has the form `file` or `folder/file`, so that it can't lead out of the
/// folder of a checkpoint.
fn is_inside(name: &str) -> bool {
    let is_name = |part: &str| Path::new(part).file_name() == Some(OsStr::new(part));
    match name.split_once('/') {
        Some((folder, file)) => is_name(folder) && is_name(file) && !file.contains('/'),
        None => is_name(name),
    }
}

/// Writes a value to a JSON file. If the process crashes in the meantime, the file keeps its old
/// contents.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TrainError> {
    let text = serde_json::to_vec_pretty(value).map_err(TrainError::json(path))?;
    Ok(write_atomically(path, |file| file.write_all(&text))?)
}

/// Reads one of a checkpoint's JSON files.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TrainError> {
    let text = read_small_file(path, MAX_BYTES)?;
    serde_json::from_slice(&text).map_err(TrainError::json(path))
}

/// Returns the SHA-256 of some bytes as hexadecimal digits, as in the manifest of a checkpoint.
///
/// ```
/// assert!(train::runs::sha256(b"abc").starts_with("ba7816bf"));
/// ```
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_by_its_step_and_its_save() {
        let manifest = |step| Manifest {
            version: VERSION,
            run: "r".to_owned(),
            number: 7,
            step,
            val_loss: None,
            files: BTreeMap::new(),
        };
        for (step, name) in [
            (120, "step-00000120"),
            (120, "step-00000120.7"),
            (100_000_000, "step-100000000"),
        ] {
            assert!(manifest(step).is_in(name), "{name}");
        }
        for other in ["step-00000121", "step-00000120.2", "step-00000120-good"] {
            assert!(!manifest(120).is_in(other), "{other}");
        }
        for (name, inside) in [
            ("config.json", true),
            ("templates/a.jinja", true),
            ("../config.json", false),
            ("a/../b", false),
            ("a/b/c", false),
            ("/etc", false),
            ("", false),
        ] {
            assert_eq!(is_inside(name), inside, "{name}");
        }
    }
}
