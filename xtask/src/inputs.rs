//! `--set NAME=VALUE`: which inputs of the chosen cells a reader means.

use anyhow::{Context, Result, bail};
use notebooks::{Part, Settings, inputs};

use crate::select::Selection;

/// An input that is asked for: its notebook, the line of its call, and the value.
type Asked = (&'static str, (u32, String));

/// The inputs that `set` names, `seed=123` or `In [24].seed=123`.
///
/// # Errors
/// A name is of none of the chosen cells: lists those that there are.
pub(crate) fn find(set: &[String], selections: &[Selection]) -> Result<Vec<Asked>> {
    let mut asked = Vec::new();
    if set.is_empty() {
        return Ok(asked);
    }
    // Defaults as a reader would write them are known where their calls have run.
    let small = Settings {
        small: true,
        ..Settings::default()
    };
    let runs = selections.iter().map(|it| (it, it.program.run(&small)));
    let runs: Vec<(&Selection, Vec<Part>)> = runs.collect();
    for one in set {
        let (name, value) = one
            .split_once('=')
            .with_context(|| format!("`{one}` is not NAME=VALUE"))?;
        let (of, name) = match name.rsplit_once('.') {
            Some((cell, name)) => (Some(cell), name),
            None => (None, name),
        };
        let (before, mut there) = (asked.len(), Vec::new());
        for (selection, parts) in &runs {
            for (cell, input) in inputs(parts).filter(|(cell, _)| selection.has(cell)) {
                there.push(format!("\"{}\" ({})", cell.name_of(input), input.default));
                if input.name == name && of.is_none_or(|of| cell.is_called(of)) {
                    asked.push((selection.program.name, (input.line, value.to_owned())));
                }
            }
        }
        if asked.len() == before {
            let there = match there.is_empty() {
                true => "the chosen cells have none".to_owned(),
                false => format!("there are {}", there.join(", ")),
            };
            bail!("no input is called `{one}`: {there}");
        }
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use notebooks::{Outcome, cells};

    use super::*;
    use crate::select::select;

    #[test]
    fn a_name_is_all_inputs_of_that_name_and_a_cell_before_it_one() {
        let chosen = select(Some("3.4.2"), false).unwrap().selections;
        let found = |set: &str| find(&[set.to_owned()], &chosen).map(|found| found.len());
        assert_eq!(found("seed=1").unwrap(), 2);
        assert_eq!(found("In [24].seed=1").unwrap(), 1);
        assert_eq!(found("d_out=4").unwrap(), 1);
        let error = found("sed=1").unwrap_err().to_string();
        assert!(
            error
                .ends_with("\"In [23].d_out\" (2), \"In [23].seed\" (123), \"In [24].seed\" (789)"),
            "{error}"
        );
        let chosen = select(Some("4.7"), false).unwrap().selections;
        let error = find(&["text=a".to_owned()], &chosen).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("\"In [30].prompt\" (Hello, I am)"),
            "{error}"
        );
        assert!(found("seed").is_err());
    }

    #[test]
    fn another_seed_gives_the_tensor_of_exercise_3_1_and_what_follows_is_not_compared() {
        let chosen = select(Some("3.4.2"), false).unwrap().selections;
        let asked = find(&["In [24].seed=123".to_owned()], &chosen).unwrap();
        let settings = |text: &str| Settings {
            inputs: asked
                .iter()
                .map(|(_, (line, _))| (*line, text.to_owned()))
                .collect(),
            ..Settings::default()
        };
        let parts = chosen[0].program.run(&settings("123"));
        let ran = |name: &str| {
            let cell = cells(&parts).find(|cell| cell.name == name).unwrap();
            match &cell.outcome {
                Outcome::Ran(record) => (cell, record),
                other => panic!("{name}: {other:?}"),
            }
        };
        let (cell, record) = ran("In [24]");
        assert!(
            record.ours.starts_with("tensor([[-0.5337, -0.1051],"),
            "{}",
            record.ours
        );
        assert!(cell.code.starts_with("let seed = 123;\n"), "{}", cell.code);
        assert_eq!(ran("In [23]").1.verdict.figures, 12);
        assert_eq!(ran("In [36]").1.verdict.figures, 0);
        let lost = chosen[0].program.run(&settings("x"));
        let lost = cells(&lost).find(|cell| cell.name == "In [24]").unwrap();
        let Outcome::Lost(fault) = &lost.outcome else {
            panic!("{:?}", lost.outcome)
        };
        assert!(
            fault.contains("the input seed: `x` is not a whole number"),
            "{fault}"
        );
    }
}
