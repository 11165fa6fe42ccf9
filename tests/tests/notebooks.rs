//! Every cell of every notebook, and every input of every notebook at its bounds and between.

use std::collections::BTreeSet;
use std::str::FromStr;

use ::notebooks::{InputValue, Outcome, PROGRAMS, Part, Program, Settings, cells, inputs, text};

/// The names of the lost cells and of those that disagree, each with the reason.
fn faults(program: &Program, parts: &[Part]) -> Vec<String> {
    let faults = cells(parts).filter_map(|cell| {
        let fault = match &cell.outcome {
            Outcome::Ran(record) if record.verdict.faults.is_empty() => return None,
            Outcome::Ran(record) => record.verdict.faults.join("\n"),
            Outcome::Skipped(_) => return None,
            Outcome::Lost(fault) => fault.clone(),
        };
        Some(format!("{}: {fault}", program.full_name(cell)))
    });
    faults.collect()
}

/// The faults but those that two inputs make together: a width that the number of heads doesn't
/// divide is refused by both numbers.
fn faults_of_inputs(program: &Program, parts: &[Part]) -> Vec<String> {
    let mut faults = faults(program, parts);
    faults.retain(|fault| {
        let numbers = fault.split_once("must be divisible by n_heads, but emb_dim is ");
        let numbers = numbers.and_then(|(_, numbers)| numbers.split_once(" and n_heads is "));
        let is_refused = numbers.is_some_and(|(width, heads)| {
            let [width, heads] = [width, heads].map(number::<usize>);
            !width.is_multiple_of(heads)
        });
        // A tokenizer with the words of one text refuses others.
        !is_refused
            && !["unknown token", "has one batch only"]
                .iter()
                .any(|it| fault.contains(it))
    });
    faults
}

/// One notebook after the other, as two large models don't fit beside each other; the training
/// alone is skipped, and without `$BOOK_TEXT` what needs the book's text.
#[test]
fn every_cell_computes_what_its_document_prints() {
    let settings = text::settings(None).expect("the book's text");
    let mut skipped = BTreeSet::new();
    let mut all = Vec::new();
    for program in PROGRAMS {
        let parts = program.run(&settings);
        all.extend(faults(program, &parts));
        skipped.extend(cells(&parts).filter_map(|cell| match &cell.outcome {
            Outcome::Skipped(why) => Some(why.clone()),
            _ => None,
        }));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(skipped.len() <= 2, "{skipped:?}");
}

/// Without the book's text a reader sees every cell on the story, but those that take minutes.
#[test]
fn every_cell_runs_on_the_story() {
    for program in PROGRAMS {
        let parts = program.run(&Settings {
            other_text: Some(text::STORY),
            ..Settings::default()
        });
        assert_eq!(faults(program, &parts), Vec::<String>::new());
        for cell in cells(&parts) {
            if let Outcome::Skipped(why) = &cell.outcome {
                assert!(
                    !why.contains("needs the book's text"),
                    "{}: {why}",
                    program.full_name(cell)
                );
            }
        }
    }
}

/// A bound.
fn number<T: FromStr>(text: &str) -> T {
    text.parse().ok().expect("a number")
}

/// Values at the bounds of an input and between them, in a reader's form; one more is beyond.
fn values(input: &InputValue) -> (Vec<String>, Option<String>) {
    let (low, high) = input.bounds.split_once("..").expect("a range");
    let high = high.trim_start_matches('=');
    if input.default.contains(';') {
        let matrix = |rows: usize, columns: usize| {
            let row = (0..columns).map(|column| format!("0.{}", 1 + column % 9));
            let row: Vec<String> = row.collect();
            vec![row.join(" "); rows].join("; ")
        };
        let (low, high): (usize, usize) = (number(low), number(high));
        let shapes = [
            (low, 1),
            (2, low / 2),
            (2, high / 2),
            (high / 2, 2),
            (high, 1),
        ];
        let around = [(5, 3), (6, 2), (6, 4), (7, 3)];
        let all = shapes.iter().chain(&around);
        let all = all.map(|(rows, columns)| matrix(*rows, *columns));
        return (all.collect(), Some(matrix(high + 1, 1)));
    }
    let is_whole = !low.contains('.');
    if let (true, Ok(default)) = (is_whole, input.default.parse::<u64>()) {
        let low = low.parse().unwrap_or(0);
        let beyond = high.parse::<u64>().map(|high| (high + 1).to_string());
        let high: u64 = high.parse().unwrap_or(u64::MAX);
        let between = [low + 1, 3, 7, default + 1];
        let between = between
            .into_iter()
            .filter(|value| (low..=high).contains(value));
        let all = [low, high].into_iter().chain(between);
        return (all.map(|value| value.to_string()).collect(), beyond.ok());
    }
    if input.default.parse::<f64>().is_ok() {
        let (low, high): (f64, f64) = (number(low), number(high));
        let all = [low, high, (low + high) / 2.0, low + (high - low) / 7.0];
        let all = all.map(|value| value.to_string());
        return (all.to_vec(), Some((high + 1.0).to_string()));
    }
    if input.default.parse::<bool>().is_ok() {
        let both = ["true", "false"].map(str::to_owned);
        return (both.to_vec(), Some("perhaps".to_owned()));
    }
    let high: usize = number(high);
    let characters = |length: usize| "a, 日é<|endoftext|>".chars().cycle().take(length);
    let lengths = [low.parse().unwrap_or(0), 1, 19, high / 2, high];
    let all = lengths.map(|length| characters(length).collect());
    (all.to_vec(), Some("x".repeat(high + 1)))
}

/// Runs a notebook as a page does, with pictures.
fn run_with(program: &Program, inputs: Vec<(u32, String)>) -> Vec<Part> {
    program.run(&Settings {
        draws: true,
        small: true,
        inputs,
        other_text: Some(text::STORY),
        ..Settings::default()
    })
}

#[test]
fn every_input_computes_at_its_bounds_and_between_and_a_value_beyond_loses_its_own_cell_alone() {
    let mut tried = 0;
    for program in PROGRAMS {
        let parts = run_with(program, vec![]);
        let all: Vec<&InputValue> = inputs(&parts).map(|(_, input)| input).collect();
        for input in &all {
            let (within, beyond) = values(input);
            for value in within {
                let parts = run_with(program, vec![(input.line, value.clone())]);
                let faults = faults_of_inputs(program, &parts);
                assert!(faults.is_empty(), "{} = {value}: {faults:?}", input.name);
                tried += 1;
            }
            let Some(beyond) = beyond else { continue };
            let parts = run_with(program, vec![(input.line, beyond)]);
            let lost = cells(&parts).filter(|cell| matches!(cell.outcome, Outcome::Lost(_)));
            let lost: Vec<_> = lost.map(|cell| cell.inputs.clone()).collect();
            assert!(lost.len() == 1, "{}", input.name);
            assert!(
                lost[0]
                    .iter()
                    .any(|it| it.line == input.line && it.fault.is_some())
            );
        }
        // All at once, as one notebook's inputs may bear on each other.
        for place in 0..6 {
            let values = all.iter().map(|input| {
                let (within, _) = values(input);
                (input.line, within[place % within.len()].clone())
            });
            let values: Vec<_> = values.collect();
            let faults = faults_of_inputs(program, &run_with(program, values.clone()));
            assert!(faults.is_empty(), "{values:?}: {faults:?}");
        }
    }
    assert!(tried > 150, "{tried} values");
}
