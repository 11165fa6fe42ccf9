//! Which cells a reader's words choose: `ch03`, `3.6`, `"In [36]"`, `ex3.2`.

use anyhow::{Result, bail};

use crate::{Cell, PROGRAMS, Program, Tier};

/// A notebook and its chosen cells.
pub struct Selection {
    /// The notebook.
    pub program: &'static Program,
    /// Its cells, in order.
    pub cells: Vec<Cell>,
}

/// How a name is compared with the filter, the most exact first.
const RULES: [fn(&Program, &Cell, &str) -> bool; 4] = [
    |program, _, filter| program.name == filter,
    |program, cell, filter| {
        let Cell {
            section,
            cell: name,
            ..
        } = cell;
        [section.as_str(), name, &cell.name].contains(&filter)
            || [format!("{} {name}", program.name), test_name(program, cell)]
                .contains(&filter.to_owned())
    },
    |_, cell, filter| {
        cell.section
            .strip_prefix(filter)
            .is_some_and(|rest| rest.starts_with('.'))
    },
    |program, cell, filter| {
        let filter = filter.to_lowercase();
        [
            program.name,
            program.title,
            &cell.title,
            &test_name(program, cell),
        ]
        .iter()
        .any(|text| text.to_lowercase().contains(&filter))
    },
];

/// `ch03::3.6.2::In [36]`.
pub fn test_name(program: &Program, cell: &Cell) -> String {
    format!("{}::{}::{}", program.name, cell.section, cell.name)
}

/// Whether it is `3.6` or `3.6.2`.
fn is_section_number(filter: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    filter.contains('.') && filter.split('.').all(is_number)
}

/// The cells that `filter` chooses: those of an exact name if there are any, else those of a section above, else those of a part of a name.
///
/// A section's number is no part of a name: 5.2 is not in 3.5.2.
/// A long notebook or the errata run only by their own names.
///
/// # Errors
/// Nothing is chosen: says where it is, or what there is.
pub fn select(filter: Option<&str>, errata: bool) -> Result<Vec<Selection>> {
    // `verify train` is older than the notebooks.
    let filter = filter.map(|filter| {
        if filter == "train" {
            "training"
        } else {
            filter
        }
    });
    let mut outlines = Vec::new();
    for program in PROGRAMS {
        outlines.push((program, program.outline()?));
    }
    let chosen = |rule: &dyn Fn(&Program, &Cell) -> bool| -> Vec<Selection> {
        let cells = outlines.iter().map(|(program, outline)| {
            let cells = outline
                .cells()
                .filter(|cell| rule(program, cell))
                .cloned()
                .collect();
            Selection { program, cells }
        });
        cells
            .filter(|selection| !selection.cells.is_empty())
            .collect()
    };
    let runs = |program: &Program| match program.tier {
        Tier::Everyday => !errata,
        Tier::Long => !errata && filter == Some(program.name),
        Tier::Errata => errata,
    };
    let Some(filter) = filter else {
        return Ok(chosen(&|program, _| runs(program)));
    };
    let rules = if is_section_number(filter) {
        &RULES[..RULES.len() - 1]
    } else {
        &RULES
    };
    for rule in rules {
        let selection = chosen(&|program, cell| runs(program) && rule(program, cell, filter));
        if !selection.is_empty() {
            return Ok(selection);
        }
    }
    if errata {
        let bugs = chosen(&|program, _| runs(program)).remove(0).cells;
        let mut bugs: Vec<&str> = bugs.iter().map(|bug| bug.section.as_str()).collect();
        bugs.dedup();
        bail!(
            "no bug that computes is called `{filter}`: name one of {}; docs/errata.md also has those that compute nothing",
            bugs.join(", ")
        )
    }
    for rule in rules {
        match chosen(&|program, cell| rule(program, cell, filter)).first() {
            Some(found) if found.program.tier == Tier::Errata => bail!(
                "`{filter}` is among the bugs of the documents: cargo xtask verify --errata {filter}"
            ),
            Some(Selection { program, .. }) => bail!(
                "`{filter}` is in the notebook `{name}`, which runs as a whole: cargo xtask verify {name} --book-text FILE",
                name = program.name
            ),
            None => {}
        }
    }
    let names = PROGRAMS
        .iter()
        .filter(|program| program.tier != Tier::Errata);
    let names: Vec<&str> = names.map(|program| program.name).collect();
    bail!(
        "nothing is called `{filter}`: name a notebook ({}), a section (3.6), a cell (\"In [36]\") or an exercise (ex3.2)",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn sections(filter: &str) -> BTreeSet<String> {
        let selections = select(Some(filter), false).unwrap();
        let cells = selections.into_iter().flat_map(|selection| selection.cells);
        cells.map(|cell| cell.section).collect()
    }

    fn refusal(filter: &str, errata: bool) -> String {
        match select(Some(filter), errata) {
            Ok(_) => panic!("`{filter}` chooses cells"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_sections_number_chooses_no_section_that_only_contains_it() {
        for filter in ["6.1", "1.1", "2.1", "3.1", "9.9.9"] {
            let message = refusal(filter, false);
            let start = format!("nothing is called `{filter}`");
            assert!(message.starts_with(&start), "{message}");
        }
        assert_eq!(sections("3.6"), ["3.6.1", "3.6.2"].map(String::from).into());
        assert_eq!(sections("3.6.2"), ["3.6.2".to_owned()].into());
        assert_eq!(sections("ex2.1"), ["ex2.1".to_owned()].into());
        assert_eq!(
            sections("exercise 3.1"),
            ["ex3.1", "exercise-3.1"].map(String::from).into()
        );
    }

    #[test]
    fn a_name_of_the_long_notebook_is_answered_with_how_to_run_it() {
        for filter in ["training In [27]", "5.2", "5.3.3", "ex5.3", "ex5.4"] {
            let message = refusal(filter, false);
            assert_eq!(
                message,
                format!(
                    "`{filter}` is in the notebook `training`, which runs as a whole: cargo xtask verify training --book-text FILE"
                )
            );
        }
        assert_eq!(sections("5.3"), ["5.3.1", "5.3.2"].map(String::from).into());
        assert!(select(Some("train"), false).is_ok());
    }

    #[test]
    fn a_bug_is_answered_with_how_to_run_it_and_one_that_computes_nothing_with_those_that_do() {
        let message = refusal("B1", false);
        assert!(message.ends_with("verify --errata B1"), "{message}");
        assert!(select(Some("B1"), true).is_ok());
        let message = refusal("B2", true);
        let start = "no bug that computes is called `B2`: name one of B1, B3, B4, B5, B6, B7, B9, B10, B12, B13, B14, B15, B17, B19;";
        assert!(message.starts_with(start), "{message}");
    }
}
