//! The workspace's folder, its files and its cargo, and printing to a reader who may go away.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use notebooks::item;
use serde::de::DeserializeOwned;
use walkdir::{DirEntry, WalkDir};

/// Returns the root of the workspace, the folder above this package.
///
/// The path from the time of compilation comes last, because cargo compiles nothing again when the
/// workspace is moved. `cargo run` says where this package is now, and a program that was started
/// in another way is usually below the workspace's root.
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

/// Returns what cargo says about the workspace in `folder`, without its dependencies.
///
/// # Errors
/// Cargo fails, or prints something unexpected.
pub(crate) fn metadata<T: DeserializeOwned>(folder: &Path) -> Result<T> {
    let mut metadata = cargo("metadata --no-deps --format-version=1", folder, &[]);
    let printed = run(metadata.stdout(Stdio::piped()))?;
    Ok(serde_json::from_slice(&printed)?)
}

/// Returns the folder of build outputs, which variables and settings of cargo may have moved.
///
/// # Errors
/// Cargo fails.
#[cfg(feature = "pages")]
pub(crate) fn target() -> Result<PathBuf> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let Metadata { target_directory } = metadata(&root())?;
    Ok(target_directory)
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

/// Writes to standard output.
///
/// # Errors
/// It can't be written, for example because it was closed ([`is_closed_output`]).
pub(crate) fn print(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

/// Writes bytes to standard output, as [`print`] does.
///
/// # Errors
/// As there.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<()> {
    Ok(io::stdout().write_all(bytes)?)
}

/// Returns true for the error of printing to a program that has closed its input (`| head`), which
/// ends a command quietly.
pub(crate) fn is_closed_output(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
