//! The cells that a reader's words choose: `ch3`, `3.6`, `"In [36]"`, `ex3.2`, `"Listing 3.5"`,
//! `MultiHeadAttention`.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use notebooks::{Cell, PROGRAMS, Part, Program, Settings, Tier, cells, text};

use crate::documents::{Row, map};
use crate::workspace::print;

/// The words, and the text to run with.
#[derive(Args)]
pub(crate) struct What {
    /// A notebook (ch3, training, errata), a section (3.6), a cell ("In [36]"), an exercise
    /// (ex3.2), a listing ("Listing 3.5"), an item (MultiHeadAttention), a bug of the documents
    /// (B3), or a part of a name.
    pub(crate) filter: Option<String>,
    /// The book's text (the-verdict.txt), which some cells need; `$BOOK_TEXT` names it too.
    #[arg(long, value_name = "FILE")]
    book_text: Option<PathBuf>,
}

impl What {
    /// The settings of the run.
    ///
    /// # Errors
    /// The book's text can't be read, or it is another one.
    pub(crate) fn settings(&self) -> Result<Settings> {
        text::settings(self.book_text.as_deref())
    }
}

/// A notebook and its chosen cells.
pub(crate) struct Selection {
    /// The notebook.
    pub(crate) program: &'static Program,
    /// True if it trains: it is named, and not a cell of it.
    pub(crate) trains: bool,
    /// The lines of the cells.
    lines: HashSet<u32>,
}

impl Selection {
    /// True for a chosen cell.
    pub(crate) fn has(&self, cell: &Cell) -> bool {
        self.lines.contains(&cell.line)
    }

    /// True for all up to the last chosen cell, on which the chosen ones may depend.
    pub(crate) fn reaches(&self, cell: &Cell) -> bool {
        self.lines.iter().any(|line| cell.line <= *line)
    }
}

/// The chosen cells, and the rows of the map that led there; rows alone, if no cell computes what
/// they name.
pub(crate) struct Chosen {
    pub(crate) selections: Vec<Selection>,
    pub(crate) rows: Vec<Row>,
}

impl Chosen {
    /// Prints the rows of the map.
    pub(crate) fn print_rows(&self) -> Result<()> {
        for row in &self.rows {
            let end = match self.selections.is_empty() {
                true => "; no cell computes it (docs/book-map.md)",
                false => "",
            };
            print(&format!("{row}{end}\n"))?;
        }
        Ok(())
    }
}

/// True if the words, or the rows of the map that they name, mean a cell.
type Rule = fn(&Program, &Cell, &str, &[Row]) -> bool;

/// Names, then the map, then parts of names.
const RULES: [Rule; 4] = [
    |program, _, words, _| program.name == words,
    |program, cell, words, _| {
        let name = words.strip_prefix(program.name).map_or(words, str::trim);
        let below = cell.section.strip_prefix(name);
        cell.is_called(name)
            || program.full_name(cell) == words
            || below.is_some_and(|rest| rest.starts_with('.'))
    },
    |program, cell, _, rows| {
        let mut cells = rows.iter().flat_map(|row| &row.cells);
        cells.any(|(other, name)| other.name == program.name && cell.is_called(name))
    },
    |program, cell, words, _| {
        let words = words.to_lowercase();
        let test = program.full_name(cell);
        let mut names = [program.name, program.title, &cell.title, &test].into_iter();
        program.tier != Tier::Errata
            && words.len() > 2
            && !is_section_number(&words)
            && names.any(|name| name.to_lowercase().contains(&words))
    },
];

/// The rule that asks the map.
const BY_MAP: usize = 2;

/// True for `3.6` or `3.6.2`: 5.2 is no part of 3.5.2.
fn is_section_number(words: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    words.contains('.') && words.split('.').all(is_number)
}

/// The names that notebooks have: `ch3 In [24]` is `ch03 In [24]`, `chapter 3` is `ch03`, and
/// `train` is older than the notebooks.
fn as_named(words: &str) -> String {
    let lower = words.to_lowercase();
    let number = lower.strip_prefix("chapter").or(lower.strip_prefix("ch"));
    let number = number.map(|rest| rest.trim_start().trim_start_matches('0'));
    match number.and_then(|rest| rest.bytes().next()) {
        Some(b'1'..=b'9') => {
            let rest = &words[words.len() - number.map_or(0, str::len)..];
            format!("ch0{rest}")
        }
        _ if words == "train" => "training".to_owned(),
        _ => words.to_owned(),
    }
}

/// True for a chapter, an appendix or a section of the book that no notebook is of: `6.1`, `ch07`,
/// `D.2`, `appendix D`.
fn is_elsewhere(words: &str) -> bool {
    let words = words.strip_prefix("ch0").unwrap_or(words);
    let (first, rest) = words.split_at(words.len().min(1));
    words.to_lowercase().starts_with("appendix")
        || (rest.is_empty() || rest.starts_with('.'))
            && matches!(first, "1" | "6" | "7" | "A" | "B" | "C" | "D" | "E")
}

