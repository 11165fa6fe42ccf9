//! Which cells a reader's words choose: `ch3`, `3.6`, `"In [36]"`, `ex3.2`, `"Listing 3.5"`,
//! `MultiHeadAttention`.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use notebooks::{Cell, PROGRAMS, Program, Settings, Tier, cells, text};

use crate::documents::{Row, map};
use crate::workspace::print;

/// What is chosen, and what it runs with.
#[derive(Args)]
pub(crate) struct What {
    /// A notebook (ch3, training), a section (3.6), a cell ("In [36]"), an exercise (ex3.2), a
    /// listing ("Listing 3.5"), an item (MultiHeadAttention), or a part of a name.
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
    /// Whether it is run: a long one only by its own name.
    pub(crate) runs: bool,
    /// The lines of the cells.
    lines: HashSet<u32>,
}

impl Selection {
    /// Whether the cell is chosen.
    pub(crate) fn has(&self, cell: &Cell) -> bool {
        self.lines.contains(&cell.line)
    }
}

/// What was chosen, and the rows of the map that led there; rows alone, if no cell computes what
/// they name.
pub(crate) struct Chosen {
    pub(crate) selections: Vec<Selection>,
    pub(crate) rows: Vec<Row>,
}

impl Chosen {
    /// Prints what the map says, and whether that is all.
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

/// How to run the notebook that takes minutes.
pub(crate) const HOW_LONG: &str =
    "takes minutes and runs as a whole: cargo xtask verify training --book-text FILE";

/// Whether the words, or the rows of the map that they name, mean a cell.
type Rule = fn(&Program, &Cell, &str, &[Row]) -> bool;

/// The most exact first.
const RULES: [Rule; 5] = [
    |program, _, words, _| program.name == words,
    |program, cell, words, _| {
        let name = words.strip_prefix(program.name).map_or(words, str::trim);
        cell.is_called(name) || program.test_name(cell) == words
    },
    |_, cell, words, _| {
        let below = cell.section.strip_prefix(words);
        below.is_some_and(|rest| rest.starts_with('.'))
    },
    |program, cell, _, rows| {
        let mut cells = rows.iter().flat_map(|row| &row.cells);
        cells.any(|(other, name)| other.name == program.name && cell.is_called(name))
    },
    |program, cell, words, _| {
        let words = words.to_lowercase();
        let test = program.test_name(cell);
        let mut names = [program.name, program.title, &cell.title, &test].into_iter();
        !is_section_number(&words) && names.any(|name| name.to_lowercase().contains(&words))
    },
];

/// The rule that asks the map.
const BY_MAP: usize = 3;

/// Whether it is `3.6` or `3.6.2`: 5.2 is no part of 3.5.2.
fn is_section_number(words: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    words.contains('.') && words.split('.').all(is_number)
}

/// `ch3` is `ch03`; `train` is older than the notebooks.
fn as_named(words: &str) -> String {
    match words.strip_prefix("ch").map(str::as_bytes) {
        Some([b'2'..=b'9']) | Some([b'2'..=b'9', b'_', ..]) => format!("ch0{}", &words[2..]),
        _ if words == "train" => "training".to_owned(),
        _ => words.to_owned(),
    }
}

/// The cells that the words choose by the first rule that finds any.
///
/// The errata are chosen only where they are asked for.
///
/// # Errors
/// Nothing is chosen: says where it is, or what there is.
pub(crate) fn select(words: Option<&str>, errata: bool) -> Result<Chosen> {
    let words = words.map(as_named);
    let all: Vec<_> = PROGRAMS.iter().map(|it| (it, it.unrun(""))).collect();
    let choose = |tier: Tier, rule: &dyn Fn(&Program, &Cell) -> bool| -> Vec<Selection> {
        let of_tier = all.iter().filter(|(program, _)| program.tier == tier);
        let chosen = of_tier.map(|(program, parts)| Selection {
            program,
            runs: tier != Tier::Long || words.as_deref() == Some(program.name),
            lines: cells(parts)
                .filter(|cell| rule(program, cell))
                .map(|cell| cell.line)
                .collect(),
        });
        chosen.filter(|found| !found.lines.is_empty()).collect()
    };
    let Some(words) = words.as_deref() else {
        let tier = if errata { Tier::Errata } else { Tier::Everyday };
        let (selections, rows) = (choose(tier, &|_, _| true), Vec::new());
        return Ok(Chosen { selections, rows });
    };
    let rows: Vec<Row> = map()?
        .into_iter()
        .filter(|row| row.is_called(words))
        .collect();
    let tiers: &[Tier] = match errata {
        true => &[Tier::Errata],
        false => &[Tier::Everyday, Tier::Long],
    };
    let find = |tier: Tier| {
        let mut rules = RULES.iter().enumerate();
        rules.find_map(|(place, rule)| {
            let found = choose(tier, &|program, cell| rule(program, cell, words, &rows));
            (!found.is_empty()).then_some((place, found))
        })
    };
    if let Some((place, selections)) = tiers.iter().find_map(|&tier| find(tier)) {
        let rows = if place == BY_MAP { rows } else { Vec::new() };
        return Ok(Chosen { selections, rows });
    }
    if errata {
        let bugs = all
            .iter()
            .filter(|(program, _)| program.tier == Tier::Errata);
        let bugs = bugs.flat_map(|(_, parts)| cells(parts));
        let mut bugs: Vec<&str> = bugs.map(|bug| bug.section.as_str()).collect();
        bugs.dedup();
        bail!(
            "no bug that computes is called `{words}`: name one of {}; docs/errata.md also has those that compute nothing",
            bugs.join(", ")
        )
    }
    if find(Tier::Errata).is_some() {
        bail!("`{words}` is among the bugs of the documents: cargo xtask verify --errata {words}")
    }
    if !rows.is_empty() {
        let selections = Vec::new();
        return Ok(Chosen { selections, rows });
    }
    let names = PROGRAMS.iter().filter(|it| it.tier != Tier::Errata);
    let names: Vec<&str> = names.map(|program| program.name).collect();
    bail!(
        "nothing is called `{words}`: name a notebook ({}), a section (3.6), a cell (\"In [36]\"), an exercise (ex3.2), a listing (\"Listing 3.5\") or an item (MultiHeadAttention)",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn chosen(words: &str) -> BTreeSet<String> {
        let selections = select(Some(words), false).expect(words).selections;
        let names = selections.iter().flat_map(|selection| {
            let parts = selection.program.unrun("");
            let cells = cells(&parts).filter(|cell| selection.has(cell));
            let names = cells.map(|cell| format!("{} {}", selection.program.name, cell.section));
            names.collect::<Vec<_>>()
        });
        names.collect()
    }

    fn refusal(words: &str, errata: bool) -> String {
        match select(Some(words), errata) {
            Ok(_) => panic!("`{words}` chooses cells"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn words_choose_what_a_reader_means_by_them() {
        for (words, sections) in [
            ("3.6", &["ch03 3.6.1", "ch03 3.6.2"][..]),
            ("3.6.2", &["ch03 3.6.2"]),
            ("ex2.1", &["ch02_exercises ex2.1"]),
            (
                "exercise 3.1",
                &["ch03_exercises ex3.1", "notes_self_attention exercise-3.1"],
            ),
            ("ch03 In [36]", &["ch03 3.6.2"]),
            ("5.2", &["training 5.2"]),
            ("5.3", &["ch05 5.3.1", "ch05 5.3.2"]),
            ("2.1", &["ch02 2.7"]),
            ("Listing 3.5", &["ch03 3.6.2"]),
            ("listing 5.4", &["training 5.3.3"]),
            ("gpt::LayerNorm", &["ch04 4.2"]),
            ("TransformerBlock", &["ch04 4.5", "ch04_exercises ex4.1"]),
        ] {
            assert_eq!(
                chosen(words),
                sections.iter().map(|&it| it.into()).collect(),
                "{words}"
            );
        }
        assert_eq!(chosen("ch3"), chosen("ch03"));
        assert!(chosen("MultiHeadAttention").contains("ch03 3.6.2"));
        let runs = |words| select(Some(words), false).unwrap().selections[0].runs;
        assert!(runs("train") && !runs("5.2") && runs("5.3"));
    }

    #[test]
    fn what_no_cell_computes_is_answered_in_one_line() {
        for (words, answer) in [
            ("5.4", "5.4 saving and loading: `checkpoint::save_book`"),
            ("3.7", "3.1, 3.2, 3.7 why attention, and the summary: prose"),
            (
                "Listing 5.5",
                "5.5 OpenAI's weights, listing 5.5: `checkpoint::load_model`",
            ),
        ] {
            let chosen = select(Some(words), false).unwrap();
            assert!(chosen.selections.is_empty() && chosen.rows.len() == 1);
            let row = chosen.rows[0].to_string();
            assert!(row.starts_with(answer) && !row.contains('\n'), "{row}");
        }
        for (words, answer) in [
            ("9.9.9", "nothing is called `9.9.9`"),
            ("6.1", "nothing is called `6.1`"),
            (
                "B1",
                "`B1` is among the bugs of the documents: cargo xtask verify --errata B1",
            ),
        ] {
            let message = refusal(words, false);
            assert!(
                message.starts_with(answer) && !message.contains('\n'),
                "{message}"
            );
        }
        assert!(select(Some("B1"), true).is_ok());
        let message = refusal("B2", true);
        let start = "no bug that computes is called `B2`: name one of B1, B3, B4, B5, B6, B7, B9, B10, B12, B13, B14, B15, B17, B19;";
        assert!(message.starts_with(start), "{message}");
    }
}
