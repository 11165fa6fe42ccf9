//! Provides the text of the short story "The Verdict". The book's Python notebooks for chapters 2
//! and 5 read it from the file the-verdict.txt. Users of the Rust ports of these notebooks must
//! provide this file themselves. This module checks the SHA-256 hash of the file.
//!
//! The story "The Verdict" isn't part of this repository. If the user doesn't provide it, some
//! commands use the story [`STORY`] in its place. All other commands skip the cells of the
//! notebooks that need "The Verdict" and tell the user why.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::Settings;

/// Text of "The Answering Bell", a story that is built into the command `gpt train`. The Rust ports
/// of the book's Python notebooks can use it as a substitute for the book's text.
pub const STORY: &str = include_str!("../../crates/tools/cli/data/the-answering-bell.txt");

/// SHA-256 hash of the book's text, "The Verdict", which is 20,479 bytes long. A file with another
/// hash is rejected.
const SHA256: &str = "b41e41a68f0398a3154ae69e2e4c0e2694e17fe0d66730536837f1b01935b31f";

/// Reads the book's text, "The Verdict", from the file `path`. Returns settings for running a
/// notebook that contain the text. If `path` is `None`, uses the path in the environment variable
/// `BOOK_TEXT`, which can be relative to the root of the workspace. If this variable isn't set or
/// is empty, the returned settings contain no text.
///
/// # Errors
///
/// Returns an error if the file can't be read or doesn't contain exactly the book's text.
pub fn settings(path: Option<&Path>) -> Result<Settings> {
    let variable = std::env::var_os("BOOK_TEXT").filter(|path| !path.is_empty());
    let path = path.map(Path::to_path_buf).or(variable.map(below_root));
    Ok(Settings {
        text: path.as_deref().map(read).transpose()?,
        ..Settings::default()
    })
}

/// Converts a path from the environment variable `BOOK_TEXT` into a path that is valid in any
/// current directory. A relative path is taken to be relative to the root of the workspace. An
/// absolute path is returned unchanged. The conversion is necessary because cargo runs each test in
/// the directory of its package.
fn below_root(path: OsString) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package
        .parent()
        .expect("the package is a folder of the workspace");
    root.join(path)
}

/// Returns true if `text` is the book's text, "The Verdict". The check compares the SHA-256 hash of
/// `text` with the hash of the book's text.
pub fn is_book(text: &str) -> bool {
    sha256(text.as_bytes()) == SHA256
}

/// Returns the SHA-256 hash of `bytes` in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the book's text, "The Verdict", from a file and checks its hash. The text is deliberately
/// leaked, because the settings for running a notebook require a `&'static str`.
fn read(path: &Path) -> Result<&'static str> {
    let bytes =
        std::fs::read(path).with_context(|| format!("the book's text {}", path.display()))?;
    let hash = sha256(&bytes);
    ensure!(
        hash == SHA256,
        "{} is not the book's text: its SHA-256 is {hash}, expected {SHA256}",
        path.display()
    );
    let text = String::from_utf8(bytes)
        .context("the file has the hash of the book's text, but it isn't valid UTF-8")?;
    Ok(text.leak())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_text_is_refused_with_both_hashes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "not the book").unwrap();
        let error = settings(Some(file.path())).unwrap_err().to_string();
        assert!(
            error.contains(SHA256) && error.contains("expected"),
            "{error}"
        );
        assert!(settings(Some(Path::new("/no/such/file"))).is_err());
    }

    #[test]
    fn a_relative_path_in_the_environment_is_below_the_root_of_the_workspace() {
        assert!(below_root("tests/notebooks/text.rs".into()).is_file());
        assert_eq!(below_root("/a/text".into()), Path::new("/a/text"));
    }
}
