//! Selects cells of the notebooks by the words that a user enters, such as `ch3`, `3.6`, `"In
//! [36]"`, `ex3.2`, `"Listing 3.5"` or `MultiHeadAttention`.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use notebooks::{Cell, PROGRAMS, Part, Program, Settings, Tier, cells, text};
use regex::Regex;

use crate::documents::{Row, map, our_name_of, plain};

/// Arguments that choose cells and the text to run them with.
#[derive(Args)]
pub(crate) struct CellFilter {
    /// A notebook (ch3, training, errata), a section (3.6), a cell ("In [36]"), an exercise
    /// (ex3.2), a listing ("Listing 3.5"), a figure ("Figure 3.18"), an item (MultiHeadAttention),
    /// an erratum (B3), or part of a name [default: all notebooks that don't take long]
    pub(crate) filter: Option<String>,
    /// Path to the book's text (the-verdict.txt), which some cells need [default: $BOOK_TEXT]
    #[arg(long, value_name = "FILE")]
    book_text: Option<PathBuf>,
}

impl CellFilter {
    /// Returns the settings for running notebooks.
    ///
    /// # Errors
    ///
    /// Returns an error if the book's text can't be read or if the file contains a different text.
    pub(crate) fn settings(&self) -> Result<Settings> {
        text::settings(self.book_text.as_deref())
    }
}

/// A notebook, and the cells in it that were selected.
pub(crate) struct Selection {
    /// Notebook that contains the cells.
    pub(crate) program: &'static Program,
    /// Whether to execute the notebook's training run, which takes minutes. This is true only if
    /// the notebook contains such a training run and the user entered the name of the notebook
    /// itself instead of the name of one of its cells.
    pub(crate) trains: bool,
    /// Source lines of the selected cells.
    lines: HashSet<u32>,
}

impl Selection {
    /// Returns true if the cell was selected.
    pub(crate) fn has(&self, cell: &Cell) -> bool {
        self.lines.contains(&cell.line)
    }

    /// Returns true if the first cell of the notebook was selected.
    pub(crate) fn is_whole(&self, parts: &[Part]) -> bool {
        cells(parts).next().is_some_and(|first| self.has(first))
    }

    /// Returns true if the cell was selected, or if it comes before a selected cell, which may
    /// depend on it.
    pub(crate) fn reaches(&self, cell: &Cell) -> bool {
        self.lines.iter().any(|line| cell.line <= *line)
    }
}

/// A function that returns true for the cells that match the user's words.
type Rule<'a> = &'a dyn Fn(&Program, &Cell) -> bool;