/// The cells that the words choose by the first rule that finds any, in whatever notebook.
///
/// Without words these are the cells of the everyday notebooks.
///
/// # Errors
/// Nothing is chosen: says where it is, or what there is.
pub(crate) fn select(words: Option<&str>) -> Result<Chosen> {
    let words = words.map(as_named);
    let all: Vec<(&Program, Vec<Part>)> = PROGRAMS.iter().map(|it| (it, it.unrun())).collect();
    let choose = |rule: &dyn Fn(&Program, &Cell) -> bool| -> Vec<Selection> {
        let chosen = all.iter().map(|(program, parts)| Selection {
            program,
            trains: program.tier == Tier::Long && words.as_deref() == Some(program.name),
            lines: cells(parts)
                .filter(|cell| rule(program, cell))
                .map(|cell| cell.line)
                .collect(),
        });
        chosen.filter(|found| !found.lines.is_empty()).collect()
    };
    let Some(words) = words.as_deref() else {
        let selections = choose(&|program, _| program.tier == Tier::Everyday);
        let rows = Vec::new();
        return Ok(Chosen { selections, rows });
    };
    let mut rows = map()?;
    rows.retain(|row| row.is_called(words));
    for (place, rule) in RULES.iter().enumerate() {
        let selections = choose(&|program, cell| rule(program, cell, words, &rows));
        if !selections.is_empty() {
            rows.retain(|_| place == BY_MAP);
            return Ok(Chosen { selections, rows });
        }
    }
    if !rows.is_empty() {
        let selections = Vec::new();
        return Ok(Chosen { selections, rows });
    }
    if is_elsewhere(words) {
        bail!("no cell is of `{words}`: chapters 2 to 5 are here");
    }
    let names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
    bail!(
        "nothing is called `{words}`: name a notebook ({}), a section (3.6), a cell (\"In [36]\"), an exercise (ex3.2), a listing (\"Listing 3.5\"), an item (MultiHeadAttention) or a bug that computes (B3; docs/errata.md has all)",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn chosen(words: &str) -> BTreeSet<String> {
        let selections = select(Some(words)).expect(words).selections;
        let names = selections.iter().flat_map(|selection| {
            let parts = selection.program.unrun();
            let cells = cells(&parts).filter(|cell| selection.has(cell));
            let names = cells.map(|cell| format!("{} {}", selection.program.name, cell.section));
            names.collect::<Vec<_>>()
        });
        names.collect()
    }

    fn refusal(words: &str) -> String {
        match select(Some(words)) {
            Ok(_) => panic!("`{words}` chooses cells"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn words_choose_what_a_reader_means_by_them() {
        for (words, sections) in [
            ("3.6", &["ch03 3.6.1", "ch03 3.6.2"][..]),
            ("3.6.2", &["ch03 3.6.2"]),
            ("ch3 3.6.2", &["ch03 3.6.2"]),
            ("ex2.1", &["ch02_exercises ex2.1"]),
            (
                "exercise 3.1",
                &["ch03_exercises ex3.1", "notes_self_attention exercise-3.1"],
            ),
            ("ch03 In [36]", &["ch03 3.6.2"]),
            ("ch3 In [24]", &["ch03 3.4.2"]),
            ("5.2", &["training 5.2"]),
            (
                "5.3",
                &["ch05 5.3.1", "ch05 5.3.2", "training 5.3", "training 5.3.3"],
            ),
            ("2.1", &["ch02 2.7"]),
            ("Listing 3.5", &["ch03 3.6.2"]),
            ("listing 5.4", &["training 5.3.3"]),
            ("gpt::LayerNorm", &["ch04 4.2"]),
            ("TransformerBlock", &["ch04 4.5", "ch04_exercises ex4.1"]),
            ("B3", &["errata B3"]),
            (
                "training",
                &[
                    "training 5.2",
                    "training 5.3",
                    "training 5.3.3",
                    "training ex5.3",
                    "training ex5.4",
                ],
            ),
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
        assert!(chosen("MultiHeadAttention").contains("ch03 3.6.2"));
        assert!(select(None).unwrap().selections.iter().all(|it| !it.trains));
    }

    /// "Training" is a part of titles, too.
    #[test]
    fn a_notebook_s_name_chooses_it_whatever_else_has_a_part_of_that_name() {
        for program in PROGRAMS {
            let selections = select(Some(program.name)).unwrap().selections;
            let names: Vec<&str> = selections.iter().map(|it| it.program.name).collect();
            assert_eq!(names, [program.name]);
            assert_eq!(selections[0].trains, program.tier == Tier::Long);
        }
        let trains = |words| select(Some(words)).unwrap().selections[0].trains;
        assert!(trains("train") && !trains("5.2") && !trains("ch05"));
    }

    #[test]
    fn a_name_without_a_cell_is_answered_in_one_line() {
        for (words, answer) in [
            ("5.4", "5.4 saving and loading: `checkpoint::save_book`"),
            ("3.7", "3.1, 3.2, 3.7 why attention, and the summary: prose"),
            (
                "Listing 5.5",
                "5.5 OpenAI's weights, listing 5.5: `checkpoint::load_model`",
            ),
        ] {
            let chosen = select(Some(words)).unwrap();
            assert!(chosen.selections.is_empty() && chosen.rows.len() == 1);
            let row = chosen.rows[0].to_string();
            assert!(row.starts_with(answer) && !row.contains('\n'), "{row}");
        }
        for words in ["6.1", "D.2", "chapter 7", "appendix D", "E"] {
            let message = refusal(words);
            assert!(message.ends_with("chapters 2 to 5 are here"), "{message}");
        }
        for words in ["9.9.9", "B2", "In [99]", ""] {
            let message = refusal(words);
            let start = format!("nothing is called `{words}`: name ");
            assert!(
                message.starts_with(&start) && !message.contains('\n'),
                "{message}"
            );
        }
    }
}
