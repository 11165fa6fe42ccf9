//! The folder `runs/`: a numbered folder for each run, and the newest of them for whoever names none.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use train::latest_checkpoint;

/// Where runs are kept, under the current folder.
pub(crate) const RUNS: &str = "runs";

/// Makes the next free folder: `runs/0001`, `runs/0002`, ...
pub(crate) fn create(runs: &Path) -> Result<PathBuf> {
    if runs.exists() && !runs.is_dir() {
        bail!(
            "{}: expected a folder for runs, but it is a file",
            runs.display()
        );
    }
    fs::create_dir_all(runs).with_context(|| runs.display().to_string())?;
    let used = names(runs)?
        .into_iter()
        .filter_map(|name| name.parse().ok());
    let mut number = used.max().unwrap_or(0u32) + 1;
    loop {
        let folder = runs.join(format!("{number:04}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error).with_context(|| folder.display().to_string()),
        }
    }
}

/// The run that was saved last.
///
/// # Errors
/// If there is none; says which command makes one.
pub(crate) fn newest(runs: &Path) -> Result<PathBuf> {
    let mut newest: Option<(SystemTime, PathBuf)> = None;
    for name in names(runs).unwrap_or_default() {
        let run = runs.join(name);
        let Ok(checkpoint) = latest_checkpoint(&run) else {
            continue;
        };
        let saved = fs::metadata(&checkpoint).and_then(|found| found.modified());
        let this = (saved.unwrap_or(SystemTime::UNIX_EPOCH), run);
        if newest.as_ref().is_none_or(|newest| *newest < this) {
            newest = Some(this);
        }
    }
    match newest {
        Some((_, run)) => Ok(run),
        None => bail!(
            "no model: {}/ has no run yet; `gpt train` makes one, or name a folder with --model DIR",
            runs.display()
        ),
    }
}

/// The folder with the weights: `path` itself, or a run's newest checkpoint.
pub(crate) fn model_folder(path: &Path) -> Result<PathBuf> {
    if !path.exists() {
        bail!("{}: no such folder", path.display());
    }
    let is_model = !path.is_dir() || path.join("config.json").exists();
    match latest_checkpoint(path) {
        Ok(checkpoint) if !is_model => Ok(checkpoint),
        _ => Ok(path.to_owned()), // loading it says what is missing
    }
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_gets_the_next_number() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join(RUNS);
        assert_eq!(create(&runs).unwrap(), runs.join("0001"));
        fs::create_dir(runs.join("0041")).unwrap();
        assert_eq!(create(&runs).unwrap(), runs.join("0042"));
    }

    #[test]
    fn without_a_run_the_error_names_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let error = newest(&folder.path().join(RUNS)).unwrap_err().to_string();
        assert!(error.contains("gpt train"), "{error}");
    }
}
