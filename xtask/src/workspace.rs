//! The workspace's folder, its files and its cargo, and printing to a reader who may go away.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use notebooks::item;
use walkdir::{DirEntry, WalkDir};

/// The root of the workspace: the folder above this package.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is in a folder of the workspace")
        .to_path_buf()
}

/// Cargo with these words, for the workspace in `folder`; the arguments are passed to the built
/// program.
pub(crate) fn cargo(words: &str, folder: &Path, of_program: &[OsString]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(words.split(' '))
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .args((!of_program.is_empty()).then_some("--"))
        .args(of_program);
    cargo
}

/// Runs a command, and returns what it printed if that is piped.
///
/// # Errors
/// It can't be started, or it failed.
pub(crate) fn run(command: &mut Command) -> Result<Vec<u8>> {
    let started = command.spawn().with_context(|| format!("{command:?}"))?;
    let output = started.wait_with_output()?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(output.stdout)
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
