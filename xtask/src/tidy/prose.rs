//! Checks that the notebooks explain what they show. A notebook must begin with a goal and a
//! reading time. A section must begin with text before its first cell, and if it is a numbered
//! section of a chapter, it must ask a question. Each cell must be preceded by text or be marked as
//! a continuation.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use notebooks::{Cell, PROGRAMS, Part, Program, Tier};

/// Smallest number of words in an explanation, a question or an answer.
const MIN_WORDS: usize = 6;

/// Returns the notebooks, sections and cells without the required text.
pub(super) fn violations(_root: &Path) -> Result<Vec<String>> {
    let taught = PROGRAMS
        .iter()
        .filter(|program| program.tier != Tier::Errata);
    Ok(taught
        .flat_map(|program| violations_of(program, &program.unrun()))
        .collect())
}

fn violations_of(program: &Program, parts: &[Part]) -> Vec<String> {
    let is_text = |text: &str| text.split_whitespace().count() >= MIN_WORDS;
    let mut violations = Vec::new();
    match parts.iter().find_map(|part| match part {
        Part::Intro(intro) => Some(intro),
        _ => None,
    }) {
        Some(intro) if is_text(&intro.goal) && intro.minutes.parse::<u32>().is_ok() => {}
        _ => violations.push(format!(
            "{}: the call to book.opens must pass a goal and a reading time in minutes",
            program.path
        )),
    }
    let mut sections = BTreeSet::new();
    let mut has_prose = false;
    for part in parts {
        has_prose |= matches!(part, Part::Prose { text, .. } if is_text(text));
        let Part::Cell(cell) = part else { continue };
        let has_prose = std::mem::take(&mut has_prose) || is_text(&cell.about);
        let is_first = sections.insert(&cell.section);
        let name = |cell: &Cell| format!("{}:{}: {}", program.path, cell.line, cell.name);
        if is_first && !has_prose {
            violations.push(format!("{}: the section must begin with prose", name(cell)));
        } else if cell.name == cell.cell && !cell.is_introduced {
            violations.push(format!(
                "{}: the cell must be introduced by prose or a comment, or begin with `// ...` to continue the previous cell",
                name(cell)
            ));
        }
    }
    // Only the numbered sections of chapters must ask a question.
    let is_chapter = program.name.len() == 4;
    let (mut section, mut asked) = ("", BTreeSet::new());
    for part in parts {
        match part {
            Part::Section { number, .. } => section = number,
            Part::Question {
                question, answer, ..
            } if is_text(question) && is_text(answer) => {
                asked.insert(section);
            }
            _ => {}
        }
    }
    let silent = sections.into_iter().filter(|section| {
        let is_numbered = section.starts_with(|c: char| c.is_ascii_digit());
        is_chapter && is_numbered && !asked.contains(section.as_str())
    });
    violations.extend(
        silent.map(|section| format!("{}: section {section} has no question", program.path)),
    );
    violations
}
