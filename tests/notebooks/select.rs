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

/// The cells that `filter` chooses: those of an exact name if there are any, else those of a section above, else those of a part of a name.
///
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
    for rule in RULES {
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
