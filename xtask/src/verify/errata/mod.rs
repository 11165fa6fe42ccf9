//! `cargo xtask verify --errata`: each bug of the documents with both numbers, each computed.
//!
//! The bug runs as a small replica in this folder, the right code is the library's.
//! A figure that a document merely states is printed as "stated", never as computed.
//! What each bug is, and where, stands in docs/errata.md.

use anyhow::{Result, bail};

use super::lab::Lab;

mod attention_bugs;
pub(in crate::verify) mod column_softmax;
mod data_bugs;
mod model_bugs;
mod mojibake;
mod text_bugs;

/// One bug.
pub(super) struct Erratum {
    /// `errata.b1` and so on.
    pub(super) id: &'static str,
    /// Document and lines.
    source: &'static str,
    /// What is wrong, in a sentence.
    what: &'static str,
    /// Runs the bug and the right code.
    show: fn(&Lab) -> Result<Vec<Finding>>,
}

/// What the bug and the right code give for one thing.
pub(super) struct Finding {
    /// The thing.
    of: &'static str,
    /// What the document's code gives, or what it states.
    wrong: String,
    /// What the right code gives.
    right: String,
}

impl Finding {
    fn new(of: &'static str, wrong: impl Into<String>, right: impl Into<String>) -> Self {
        Self {
            of,
            wrong: wrong.into(),
            right: right.into(),
        }
    }
}

/// All bugs, in the order of their numbers.
fn errata() -> Vec<&'static Erratum> {
    let mut all: Vec<&Erratum> = [
        attention_bugs::ERRATA,
        data_bugs::ERRATA,
        model_bugs::ERRATA,
        text_bugs::ERRATA,
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by_key(|erratum| {
        erratum
            .id
            .trim_start_matches("errata.b")
            .parse::<u32>()
            .unwrap_or(u32::MAX)
    });
    all
}

/// Prints the chosen bugs.
///
/// # Errors
/// A replica failed, a bug shows no difference, or none was chosen.
pub(super) fn run(filter: Option<&str>) -> Result<()> {
    let lab = Lab::new(None)?;
    let chosen: Vec<_> = errata()
        .into_iter()
        .filter(|erratum| filter.is_none_or(|filter| erratum.id.contains(filter)))
        .collect();
    if chosen.is_empty() {
        bail!("no erratum matches `{}`", filter.unwrap_or_default());
    }
    for erratum in chosen {
        println!("{} ({})\n    {}", erratum.id, erratum.source, erratum.what);
        for finding in (erratum.show)(&lab)? {
            println!(
                "    {}\n        document: {}\n        right:    {}",
                finding.of, finding.wrong, finding.right
            );
            if finding.wrong == finding.right {
                bail!("{}: `{}` shows no difference", erratum.id, finding.of);
            }
        }
    }
    Ok(())
}

/// Numbers as a reader compares them.
fn show<'a>(values: impl IntoIterator<Item = &'a f32>) -> String {
    let words: Vec<String> = values
        .into_iter()
        .map(|value| format!("{value:.4}"))
        .collect();
    words.join(" ")
}

/// The ids of all bugs.
#[cfg(test)]
pub(super) fn ids() -> impl Iterator<Item = &'static str> {
    errata().into_iter().map(|erratum| erratum.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_gives_another_result_than_the_right_code() {
        let lab = Lab::new(None).unwrap();
        for erratum in errata() {
            let findings = (erratum.show)(&lab).unwrap();
            assert!(!findings.is_empty(), "{}", erratum.id);
            for finding in findings {
                assert_ne!(
                    finding.wrong, finding.right,
                    "{}: {}",
                    erratum.id, finding.of
                );
            }
        }
    }

    #[test]
    fn every_erratum_is_described_in_the_documentation() {
        let text =
            std::fs::read_to_string(crate::workspace::root().join("docs/errata.md")).unwrap();
        for id in ids() {
            assert!(
                text.contains(&format!("`{id}`")),
                "docs/errata.md does not name {id}"
            );
        }
    }
}
