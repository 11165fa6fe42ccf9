//! Reading and writing the file manifest.json of a checkpoint. The manifest contains the ID of the
//! run, the save number, the number of optimizer steps, the validation loss, and the length and the
//! SHA-256 hash of each other file. It is written after all other files have been stored on disk.
//!
//! A folder without a manifest isn't treated as a checkpoint.

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

/// Maximum size in bytes of the files manifest.json and state.json.
const MAX_BYTES: u64 = 16 << 20;

/// Exclusive upper limit for the save number of a checkpoint and for its number of optimizer steps.
/// A manifest in which one of these numbers reaches the limit is rejected as damaged. The limit
/// ensures that incrementing the numbers can't overflow.
const MAX_SAVES: u64 = 1 << 53;

/// Name of the file in a checkpoint that contains the optimizer's moments.
pub(crate) const OPTIMIZER: &str = "optimizer.safetensors";
/// Name of the file in a checkpoint that contains the training state, except for the weights and
/// the moments.
pub(crate) const STATE: &str = "state.json";

/// Names of the files that every checkpoint must contain, in addition to its manifest.
pub(crate) const FILES: [&str; 4] = [CONFIG, WEIGHTS, OPTIMIZER, STATE];

/// Returns whether users may edit this file of a checkpoint. This applies to chat templates and
/// generation settings, because changing them changes neither the model nor the training.
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
    /// Serial number of this checkpoint. The first checkpoint of a training run has the number 1,
    /// and each later checkpoint has a higher number, so the newest checkpoint can be found even if
    /// the run was resumed from an earlier step.
    pub(crate) number: u64,
    /// Number of optimizer steps in the checkpoint.
    pub(crate) step: u64,
    /// Validation loss of the model, or `None` if the validation loss wasn't computed.
    pub(crate) val_loss: Option<f64>,
    files: BTreeMap<String, FileEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    bytes: u64,
    sha256: String,
}

/// The version number of a manifest. It can be read from a manifest of any version, because all
/// versions store it under the same name.
#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
}

/// Returns whether nothing exists at this path. A symbolic link counts as existing even if its
/// target is missing.
pub(crate) fn is_gone(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let found = fs::symlink_metadata(path);
    found.is_err_and(|error| [NotFound, NotADirectory].contains(&error.kind()))
}

impl Manifest {
    /// Writes a manifest that lists all files in `folder`. Afterwards, the folder is a complete
    /// checkpoint.
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

    /// Reads the manifest of a checkpoint and checks that all files that it lists exist and have
    /// the right lengths. This is fast, because no hashes are computed. Files that users may edit
    /// aren't checked.
    ///
    /// # Errors
    ///
    /// Returns [`TrainError::NoCheckpoint`] if the folder doesn't contain a manifest. Also returns
    /// an error if the manifest isn't valid, or if a file that it lists can't be read or has the
    /// wrong length.
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
            let problem = "the manifest contains the path of a file in another folder; restore manifest.json from a backup";
            return Err(TrainError::damaged(path, problem));
        }
        if !(1..MAX_SAVES).contains(&manifest.number) || manifest.step >= MAX_SAVES {
            let (number, step) = (manifest.number, manifest.step);
            let problem = format!(
                "the manifest contains the save number {number} and the step {step}, but the save number must \
                be at least 1, and both must be less than {MAX_SAVES}; restore manifest.json from a backup"
            );
            return Err(TrainError::damaged(path, problem));
        }
        if manifest.val_loss.is_some_and(|loss| !loss.is_finite()) {
            return Err(TrainError::damaged(
                path,
                "the validation loss isn't finite; restore manifest.json from a backup",
            ));
        }
        let mut always = FILES.into_iter();
        if let Some(file) = always.find(|file| !manifest.names(file)) {
            let problem = format!(
                "the manifest doesn't list the file {file}; restore manifest.json from a backup"
            );
            return Err(TrainError::damaged(path, problem));
        }
        let fixed = manifest.files.iter().filter(|(name, _)| !is_editable(name));
        for (name, FileEntry { bytes, .. }) in fixed {
            let path = folder.join(name);
            let (_, found) = open_file(&path)?;
            if found != *bytes {
                let problem = format!(
                    "the file has {found} bytes, but according to the manifest, it should have {bytes} bytes"
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

    /// Returns whether `folder` is one of the two possible names of this checkpoint's folder. The
    /// usual name contains only the number of steps. If that name already existed when the
    /// checkpoint was saved, the name also contains the save number.
    pub(crate) fn is_in(&self, folder: &str) -> bool {
        let name = Self::folder_name(self.step);
        folder == name || folder == format!("{name}.{}", self.number)
    }

    /// Returns whether the manifest lists this file.
    pub(crate) fn names(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// Returns whether everything at `path` belongs to the checkpoint. This is true for the
    /// manifest, for a file that the manifest lists, and for a subfolder that isn't empty and
    /// contains only files that the manifest lists.
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

    /// Checks that the hashes of some files match the manifest. The closure `which` receives the
    /// name of each file in the manifest and returns whether to check this file.
    ///
    /// # Errors
    ///
    /// Returns an error that contains the path of a file if its hash doesn't match the manifest or
    /// if it can't be read.
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
                    "the SHA-256 hash of the file is {found}, but the manifest contains the hash {expected}"
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

/// Returns the names of all files in a folder and its subfolders. The name of a file in a subfolder
/// has the form `subfolder/file`.
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

/// Returns whether a name in a manifest has the form `file` or `subfolder/file`. Other names are
/// rejected, because they may refer to files outside the folder of the checkpoint.
fn is_inside(name: &str) -> bool {
    let is_name = |part: &str| Path::new(part).file_name() == Some(OsStr::new(part));
    match name.split_once('/') {
        Some((folder, file)) => is_name(folder) && is_name(file) && !file.contains('/'),
        None => is_name(name),
    }
}

/// Writes a value to a JSON file. The file is replaced atomically, so if the process crashes, the
/// file contains either the old value or the new value.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TrainError> {
    let text = serde_json::to_vec_pretty(value).map_err(TrainError::json(path))?;
    Ok(write_atomically(path, |file| file.write_all(&text))?)
}

/// Reads the value in a JSON file of a checkpoint.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TrainError> {
    let text = read_small_file(path, MAX_BYTES)?;
    serde_json::from_slice(&text).map_err(TrainError::json(path))
}

/// Returns the SHA-256 hash of `bytes` as lowercase hexadecimal digits, the format in which a
/// manifest contains the hashes of files.
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
