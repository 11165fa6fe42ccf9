//! The workspace's folder, its files and its cargo, and printing to a reader who may go away.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use notebooks::item;
use walkdir::{DirEntry, WalkDir};

/// The root of the workspace: the folder above this package.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in a folder of the workspace")
        .to_path_buf()
}

/// Runs `cargo` with these words and variables, and what it builds with its own arguments.
///
/// # Errors
/// It can't be started, or it failed.
pub(crate) fn cargo(
    words: &str,
    variables: &[(&str, &str)],
    of_program: &[OsString],
) -> Result<()> {
    let status = of_cargo(words, &root())
        .args((!of_program.is_empty()).then_some("--"))
        .args(of_program)
        .envs(variables.iter().copied())
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "cargo {words}: {status}");
    Ok(())
}

/// The packages of the workspace in `folder`, as cargo's JSON.
pub(crate) fn cargo_metadata(folder: &Path) -> Result<String> {
    cargo_output("metadata --no-deps --format-version=1", folder, &[])
}

/// What cargo, run with these words and arguments on the workspace in `folder`, prints.
///
/// # Errors
/// It can't be started, it failed, or this is no text.
pub(crate) fn cargo_output(words: &str, folder: &Path, arguments: &[&OsStr]) -> Result<String> {
    let output = of_cargo(words, folder)
        .args((!arguments.is_empty()).then_some("--"))
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo {words}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Cargo, to be run with these words on the workspace in `folder`.
fn of_cargo(words: &str, folder: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let manifest = folder.join("Cargo.toml");
    cargo
        .args(words.split(' '))
        .arg("--manifest-path")
        .arg(manifest);
    cargo
}

/// The folder of the crate of this name: one of the book's, or one in a group beside them.
pub(crate) fn crate_folder(root: &Path, name: &str) -> Option<PathBuf> {
    let name = name.replace('_', "-");
    crate_folders(root)
        .into_iter()
        .find(|folder| folder.ends_with(&name))
}

/// The folders of all crates below `crates`, sorted.
pub(crate) fn crate_folders(root: &Path) -> Vec<PathBuf> {
    let crates = root.join("crates");
    files_below(&crates, "toml")
        .iter()
        .filter(|path| path.ends_with("Cargo.toml"))
        .filter_map(|path| Some(path.parent()?.to_path_buf()))
        .collect()
}

/// All files below `folder` whose name ends with `extension`, sorted, build outputs left out.
pub(crate) fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let is_source = |entry: &DirEntry| {
        let name = entry.file_name().to_string_lossy();
        entry.depth() == 0 || (name != "target" && !name.starts_with('.'))
    };
    let walk = WalkDir::new(folder).sort_by_file_name().into_iter();
    let files = walk
        .filter_entry(is_source)
        .flatten()
        .map(DirEntry::into_path);
    let named = |path: &PathBuf| path.extension().is_some_and(|end| end == extension);
    files.filter(|path| named(path) && path.is_file()).collect()
}

/// The item of a listing, and the line where it begins.
///
/// # Errors
/// The file can't be read, or has no such item.
pub(crate) fn listing(path: &str, start: &str) -> Result<(usize, String)> {
    let source = std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned())?;
    item(&source, start).with_context(|| format!("{path}: no item begins with `{start}`"))
}

/// Writes to standard output; a reader that has closed it (`| head`) ends the program quietly.
///
/// # Errors
/// It can't be written.
pub(crate) fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}
