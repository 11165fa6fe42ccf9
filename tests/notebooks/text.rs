//! the-verdict.txt, the text that chapters 2 and 5 read: given by the user, checked by its hash.
//!
//! It isn't part of this repository. Without it, the cells that need it run on [`STORY`] where a
//! command provides that, or are skipped with a note.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::Settings;

/// "The Answering Bell", the story that comes with `gpt train`, for notebooks without the book's
/// text.
pub const STORY: &str = include_str!("../../crates/tools/cli/data/the-answering-bell.txt");

/// The hash of the book's text (20,479 bytes).
const SHA256: &str = "b41e41a68f0398a3154ae69e2e4c0e2694e17fe0d66730536837f1b01935b31f";

/// Returns a run's settings with the text at `path`, or otherwise at `$BOOK_TEXT`, if one of them
/// is set. A relative path in `$BOOK_TEXT` starts at the workspace's root.
///
/// # Errors
/// The file can't be read, or it is another text.
pub fn settings(path: Option<&Path>) -> Result<Settings> {
    let variable = std::env::var_os("BOOK_TEXT").filter(|path| !path.is_empty());
    let path = path.map(Path::to_path_buf).or(variable.map(below_root));
    Ok(Settings {
        text: path.as_deref().map(read).transpose()?,
        ..Settings::default()
    })
}

/// Returns a relative path as a path below the workspace's root, because cargo runs each test in
/// the folder of its package.
fn below_root(path: OsString) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package
        .parent()
        .expect("the package is a folder of the workspace");
    root.join(path)
}

/// True if a text is the book's.
pub fn is_book(text: &str) -> bool {
    sha256(text.as_bytes()) == SHA256
}

/// The hash of bytes in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads and checks the text; it stays for as long as the process runs.
fn read(path: &Path) -> Result<&'static str> {
    let bytes =
        std::fs::read(path).with_context(|| format!("the book's text {}", path.display()))?;
    let hash = sha256(&bytes);
    ensure!(
        hash == SHA256,
        "{} is not the book's text: its SHA-256 is {hash}, expected {SHA256}",
        path.display()
    );
    let text =
        String::from_utf8(bytes).context("the book's text is UTF-8, because its hash matches")?;
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
