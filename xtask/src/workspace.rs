//! Provides access to the files of the workspace, to its metadata, and to cargo. This module also
//! contains the functions that print to standard output.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use atomic_file::{append, create_folder};
use notebooks::item;
use serde::de::DeserializeOwned;
use walkdir::{DirEntry, WalkDir};

/// Returns the root folder of the workspace.
///
/// If the folder was moved after this program was compiled, cargo doesn't compile the program
/// again, so the path from compile time may be wrong. Therefore, this path is used only as a last
/// resort. If the program was started by `cargo run`, an environment variable contains the current
/// path of the package. Otherwise, the program is usually in a folder below the root.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.filter(|package| package.ends_with("xtask"));
    let program = std::env::current_exe().unwrap_or_default();
    let compiled = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = package.iter().flat_map(|package| package.parent());
    let mut folders = folders.chain(program.ancestors()).chain(compiled.parent());
    let root = folders.find(|folder| folder.join("xtask/Cargo.toml").is_file());
    let root = root.or(compiled.parent());
    root.expect("xtask is in a folder of the workspace")
        .to_path_buf()
}

/// Returns a command that runs cargo for the workspace in `folder`. `words` are the arguments for
/// cargo, separated by spaces. `program_arguments` are passed to the program that cargo runs.
pub(crate) fn cargo(words: &str, folder: &Path, program_arguments: &[OsString]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(words.split(' '))
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .args((!program_arguments.is_empty()).then_some("--"))
        .args(program_arguments);
    cargo
}

/// Returns the metadata that cargo prints for the packages of the workspace in `folder`.
///
/// # Errors
///
/// Returns an error if cargo fails or if its output doesn't have the expected form.
pub(crate) fn metadata<T: DeserializeOwned>(folder: &Path) -> Result<T> {
    let mut metadata = cargo("metadata --no-deps --format-version=1", folder, &[]);
    let printed = run(metadata.stdout(Stdio::piped()))?;
    Ok(serde_json::from_slice(&printed)?)
}

/// Returns cargo's target folder, which may have been changed by environment variables or by
/// cargo's configuration.
///
/// # Errors
///
/// Returns an error if cargo fails.
#[cfg(feature = "pages")]
pub(crate) fn target() -> Result<PathBuf> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let Metadata { target_directory } = metadata(&root())?;
    Ok(target_directory)
}

/// Runs a command and waits for it. Returns its standard output if the output is piped, or nothing
/// otherwise.
///
/// # Errors
///
/// Returns an error if the command can't be started or if it fails.
pub(crate) fn run(command: &mut Command) -> Result<Vec<u8>> {
    let started = command.spawn().with_context(|| format!("{command:?}"))?;
    let output = started.wait_with_output()?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(output.stdout)
}

/// Creates the folder if it doesn't exist, and waits until no other process has locked it. The lock
/// ends when the returned file is closed, or when this process ends. On file systems that don't
/// support locks, the function doesn't wait.
///
/// # Errors
///
/// Returns an error if the folder or its file `.lock` can't be created.
pub(crate) fn lock_folder(folder: &Path) -> Result<File> {
    create_folder(folder)?;
    let lock = append(folder.join(".lock"))?;
    let _ = lock.lock();
    Ok(lock)
}

/// Returns the paths of all files below `folder` that have the given extension, in sorted order.
/// Build outputs and hidden folders are skipped.
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

/// Returns the item whose source code begins with `start`, together with the line number of its
/// first line.
///
/// # Errors
///
/// Returns an error if the file can't be read, or if it contains no item that begins with `start`.
pub(crate) fn listing(path: &str, start: &str) -> Result<(usize, String)> {
    let source = std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned())?;
    item(&source, start)
        .with_context(|| format!("{path}: the file has no item that begins with `{start}`"))
}

/// Writes text to standard output.
///
/// # Errors
///
/// Returns an error if writing fails, for example because the program that reads the output has
/// closed the pipe. [`is_closed_output`] detects this case.
pub(crate) fn print(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

/// Writes bytes to standard output.
///
/// # Errors
///
/// Returns an error under the same conditions as [`print`].
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<()> {
    Ok(io::stdout().write_all(bytes)?)
}

/// Returns true if the error occurred because the program that reads the output, such as `head`,
/// has closed its input. In this case, a command should end without an error message.
pub(crate) fn is_closed_output(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
