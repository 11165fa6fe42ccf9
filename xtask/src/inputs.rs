//! `--set NAME=VALUE`: the inputs that a reader means, and their values, tried before anything
//! runs.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use notebooks::{Part, Settings, inputs, text};

use crate::select::Selection;

/// The inputs that are asked for, by notebook: the line of the call, and the value.
pub(crate) type Asked = HashMap<&'static str, Vec<(u32, String)>>;

/// The inputs that `set` names, of the chosen cells and of those before, on which they depend:
/// `seed=123` all of that name, `In [24].seed=123` one.
///
/// # Errors
/// A name is of no such input, which lists those that there are, or a value can't be taken.
pub(crate) fn find(set: &[String], selections: &[Selection]) -> Result<Asked> {
    let mut asked = Asked::new();
    for one in set {
        let (name, value) = one
            .split_once('=')
            .with_context(|| format!("`{one}` is not NAME=VALUE"))?;
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
            "no input is called `{name}`; the chosen cells have: {names}"
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

/// Runs the notebook without the cells that take long; its inputs come before them.
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
    fn a_name_is_all_inputs_of_that_name_and_a_cell_before_it_one() {
        let chosen = select(Some("3.4.2")).unwrap();
        let found = |set: &str| {
            find(&[set.to_owned()], &chosen)
                .map(|found| found.values().map(Vec::len).sum::<usize>())
        };
        let refused = |set: &str| found(set).unwrap_err().to_string();
        assert_eq!(found("seed=1").unwrap(), 3);
        assert_eq!(found("In [24].seed=1").unwrap(), 1);
        assert_eq!(found("d_out=4").unwrap(), 1, "of In [17], before");
        let error = refused("sed=1");
        assert!(
            error.starts_with(
                "no input is called `sed`; the chosen cells have: \"In [3].inputs\" (0.43 0.15"
            ) && error.ends_with("\"In [23].seed\" (123), \"In [24].seed\" (789)"),
            "{error}"
        );
        for (set, error) in [
            ("seed", "`seed` is not NAME=VALUE"),
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
