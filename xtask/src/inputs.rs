//! The option `--set NAME=VALUE`, which changes inputs of notebook cells. Names and values are
//! checked before the notebooks run.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use notebooks::{Part, Settings, inputs, text};

use crate::select::Selection;

/// The requested changes for each notebook, by the notebook's name. A change consists of the number
/// of the source line that declares the input, and the new value.
pub(crate) type InputChanges = HashMap<&'static str, Vec<(u32, String)>>;

/// Finds the inputs that the user wants to change with the option `--set`. A name without a cell,
/// as in `seed=123`, refers to all inputs of that name, whereas `In [24].seed=123` refers to a
/// single input. The cells before the selected cells are also searched, because the selected cells
/// may depend on them.
///
/// # Errors
///
/// Returns an error if there is no input of that name, or if the new value isn't valid. If the
/// input doesn't exist, the message lists the available inputs.
pub(crate) fn find(set: &[String], selections: &[Selection]) -> Result<InputChanges> {
    let mut asked = InputChanges::new();
    for one in set {
        let (name, value) = one.split_once('=').with_context(|| {
            format!("an input must be given as NAME=VALUE (such as seed=123), got `{one}`")
        })?;
        let (mut found, mut names) = (false, Vec::new());
        for selection in selections {
            let parts = run_small(selection, vec![]);
            for (cell, input) in inputs(&parts).filter(|(cell, _)| selection.reaches(cell)) {
                let whole = cell.name_of(input);
                if name == whole || name == input.name {
                    let here = asked.entry(selection.program.name).or_default();
                    here.push((input.line, value.to_owned()));
                    found = true;
                }
                names.push(format!("\"{whole}\" ({})", input.default));
            }
        }
        let names = names.join(", ");
        ensure!(
            found,
            "there is no input `{name}`; the selected cells have these inputs: {names}"
        );
    }
    for selection in selections {
        if let Some(inputs_here) = asked.get(selection.program.name) {
            let parts = run_small(selection, inputs_here.clone());
            if let Some(fault) = inputs(&parts).find_map(|(_, input)| input.fault.clone()) {
                bail!(fault);
            }
        }
    }
    Ok(asked)
}

/// Runs a notebook without the cells that take a long time, in order to find its inputs.
fn run_small(selection: &Selection, inputs: Vec<(u32, String)>) -> Vec<Part> {
    selection.program.run(&Settings {
        small: true,
        other_text: Some(text::STORY),
        inputs,
        ..Settings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::select;

    #[test]
    fn a_name_stands_for_all_inputs_of_that_name_and_a_cell_selects_one() {
        let chosen = select(Some("3.4.2")).unwrap();
        let found = |set: &str| {
            find(&[set.to_owned()], &chosen)
                .map(|found| found.values().map(Vec::len).sum::<usize>())
        };
        let refused = |set: &str| found(set).unwrap_err().to_string();
        assert_eq!(found("seed=1").unwrap(), 3);
        assert_eq!(found("In [24].seed=1").unwrap(), 1);
        assert_eq!(
            found("d_out=4").unwrap(),
            1,
            "of In [17], which comes before"
        );
        let error = refused("sed=1");
        assert!(
            error.starts_with(
                "there is no input `sed`; the selected cells have these inputs: \"In [3].inputs\" (0.43 0.15"
            ) && error.ends_with("\"In [23].seed\" (123), \"In [24].seed\" (789)"),
            "{error}"
        );
        for (set, error) in [
            (
                "seed",
                "an input must be given as NAME=VALUE (such as seed=123), got `seed`",
            ),
            (
                "seed=abc",
                "the input seed: `abc` is not a whole number from -9223372036854775808 to 18446744073709551615",
            ),
            ("d_out=0", "the input d_out: expected 1 to 256, got 0"),
            (
                "inputs=1 2; 3",
                "the input inputs: all rows must have the same length, but row 1 has 2 and row 2 has 1",
            ),
        ] {
            assert_eq!(refused(set), error);
        }
        let chosen = select(Some("5.1.1")).unwrap();
        let error = find(&["prompt=".to_owned()], &chosen).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the input prompt: expected 1 to 500, got 0 characters"
        );
    }
}
