//! `--set NAME=VALUE`: the inputs that a reader means, and their values, tried before anything
//! runs.

use anyhow::{Context, Result, bail, ensure};
use notebooks::{Settings, inputs};

use crate::select::Selection;

/// An input that is asked for: its notebook, the line of its call, and the value.
type Asked = (&'static str, (u32, String));

/// The inputs that `set` names, of the chosen cells and of those before, on which they depend:
/// `seed=123` all of that name, `In [24].seed=123` one.
///
/// # Errors
/// A name is of no such input, which lists those that there are, or a value can't be taken.
pub(crate) fn find(set: &[String], selections: &[Selection]) -> Result<Vec<Asked>> {
    let mut asked: Vec<Asked> = Vec::new();
    for one in set {
        let (name, value) = one
            .split_once('=')
            .with_context(|| format!("`{one}` is not NAME=VALUE"))?;
        let (before, mut there) = (asked.len(), Vec::new());
        for selection in selections {
            let parts = run_small(selection, &[]);
            for (cell, input) in inputs(&parts).filter(|(cell, _)| selection.reaches(cell)) {
                let whole = cell.name_of(input);
                if name == whole || name == input.name {
                    asked.push((selection.program.name, (input.line, value.to_owned())));
                }
                there.push(format!("\"{whole}\" ({})", input.default));
            }
        }
        ensure!(
            asked.len() > before,
            "no input is called `{name}`; the chosen cells have {}",
            match there.is_empty() {
                true => "none".to_owned(),
                false => there.join(", "),
            }
        );
    }
    for selection in selections.iter().filter(|_| !asked.is_empty()) {
        let parts = run_small(selection, &asked);
        if let Some(fault) = inputs(&parts).find_map(|(_, input)| input.fault.clone()) {
            bail!(fault);
        }
    }
    Ok(asked)
}

/// The inputs among `asked` of one notebook.
pub(crate) fn of(selection: &Selection, asked: &[Asked]) -> Vec<(u32, String)> {
    let here = asked
        .iter()
        .filter(|(name, _)| *name == selection.program.name);
    here.map(|(_, input)| input.clone()).collect()
}

/// The notebook without the cells that take long; its inputs come before them.
fn run_small(selection: &Selection, asked: &[Asked]) -> Vec<notebooks::Part> {
    selection.program.run(&Settings {
        small: true,
        inputs: of(selection, asked),
        ..Settings::default()
    })
}

#[cfg(test)]
mod tests {
    use notebooks::{Outcome, cells};

    use super::*;
    use crate::select::select;

    #[test]
    fn a_name_is_all_inputs_of_that_name_and_a_cell_before_it_one() {
        let chosen = select(Some("3.4.2")).unwrap();
        let found = |set: &str| find(&[set.to_owned()], &chosen).map(|found| found.len());
        let refused = |set: &str| found(set).unwrap_err().to_string();
        assert_eq!(found("seed=1").unwrap(), 3);
        assert_eq!(found("In [24].seed=1").unwrap(), 1);
        assert_eq!(found("d_out=4").unwrap(), 1, "of In [17], before");
        let error = refused("sed=1");
        assert!(
            error.starts_with(
                "no input is called `sed`; the chosen cells have \"In [3].inputs\" (0.43 0.15"
            ) && error.ends_with("\"In [23].seed\" (123), \"In [24].seed\" (789)"),
            "{error}"
        );
        for (set, error) in [
            ("seed", "`seed` is not NAME=VALUE"),
            ("seed=abc", "the input seed: `abc` is not a whole number"),
            ("d_out=0", "the input d_out: 0, not within 1..=256"),
            (
                "inputs=1 2; 3",
                "the input inputs: a row has 1 numbers, the one before 2",
            ),
        ] {
            assert_eq!(refused(set), error);
        }
        let chosen = select(Some("5.1.1")).unwrap();
        let error = find(&["prompt=".to_owned()], &chosen).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the input prompt: 0 characters, not within 1..=500"
        );
    }

    #[test]
    fn another_seed_gives_the_tensor_of_exercise_3_1_and_what_follows_is_not_compared() {
        let chosen = select(Some("3.4.2")).unwrap();
        let asked = find(&["In [24].seed=123".to_owned()], &chosen).unwrap();
        let parts = chosen[0].program.run(&Settings {
            inputs: of(&chosen[0], &asked),
            ..Settings::default()
        });
        let ran = |name: &str| {
            let cell = cells(&parts).find(|cell| cell.name == name).unwrap();
            match &cell.outcome {
                Outcome::Ran(record) => (cell, record),
                other => panic!("{name}: {other:?}"),
            }
        };
        let (cell, record) = ran("In [24]");
        let start = "tensor([[-0.5337, -0.1051],";
        assert!(record.ours.starts_with(start), "{}", record.ours);
        assert!(cell.code.starts_with("let seed = 123;\n"), "{}", cell.code);
        assert_eq!(ran("In [23]").1.verdict.figures, 12);
        assert_eq!(ran("In [36]").1.verdict.figures, 0);
    }
}
