//! Every idea of the notebooks is introduced: a notebook by its goal, a section by prose before its
//! first cell and by a question, a cell by prose or by the mark of a continuation.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use notebooks::{Cell, PROGRAMS, Part, Program, Tier};

/// The least words of an introduction, an answer or a task.
const MIN_WORDS: usize = 6;

/// Notebooks, sections and cells without their prose.
pub(super) fn faults(_root: &Path) -> Result<Vec<String>> {
    let taught = PROGRAMS
        .iter()
        .filter(|program| program.tier != Tier::Errata);
    Ok(taught
        .flat_map(|program| faults_of(program, &program.unrun()))
        .collect())
}

fn faults_of(program: &Program, parts: &[Part]) -> Vec<String> {
    let is_text = |text: &str| text.split_whitespace().count() >= MIN_WORDS;
    let mut faults = Vec::new();
    match parts.iter().find_map(|part| match part {
        Part::Intro(intro) => Some(intro),
        _ => None,
    }) {
        Some(intro) if is_text(&intro.goal) && intro.minutes.parse::<u32>().is_ok() => {}
        _ => faults.push(format!(
            "{}: no goal and reading time (book.opens)",
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
            faults.push(format!("{}: a section begins without prose", name(cell)));
        } else if cell.name == cell.cell && !cell.is_introduced {
            faults.push(format!(
                "{}: neither prose nor the mark `// ...`",
                name(cell)
            ));
        }
    }
    // The numbered sections of chapters ask a question; others may.
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
    faults
        .extend(silent.map(|section| format!("{}: section {section} asks nothing", program.path)));
    faults
}