/// Selects the cells that `words` refers to. `words` can be any of the following, which are tried
/// in this order: the name of a notebook, an item in docs/book-map.md, the name of a section or
/// cell, a section, listing or exercise in docs/book-map.md, and a part of a name. If `words` is
/// `None`, selects all cells of the notebooks that don't take long.
///
/// # Errors
///
/// Returns an error if no cell matches `words`. If docs/book-map.md has an entry for `words`, the
/// message contains the items of this entry. Otherwise, it contains the names that are most similar
/// to `words`.
pub(crate) fn select(words: Option<&str>) -> Result<Vec<Selection>> {
    let all: Vec<(&Program, Vec<Part>)> = PROGRAMS.iter().map(|it| (it, it.unrun())).collect();
    let choose = |rule: Rule<'_>| -> Vec<Selection> {
        let chosen = all.iter().map(|(program, parts)| Selection {
            program,
            trains: program.tier == Tier::Long && words == Some(program.name),
            lines: cells(parts)
                .filter(|cell| rule(program, cell))
                .map(|cell| cell.line)
                .collect(),
        });
        chosen.filter(|found| !found.lines.is_empty()).collect()
    };
    let Some(words) = words else {
        return Ok(choose(&|program, _| program.tier == Tier::Everyday));
    };
    let here = our_name_of(words)?;
    let words = here.as_deref().unwrap_or(words).trim();
    // The following replacements convert `ch3` and `chapter 3` to `ch03`, `section 3.6` to `3.6`,
    // and `exercise 3.2` to `ex3.2`.
    let words = Regex::new("(?i)^ch(apter ?)?0?([1-9])")?.replace(words, "ch0$2");
    let words = Regex::new(r"(?i)^section ?(\d)")?
        .replace(&words, "$1")
        .into_owned();
    let words = Regex::new(r"(?i)^ex(ercise)? ?(\d)")?.replace(&words, "ex$2");
    let rows = map()?;
    let all_rows = &rows;
    let rows: Vec<&Row> = all_rows
        .iter()
        .filter(|row| row.is_called(&words))
        .collect();
    let of_item: Vec<&Row> = all_rows.iter().filter(|row| row.has_item(&words)).collect();
    let in_rows = |rows: &[&Row], program: &Program, cell: &Cell| {
        let mut cells = rows.iter().flat_map(|row| &row.cells);
        cells.any(|(other, name)| other.name == program.name && cell.is_called(name))
    };
    let is_part = words.len() > 2 && !Regex::new(r"^[\d.]+$")?.is_match(&words);
    let rules: [Rule<'_>; 5] = [
        &|program, _| program.name == words,
        &|program, cell| in_rows(&of_item, program, cell),
        &|program, cell| {
            let name = words.strip_prefix(program.name).map_or(&*words, str::trim);
            let below = cell.section.strip_prefix(name);
            cell.is_called(name)
                || program.full_name(cell) == words
                || below.is_some_and(|rest| rest.starts_with('.'))
        },
        &|program, cell| in_rows(&rows, program, cell),
        &|program, cell| {
            let words = words.to_lowercase();
            let test = program.full_name(cell);
            let mut names = [program.name, program.title, &cell.title, &test].into_iter();
            is_part
                && program.tier != Tier::Errata
                && names.any(|name| name.to_lowercase().contains(&words))
        },
    ];
    let mut chosen = rules.into_iter().map(choose);
    if let Some(selections) = chosen.find(|found| !found.is_empty()) {
        return Ok(selections);
    }
    if let Some(row) = of_item.first().or(rows.first()) {
        bail!(
            "no notebook cell covers \"{}\"; instead, see what docs/book-map.md lists for this topic: {}",
            row.section,
            row.rust
        );
    }
    let programs = PROGRAMS.iter().map(|program| program.name);
    let items = all_rows.iter().flat_map(|row| &row.items);
    let items = items.filter_map(|item| item.rsplit("::").next());
    let names: BTreeSet<&str> = programs.clone().chain(items).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    let likeness = |name: &str| strsim::jaro_winkler(&plain(name), &plain(&words));
    names.sort_by(|one, other| likeness(other).total_cmp(&likeness(one)));
    bail!(
        "no notebook, section or cell has the name `{words}`; similar names are {}. Use the name of a notebook ({}), a section (3.6), a cell (\"In [36]\"), an exercise (ex3.2), a listing (\"Listing 3.5\"), a figure (\"Figure 3.18\"), an item (MultiHeadAttention) or an erratum that a cell demonstrates (B3)",
        names[..3].join(", "),
        programs.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn chosen(words: &str) -> BTreeSet<String> {
        let selections = select(Some(words)).expect(words);
        let names = selections.iter().flat_map(|selection| {
            let parts = selection.program.unrun();
            let cells = cells(&parts).filter(|cell| selection.has(cell));
            let names = cells.map(|cell| format!("{} {}", selection.program.name, cell.section));
            names.collect::<Vec<_>>()
        });
        names.collect()
    }

    fn rejection(words: &str) -> String {
        match select(Some(words)) {
            Ok(_) => panic!("`{words}` selects cells"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn words_select_what_a_reader_means() {
        for (words, sections) in [
            ("3.6", &["ch03 3.6.1", "ch03 3.6.2"][..]),
            ("3.6.2", &["ch03 3.6.2"]),
            ("ch3 3.6.2", &["ch03 3.6.2"]),
            ("ex2.1", &["ch02_exercises ex2.1"]),
            ("exercise 3.1", &["ch03_exercises ex3.1"]),
            ("exercise 3.2", &["ch03_exercises ex3.2"]),
            ("section 3.6", &["ch03 3.6.1", "ch03 3.6.2"]),
            ("ex5.2", &["training ex5.3"]),
            ("Figure 3.18", &["ch03 3.4.2"]),
            ("figure 4.12", &["ch04 4.4"]),
            ("DummyGPTModel", &["ch04 4.1"]),
            ("calc_loss_batch", &["ch05 5.1.2"]),
            ("ch03 In [36]", &["ch03 3.6.2"]),
            ("ch3 In [24]", &["ch03 3.4.2"]),
            ("5.2", &["ch05 5.2", "training 5.2"]),
            (
                "5.3",
                &[
                    "ch05 5.3.1",
                    "ch05 5.3.2",
                    "ch05 5.3.3",
                    "training 5.3",
                    "training 5.3.3",
                ],
            ),
            ("2.1", &["ch02 2.7"]),
            ("Listing 3.5", &["ch03 3.6.2"]),
            ("listing 5.4", &["training 5.3.3"]),
            ("gpt::LayerNorm", &["ch04 4.2"]),
            ("TransformerBlock", &["ch04 4.5", "ch04_exercises ex4.1"]),
            ("B3", &["errata B3"]),
        ] {
            assert_eq!(
                chosen(words),
                sections.iter().map(|&it| it.into()).collect(),
                "{words}"
            );
        }
        for name in ["ch3", "Ch03", "chapter 3", "Chapter 3"] {
            assert_eq!(chosen(name), chosen("ch03"), "{name}");
        }
        assert_eq!(chosen("ch3_exercises"), chosen("ch03_exercises"));
        for (theirs, ours) in [
            ("GPTModel", "gpt::GptModel"),
            ("GPTDatasetV1", "GptDataset"),
            ("GPT_CONFIG_124M", "gpt::GptConfig::GPT2_124M"),
            ("SelfAttention_v1", "SelfAttentionV1"),
            ("multi head attention", "MultiHeadAttention"),
        ] {
            assert_eq!(chosen(theirs), chosen(ours), "{theirs}");
        }
        assert!(chosen("SelfAttention_v1").contains("ch03 3.4.2"));
        for (words, answer) in [
            ("load_weights_into_gpt", "no notebook cell covers \"5.5"),
            ("MultiHedAttention", "MultiHeadAttention"),
        ] {
            assert!(rejection(words).contains(answer), "{words}");
        }
        assert!(chosen("MultiHeadAttention").contains("ch03 3.6.2"));
        assert!(select(None).unwrap().iter().all(|it| !it.trains));
    }

    /// The name of a notebook takes precedence over the text of titles. For example, "training"
    /// selects only the notebook with this name, although the word also occurs in the titles of
    /// other notebooks.
    #[test]
    fn the_name_of_a_notebook_selects_only_that_notebook() {
        for program in PROGRAMS {
            let selections = select(Some(program.name)).unwrap();
            let names: Vec<&str> = selections.iter().map(|it| it.program.name).collect();
            assert_eq!(names, [program.name]);
            assert_eq!(selections[0].trains, program.tier == Tier::Long);
        }
        let trains = |words| select(Some(words)).unwrap()[0].trains;
        assert!(!trains("5.2") && !trains("ch05"));
    }

    #[test]
    fn a_name_without_a_cell_is_rejected_in_one_line() {
        for (words, section, items) in [
            ("5.4", "5.4 saving and loading", "`checkpoint::save_book`"),
            (
                "3.7",
                "3.1, 3.2, 3.7 why attention, and the summary",
                "prose",
            ),
            (
                "Listing 5.5",
                "5.5 OpenAI's weights",
                "`checkpoint::load_model`",
            ),
        ] {
            let message = rejection(words);
            let start = format!(
                "no notebook cell covers \"{section}\"; instead, see what docs/book-map.md lists for this topic: {items}"
            );
            assert!(message.starts_with(&start), "{message}");
        }
        for words in ["6.1", "D.2", "ch07", "appendix D", "E", "9.9.9", "B2", ""] {
            let message = rejection(words);
            let start =
                format!("no notebook, section or cell has the name `{words}`; similar names are ");
            assert!(message.starts_with(&start), "{message}");
        }
    }
}
