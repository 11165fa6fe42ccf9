//! `cargo xtask mutants`: proof that the golden figures notice a change.
//!
//! Each entry of `mutants.toml` replaces one piece of text in a copy of the workspace, below `target/mutants`;
//! the named case must pass before the change and fail after it, with everything still compiling.
//! The copy and its build folder stay, so that a second run compiles little.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Deserialize;

use crate::workspace::{self, files_below};

/// What the copy needs.
const FOLDERS: [&str; 3] = ["crates", "xtask", "tests"];
const FILES: [&str; 2] = ["Cargo.toml", "Cargo.lock"];

/// Which changes to try.
#[derive(Args)]
pub(crate) struct Options {
    /// Only the changes whose description or case contains this.
    filter: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

/// One change.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    /// What it changes, in words.
    what: String,
    /// The source file.
    file: String,
    /// Text that stands there once.
    from: String,
    /// What replaces it.
    to: String,
    /// The case that must fail.
    case: String,
}

fn load() -> Result<Vec<Mutant>> {
    let list: List = toml::from_str(include_str!("../mutants.toml")).context("mutants.toml")?;
    Ok(list.mutant)
}

/// `text` with the change made.
fn mutated(mutant: &Mutant, text: &str) -> Result<String> {
    let found = text.matches(&mutant.from).count();
    ensure!(
        found == 1,
        "{}: `{}` stands there {found} times, expected once",
        mutant.file,
        mutant.from
    );
    Ok(text.replace(&mutant.from, &mutant.to))
}

/// Tries the chosen changes.
///
/// # Errors
/// A change went unnoticed, a case failed without it, or something did not build.
pub(crate) fn run(options: &Options) -> Result<()> {
    let filter = options.filter.as_deref().unwrap_or_default();
    let mut mutants = load()?;
    mutants.retain(|mutant| mutant.what.contains(filter) || mutant.case.contains(filter));
    ensure!(!mutants.is_empty(), "no change matches `{filter}`");
    let copy = Copy {
        root: workspace::root().join("target/mutants"),
    };
    copy.refresh()?;
    copy.build()?;
    for mutant in &mutants {
        ensure!(
            copy.verify(&mutant.case)?.status.success(),
            "{} fails without any change",
            mutant.case
        );
    }
    let mut unnoticed = 0;
    for mutant in &mutants {
        let mark = match copy.notices(mutant) {
            Ok(true) => "noticed",
            Ok(false) => "UNNOTICED",
            Err(error) => {
                println!("{error:#}");
                "NO RESULT"
            }
        };
        println!("{mark:<10} {:<20} {}", mutant.case, mutant.what);
        unnoticed += usize::from(mark != "noticed");
    }
    println!(
        "\n{} changes, {unnoticed} unnoticed or without a result",
        mutants.len()
    );
    if unnoticed > 0 {
        bail!("{unnoticed} changes went unnoticed or gave no result");
    }
    Ok(())
}

/// A copy of the workspace, with a build folder of its own.
struct Copy {
    root: PathBuf,
}

impl Copy {
    fn sources(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// Makes the copy like the workspace; files that are alike keep their time, so Cargo builds what changed.
    fn refresh(&self) -> Result<()> {
        let from = workspace::root();
        let mut wanted: Vec<PathBuf> = FILES.iter().map(PathBuf::from).collect();
        for folder in FOLDERS {
            for path in all_files(&from.join(folder)) {
                wanted.push(
                    path.strip_prefix(&from)
                        .context("a file of the workspace")?
                        .to_path_buf(),
                );
            }
        }
        for folder in FOLDERS {
            for path in all_files(&self.sources().join(folder)) {
                let name = path
                    .strip_prefix(self.sources())
                    .context("a file of the copy")?;
                if !wanted.iter().any(|path| path == name) {
                    std::fs::remove_file(&path)?;
                }
            }
        }
        for path in wanted {
            let bytes =
                std::fs::read(from.join(&path)).with_context(|| path.display().to_string())?;
            write_if_different(&self.sources().join(&path), &bytes)?;
        }
        Ok(())
    }

    fn build(&self) -> Result<()> {
        let output = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--package", "xtask"])
            .current_dir(self.sources())
            .env("CARGO_TARGET_DIR", self.root.join("build"))
            .output()
            .context("cannot start cargo")?;
        ensure!(
            output.status.success(),
            "the copy does not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    fn verify(&self, case: &str) -> Result<Output> {
        let program = self
            .root
            .join("build/debug")
            .join(format!("xtask{}", std::env::consts::EXE_SUFFIX));
        Command::new(program)
            .args(["verify", case])
            .current_dir(self.sources())
            .output()
            .context("cannot run verify")
    }

    /// Whether `mutant` makes its case fail; the copy is left as it was.
    fn notices(&self, mutant: &Mutant) -> Result<bool> {
        let path = self.sources().join(&mutant.file);
        let original = std::fs::read_to_string(&path).with_context(|| mutant.file.clone())?;
        std::fs::write(&path, mutated(mutant, &original)?)?;
        let result = self.build().and_then(|()| self.verify(&mutant.case));
        std::fs::write(&path, original)?;
        let output = result.with_context(|| mutant.what.clone())?;
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = |line: &str| {
            line.starts_with("FAIL") && line.split_whitespace().nth(1) == Some(&mutant.case)
        };
        Ok(!output.status.success() && report.lines().any(failed))
    }
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    ["rs", "toml", "md", "txt"]
        .into_iter()
        .flat_map(|extension| files_below(folder, extension))
        .collect()
}

fn write_if_different(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_finds_its_text_once_and_names_a_case() {
        let cases = crate::verify::table::load().unwrap();
        let mutants = load().unwrap();
        assert!(mutants.len() >= 10, "only {} changes", mutants.len());
        for mutant in mutants {
            let text = std::fs::read_to_string(workspace::root().join(&mutant.file)).unwrap();
            let changed =
                mutated(&mutant, &text).unwrap_or_else(|error| panic!("{}: {error}", mutant.what));
            assert_ne!(changed, text, "{}", mutant.what);
            assert!(
                cases.iter().any(|case| case.id == mutant.case),
                "{}: no case {}",
                mutant.what,
                mutant.case
            );
        }
    }

    #[test]
    fn text_that_stands_twice_or_nowhere_is_refused() {
        let mutant = Mutant {
            what: "w".to_owned(),
            file: "f".to_owned(),
            from: "a".to_owned(),
            to: "b".to_owned(),
            case: "c".to_owned(),
        };
        assert_eq!(mutated(&mutant, "xax").unwrap(), "xbx");
        assert!(mutated(&mutant, "aa").is_err());
        assert!(mutated(&mutant, "x").is_err());
    }
}
