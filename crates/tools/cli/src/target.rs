//! The files that a command may write: never one of its inputs, and never one in a run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use atomic_file::{folder_of, read_small_file};

use crate::runs::{MOST_OPTIONS_BYTES, OPTIONS, OPTIONS_BEGIN};

/// Endings of the files that are read in a model's folder.
const OF_A_MODEL: [&str; 3] = ["json", "safetensors", "txt"];

/// Checks where `flag` says to write, for a command that reads these files (`-` is standard input)
/// and model folders.
///
/// # Errors
/// Names the input that it is, by whatever name or link, or the run that it is in.
pub(crate) fn check_output(flag: &str, output: &Path, inputs: &[&Path]) -> Result<()> {
    let shown = output.display();
    if let Some(run) = run_around(output) {
        bail!(
            "{flag} {shown}: expected a place outside of the run {}, which keeps its own files there",
            run.display()
        );
    }
    let Some(written) = identity(output) else {
        return Ok(()); // nothing is there
    };
    for input in inputs {
        let files = match input.is_dir() {
            true => files_of_a_model(input),
            false => vec![input.to_path_buf()],
        };
        if let Some(file) = files
            .iter()
            .find(|file| identity(file).as_ref() == Some(&written))
        {
            bail!(
                "{flag} {shown}: expected another file than {}, which is read",
                file.display()
            );
        }
    }
    Ok(())
}

fn files_of_a_model(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_read = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| OF_A_MODEL.contains(&extension))
    };
    entries.map(|entry| entry.path()).filter(is_read).collect()
}

/// The identity of a regular file under all of its names; none of what is no file.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let path = if path == Path::new("-") {
        Path::new("/dev/stdin")
    } else {
        path
    };
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((found.dev(), found.ino()))
}

/// The identity of a file under all of its names.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// The run whose folder has this path in it, or would.
fn run_around(path: &Path) -> Option<PathBuf> {
    const MOST_LINKS: usize = 40; // Linux's own limit
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = folder_of(&path).join(to),
            Err(_) => break,
        }
    }
    // Folders above it may be yet to be made.
    let mut above = path.ancestors().skip(1).map(|above| above.join("."));
    let folder = above.find_map(|above| fs::canonicalize(above).ok())?;
    let is_run = |at: &&Path| {
        let options = read_small_file(at.join(OPTIONS), MOST_OPTIONS_BYTES);
        options.is_ok_and(|text| text.starts_with(OPTIONS_BEGIN.as_bytes()))
    };
    folder.ancestors().find(is_run).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_no_input_and_in_no_run() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for below in ["model", "run/model", "project"] {
            fs::create_dir_all(at(below)).unwrap();
        }
        for (name, text) in [
            ("book.txt", "text"),
            ("model/config.json", "{}"),
            ("model/page.html", "old"),
            ("run/options.toml", OPTIONS_BEGIN),
            ("project/options.toml", "seed = 1"),
        ] {
            fs::write(at(name), text).unwrap();
        }
        let inputs = [at("book.txt"), at("model")];
        let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
        let check = |name: &str| check_output("-o", &at(name), &inputs).map_err(|e| e.to_string());
        for name in ["new.bin", "model/page.html", "model/new", "project/ids.bin"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for (name, named) in [
            ("book.txt", "book.txt, which is read"),
            ("model/../book.txt", "book.txt, which is read"),
            ("model/config.json", "config.json, which is read"),
            ("run/new.html", "the run "),
            ("run/model/new.html", "the run "),
        ] {
            let error = check(name).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink(at("book.txt"), at("link")).unwrap();
            fs::hard_link(at("book.txt"), at("other name")).unwrap();
            symlink("run/new", at("into the run")).unwrap();
            assert!(
                ["link", "other name", "into the run"]
                    .iter()
                    .all(|name| check(name).is_err())
            );
            let null = Path::new("/dev/null");
            check_output("-o", null, &[null]).unwrap();
        }
    }
}
