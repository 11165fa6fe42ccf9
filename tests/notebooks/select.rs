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
/// Nothing is chosen: says what there is.
pub fn select(filter: Option<&str>, errata: bool) -> Result<Vec<Selection>> {
    // `verify train` is older than the notebooks.
    let filter = filter.map(|filter| {
        if filter == "train" {
            "training"
        } else {
            filter
        }
    });
    let all = PROGRAMS
        .iter()
        .filter(|program| (program.tier == Tier::Errata) == errata);
    let mut outlines = Vec::new();
    for program in all {
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
    let Some(filter) = filter else {
        return Ok(chosen(&|program, _| program.tier != Tier::Long));
    };
    let rules = if is_section_number(filter) {
        &RULES[..RULES.len() - 1]
    } else {
        &RULES
    };
    for rule in rules {
        let selection = chosen(&|program, cell| {
            (program.tier != Tier::Long || program.name == filter) && rule(program, cell, filter)
        });
        if !selection.is_empty() {
            return Ok(selection);
        }
    }
    let names: Vec<&str> = outlines.iter().map(|(program, _)| program.name).collect();
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

    fn refusal(filter: &str) -> String {
        match select(Some(filter), false) {
            Ok(_) => panic!("`{filter}` chooses cells"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_sections_number_chooses_no_section_that_only_contains_it() {
        for filter in ["6.1", "1.1", "2.1", "3.1", "9.9.9"] {
            let message = refusal(filter);
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
}
