//! The folder `runs/`: a numbered folder for each run, what a run's folder holds, and the newest of
//! them for whoever names none.

use std::fs;
use std::io::ErrorKind::{AlreadyExists, NotADirectory, NotFound};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use atomic_file::{create_folder, create_new_folder, is_file, names_in};
use train::runs::{check_copies, damaged_checkpoint};
use train::{TrainError, best_checkpoint, latest_checkpoint};

use crate::hints::{program, quoted};
use crate::output::note;

/// A model's configuration, by its name in its folder.
pub(crate) const CONFIG: &str = "config.json";

/// The folder of runs, under the current one.
pub(crate) const RUNS: &str = "runs";

/// The names in a run's folder besides its checkpoints: its options, its log, its curve, and the
/// folder that transformers loads.
pub(crate) const OPTIONS: &str = "options.toml";
pub(crate) const LOG: &str = "log.jsonl";
pub(crate) const SVG: &str = "loss.svg";
pub(crate) const MODEL: &str = "model";

/// The most bytes of a file of options.
pub(crate) const MOST_OPTIONS_BYTES: u64 = 1 << 20;

/// A path that a run can keep: absolute, so that it can be resumed from another folder, and text.
///
/// # Errors
/// If the path is not UTF-8, which a file of options can't hold.
pub(crate) fn kept_path(path: &Path) -> Result<PathBuf> {
    let name = path.display();
    let absolute = std::path::absolute(path).with_context(|| name.to_string())?;
    if absolute.to_str().is_none() {
        bail!("{name}: expected a path in UTF-8, as the run's options.toml keeps it");
    }
    Ok(absolute)
}

/// A path as it is typed in a shell's command line.
pub(crate) fn typed(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// Makes the next free folder: `runs/0001`, `runs/0002`, ...
pub(crate) fn create(runs: &Path) -> Result<PathBuf> {
    if fs::metadata(runs).is_ok_and(|found| !found.is_dir()) {
        bail!(
            "{}: expected a folder for runs, but it is a file",
            runs.display()
        );
    }
    create_folder(runs)?;
    let used = names(runs)?
        .into_iter()
        .filter_map(|name| name.parse().ok());
    let mut number = used.max().unwrap_or(0u32) + 1;
    loop {
        let folder = runs.join(format!("{number:04}"));
        match create_new_folder(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.source.kind() == AlreadyExists => number += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// The run that was saved last.
///
/// # Errors
/// If there is none; says which command makes one.
pub(crate) fn newest(runs: &Path) -> Result<PathBuf> {
    let saved = names(runs).unwrap_or_default().into_iter();
    let saved = saved.filter_map(|name| {
        let run = runs.join(name);
        let checkpoint = latest_checkpoint(&run).ok()?;
        let saved = fs::metadata(checkpoint).and_then(|found| found.modified());
        Some((saved.unwrap_or(SystemTime::UNIX_EPOCH), run))
    });
    match saved.max() {
        Some((_, run)) => Ok(run),
        None => bail!(
            "no model: {}/ has no run yet; `{} train` makes one, or name a folder with --model DIR",
            runs.display(),
            program()
        ),
    }
}

/// The folder with the weights: `path` itself, or a run's best checkpoint: the one with the lowest
/// validation loss, the newest if there was no validation.
pub(crate) fn model_folder(path: &Path) -> Result<PathBuf> {
    require_folder(path, "a model's")?;
    if is_file(path.join(CONFIG))? {
        return Ok(path.to_owned());
    }
    match best_checkpoint(path) {
        Ok(checkpoint) => {
            note_damage(path)?;
            Ok(checkpoint)
        }
        Err(TrainError::NoCheckpoint { .. }) => Ok(path.to_owned()), // loading it says what is missing
        Err(error) => Err(error.into()),
    }
}

/// Checks that there is a folder, and not something else.
pub(crate) fn require_folder(path: &Path, whose: &str) -> Result<()> {
    let name = path.display();
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => bail!("{name}: expected {whose} folder, but it is a file"),
        Err(error) if error.kind() == NotFound => bail!("{name}: no such folder"),
        Err(error) => Err(error).with_context(|| name.to_string()),
    }
}

/// Says which checkpoint of a run can't be used, once, however often the run is looked at.
pub(crate) fn note_damage(run: &Path) -> Result<()> {
    static ONCE: Once = Once::new();
    if let Some(problem) = damaged_checkpoint(run)? {
        ONCE.call_once(|| note(&problem));
    }
    Ok(())
}

/// Checks that the tokenizer in a folder, if that is a run's checkpoint, is as it was saved.
pub(crate) fn check(folder: &Path) -> Result<()> {
    Ok(check_copies(folder)?)
}

/// The names in a folder; none if it isn't there. Names that are not UTF-8 are shown lossily.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>> {
    match names_in(folder) {
        Err(error) if [NotFound, NotADirectory].contains(&error.source.kind()) => Ok(Vec::new()),
        names => Ok(names?),
    }
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
    fn a_path_in_a_hint_is_typed_as_it_stands() {
        assert_eq!(typed(Path::new("runs/0001")), "runs/0001");
        for name in ["my run", "it's", "$HOME", "a;b"] {
            let words = shlex::split(&format!("gpt --resume {}", typed(Path::new(name))));
            assert_eq!(words.unwrap()[2..], [name]);
        }
    }
}
