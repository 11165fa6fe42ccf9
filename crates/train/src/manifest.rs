//! manifest.json: a checkpoint's run, step, validation loss and number, and every file of it with
//! length and SHA-256; written when all of them are on the disk.
//!
//! A folder without one isn't a checkpoint.

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

/// The manifest's name in a checkpoint's folder.
pub(crate) const MANIFEST_FILE: &str = "manifest.json";

/// The most bytes of a manifest, and of a state.
const MAX_BYTES: u64 = 16 << 20;

/// Saves and steps are numbered below this, so that a forged number leaves room for the next.
const MAX_SAVES: u64 = 1 << 53;

/// The names of a checkpoint's files beside the model's.
pub(crate) const OPTIMIZER: &str = "optimizer.safetensors";
pub(crate) const STATE: &str = "state.json";

/// The files that every checkpoint has besides its manifest.
pub(crate) const FILES: [&str; 4] = [CONFIG, WEIGHTS, OPTIMIZER, STATE];

/// True for a file that users may edit in a checkpoint, because it contains no part of the model:
/// settings for generating text, or a chat template.
pub(crate) fn is_editable(file: &str) -> bool {
    file == GENERATION_CONFIG || file == "chat_template.json" || file.ends_with(".jinja")
}

/// The version of a checkpoint's files that this crate writes and reads.
const VERSION: u32 = 5;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    version: u32,
    /// The id of the run that saved it.
    pub(crate) run: String,
    /// The number of this save in the run, from 1: the newest has the highest.
    pub(crate) number: u64,
    /// Optimizer steps so far.
    pub(crate) step: u64,
    /// The validation loss, if the run was validated when it was saved.
    pub(crate) val_loss: Option<f64>,
    files: BTreeMap<String, FileEntry>,
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

/// True if there is nothing of this name, not even a link to nothing.
pub(crate) fn is_gone(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let found = fs::symlink_metadata(path);
    found.is_err_and(|error| [NotFound, NotADirectory].contains(&error.kind()))
}

impl Manifest {
    /// Writes the manifest of all files in `folder`, which is a checkpoint from then on.
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

    /// Reads the manifest of a checkpoint that has all its files, each as long as it was, except
    /// those that users may edit; their contents are not read.
    ///
    /// # Errors
    /// [`TrainError::NoCheckpoint`] if there is none.
    pub(crate) fn read(folder: &Path) -> Result<Self, TrainError> {
        let path = folder.join(MANIFEST_FILE);
        if is_gone(&path) {
            let path = folder.to_owned();
            return Err(TrainError::NoCheckpoint { path });
        }
        let version = read_json::<AnyVersion>(&path)?.version;
        if version != VERSION {
            let problem = format!(
                "another version of this program saved this checkpoint (format {version}), and \
                this one reads only format {VERSION}; use that version, or train again"
            );
            return Err(TrainError::damaged(path, problem));
        }
        let manifest: Self = read_json(&path)?;
        if !manifest.files.keys().all(|name| is_inside(name)) {
            let problem = "it names a file of another folder";
            return Err(TrainError::damaged(path, problem));
        }
        if !(1..MAX_SAVES).contains(&manifest.number) || manifest.step >= MAX_SAVES {
            let (number, step) = (manifest.number, manifest.step);
            let problem = format!("save {number} of step {step}, which no run can reach");
            return Err(TrainError::damaged(path, problem));
        }
        if manifest.val_loss.is_some_and(|loss| !loss.is_finite()) {
            return Err(TrainError::damaged(
                path,
                "the validation loss is not finite",
            ));
        }
        let mut always = FILES.into_iter();
        if let Some(file) = always.find(|file| !manifest.names(file)) {
            let problem = format!("it does not name {file}");
            return Err(TrainError::damaged(path, problem));
        }
        let fixed = manifest.files.iter().filter(|(name, _)| !is_editable(name));
        for (name, FileEntry { bytes, .. }) in fixed {
            let path = folder.join(name);
            let (_, found) = open_file(&path)?;
            if found != *bytes {
                let problem =
                    format!("the manifest declares {bytes} bytes, but the file has {found}");
                return Err(TrainError::damaged(path, problem));
            }
        }
        Ok(manifest)
    }

    /// The name of the checkpoint's folder: `step-00000120`.
    pub(crate) fn folder_name(step: u64) -> String {
        format!("step-{step:08}")
    }

    /// True if a folder's name is this checkpoint's: its step, and the number of its save if an
    /// earlier checkpoint has the same step.
    pub(crate) fn is_in(&self, folder: &str) -> bool {
        let name = Self::folder_name(self.step);
        folder == name || folder == format!("{name}.{}", self.number)
    }

    /// True if the file is one of the checkpoint's.
    pub(crate) fn names(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// True if a file in the checkpoint's folder, or all files of a folder in it, are the
    /// checkpoint's.
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

    /// Checks that the files of these names are as they were written.
    pub(crate) fn verify(
        &self,
        folder: &Path,
        which: impl Fn(&str) -> bool,
    ) -> Result<(), TrainError> {
        for (name, expected) in self.files.iter().filter(|(name, _)| which(name)) {
            let path = folder.join(name);
            let (expected, found) = (&expected.sha256, FileEntry::of(&path)?.sha256);
            if found != *expected {
                let problem =
                    format!("the manifest declares SHA-256 {expected}, but the file has {found}");
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

/// The files of a folder that this program has filled, and of the folders in it as `folder/file`.
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

/// True for `file` and `folder/file`: names that don't lead out of a checkpoint.
fn is_inside(name: &str) -> bool {
    let is_name = |part: &str| Path::new(part).file_name() == Some(OsStr::new(part));
    match name.split_once('/') {
        Some((folder, file)) => is_name(folder) && is_name(file) && !file.contains('/'),
        None => is_name(name),
    }
}

/// Writes a value as JSON, so that a crash leaves the old file or the new one.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TrainError> {
    let text = serde_json::to_vec_pretty(value).map_err(TrainError::json(path))?;
    Ok(write_atomically(path, |file| file.write_all(&text))?)
}

/// Reads the JSON of a checkpoint.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TrainError> {
    let text = read_small_file(path, MAX_BYTES)?;
    serde_json::from_slice(&text).map_err(TrainError::json(path))
}

/// A SHA-256 in hexadecimal digits, as in a checkpoint's manifest.
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
