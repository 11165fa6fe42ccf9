//! Tests that every notebook cell computes the output that its original document shows, and that
//! all notebooks also run with other valid values of their inputs.

use std::collections::BTreeSet;
use std::str::FromStr;

use ::notebooks::{InputValue, Outcome, PROGRAMS, Part, Program, Settings, cells, inputs, text};

/// Returns the name of each cell that wasn't reached, has an invalid input, or disagrees with the
/// output in the original document, together with the reason.
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

/// Returns the failures of a notebook run, except for two kinds of failures that can occur even
/// though each input is valid on its own. The first kind occurs if the embedding size of a model
/// isn't divisible by the number of heads. The second kind occurs if a text contains a word that
/// isn't in the tokenizer's vocabulary, or if it is too short for a second batch.
fn faults_of_inputs(program: &Program, parts: &[Part]) -> Vec<String> {
    let mut faults = faults(program, parts);
    faults.retain(|fault| {
        let numbers = fault.split_once("must be divisible by n_heads, but emb_dim is ");
        let numbers = numbers.and_then(|(_, numbers)| numbers.split_once(" and n_heads is "));
        let is_refused = numbers.is_some_and(|(width, heads)| {
            let [width, heads] = [width, heads].map(number::<usize>);
            !width.is_multiple_of(heads)
        });
        // Failures of the second kind are recognized by parts of their messages.
        !is_refused
            && !["vocabulary doesn't contain the word", "for only one batch"]
                .iter()
                .any(|it| fault.contains(it))
    });
    faults
}

/// This test runs all notebooks sequentially because two large models don't fit in memory at the
/// same time. A cell may be skipped only if it trains for minutes, or if it needs the book's text
/// and `BOOK_TEXT` isn't set.
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

/// If the book's text isn't available, all cells that need it must run on the short story that
/// replaces it. A cell may be skipped only for other reasons, for example because it trains for
/// minutes.
#[test]
fn every_cell_runs_on_the_story() {
    for program in PROGRAMS {
        let parts = program.run(&Settings {
            other_text: Some(text::STORY),
            ..Settings::default()
        });
        assert_eq!(faults(program, &parts), Vec::<String>::new());
        for (section, text) in texts(&parts) {
            assert!(!text.contains('…'), "{} {section}: {text}", program.name);
        }
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

/// Returns all pieces of text that a reader of the notebook sees, each with the number of its
/// section. They come from prose, questions, comments in code, and labels in pictures.
fn texts(parts: &[Part]) -> Vec<(String, String)> {
    let mut section = String::new();
    let mut texts = Vec::new();
    for part in parts {
        let here: Vec<String> = match part {
            Part::Section { number, .. } => {
                section = number.clone();
                continue;
            }
            Part::Prose { text, .. } | Part::Sketch { text, .. } => vec![text.clone()],
            Part::Question {
                question, answer, ..
            } => vec![question.clone(), answer.clone()],
            Part::Cell(cell) => {
                let comments = cell.code.lines().filter_map(|line| line.split_once("// "));
                let comments = comments.map(|(_, comment)| comment.to_owned());
                comments.chain([cell.about.clone()]).collect()
            }
            Part::Figure { name, html, .. } => {
                let shown = html.iter().flat_map(|html| html.split("</text>"));
                let shown = shown.filter_map(|text| text.rsplit_once('>'));
                // Labels without a space are ignored because they are numbers or words from the
                // data.
                let shown = shown.filter(|(tag, _)| {
                    tag.rsplit('<')
                        .next()
                        .is_some_and(|it| it.starts_with("text"))
                });
                let labels = shown.map(|(_, text)| text.to_owned());
                labels
                    .filter(|text| text.contains(' '))
                    .chain([name.clone()])
                    .collect()
            }
            _ => continue,
        };
        texts.extend(here.into_iter().map(|text| (section.clone(), text)));
    }
    texts
}

/// Returns true if `text` contains `words` as separate words, not as a part of a longer word, of a
/// number, or of the name of a cell.
fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + words.len()..]);
        let continues = |c: char| c.is_alphanumeric() || c == '_';
        // `after` continues a number, as in `12.5` and `12,753`.
        let is_longer = after
            .strip_prefix(['.', ','])
            .is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()));
        // This condition excludes the digit 2 in `3.2`, `x^2` and `GPT-2`.
        !before.ends_with(|c| continues(c) || ".^-".contains(c))
            && !before.ends_with("In [")
            && !after.starts_with(continues)
            && !is_longer
    })
}

/// Returns a new value for an input, and the words with which a text could mention the old value.
/// If the new value is a number, it isn't one of `others`, so a text that mentions it can't be
/// mistaken for one that mentions the default of a different input.
fn another(input: &InputValue, others: &[String]) -> (String, Vec<String>) {
    let old = &input.default;
    if let Some((first, rest)) = old.split_once("; ") {
        let rows = 1 + rest.split("; ").count();
        let words = [
            "zero", "one", "two", "three", "four", "five", "six", "seven",
        ];
        return (
            format!("{rest}; {rest}; {first}"),
            vec![rows.to_string(), words[rows].to_owned()],
        );
    }
    if let Ok(flag) = old.parse::<bool>() {
        return ((!flag).to_string(), vec![old.clone()]);
    }
    let Ok(value) = old.parse::<f64>() else {
        let words = old.split_whitespace().count().div_ceil(2);
        let fewer: Vec<&str> = old.split_whitespace().take(words).collect();
        let mut new = fewer.join(" ");
        if new == *old {
            new = old.chars().take(old.chars().count() / 2).collect();
        }
        return (new, vec![old.clone()]);
    };
    let (low, high) = input.bounds.split_once("..").expect("a range");
    let [low, high] = [low, high.trim_start_matches('=')].map(|bound| bound.parse().ok());
    let candidates = [
        value * 2.0,
        value / 2.0,
        value * 3.0,
        value * 4.0,
        value + 1.0,
    ];
    let is_whole = value.fract() == 0.0;
    let mut fitting = candidates.into_iter().filter(|&it| {
        let within =
            low.is_none_or(|low: f64| it >= low) && high.is_none_or(|high: f64| it <= high);
        within && (!is_whole || it.fract() == 0.0) && !others.contains(&it.to_string())
    });
    let new = fitting
        .next()
        .unwrap_or_else(|| panic!("no other value of {}", input.name));
    (new.to_string(), vec![old.clone()])
}

/// Passages in which the following test ignores numbers. These numbers don't depend on an input,
/// because they belong to a fixed example, to a table of fixed settings, or to the label of a
/// window in a picture.
const FIXED: [&str; 6] = [
    "(3 x (",
    "A single text proves little",
    "raising the temperature from 1.4 to 5.0",
    "a.transpose(2, 3)",
    "give the shape (1, 2, 3, 4)",
    "1. inputs",
];

/// Returns true if `text`, which follows an opening brace, begins like the rest of a placeholder,
/// such as `words:w}`.
fn is_placeholder(text: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    text.split_once('}')
        .is_some_and(|(inside, _)| is_name(inside.split(':').next().unwrap_or_default()))
}

/// Changes all inputs of a notebook at once. Then checks that every placeholder in the texts has
/// been replaced with a value, and that no text still mentions the old value of an input. For each
/// input, the test searches the texts in the same section. For the number of rows of a matrix, it
/// also searches the sections that follow. Tasks of exercises are exempt, because they must mention
/// the original values even if a reader has changed them.
#[test]
fn no_text_names_the_old_value_of_a_changed_input() {
    let mut stale = Vec::new();
    for program in PROGRAMS {
        let parts = run_with(program, vec![]);
        let all: Vec<(String, &InputValue)> = inputs(&parts)
            .map(|(cell, input)| (cell.section.clone(), input))
            .collect();
        let defaults: Vec<String> = all.iter().map(|(_, input)| input.default.clone()).collect();
        let others: Vec<(String, Vec<String>)> = all
            .iter()
            .map(|(_, input)| another(input, &defaults))
            .collect();
        let changed = all
            .iter()
            .zip(&others)
            .map(|((_, input), (new, _))| (input.line, new.clone()));
        let parts = run_with(program, changed.collect());
        for ((section, input), (new, words)) in all.iter().zip(&others) {
            let is_matrix = input.default.contains("; ");
            let is_fixed =
                |text: &str| text.starts_with("Task: ") || FIXED.iter().any(|it| text.contains(it));
            let all_texts = texts(&parts);
            for (at, text) in &all_texts {
                let is_filled = !text.split('{').skip(1).any(is_placeholder);
                assert!(is_filled, "{} {at}: {text}", program.name);
            }
            let texts = all_texts.into_iter().skip_while(|(at, _)| at != section);
            for (at, text) in texts.filter(|(_, text)| !is_fixed(text)) {
                let is_here = at == *section || is_matrix;
                if is_here && words.iter().any(|words| has_words(&text, words)) {
                    stale.push(format!(
                        "{} {at}, {} = {new}: {text}",
                        program.name, input.name
                    ));
                }
            }
        }
    }
    assert!(stale.is_empty(), "{}", stale.join("\n\n"));
}

/// Parses a number, such as a bound of an input.
fn number<T: FromStr>(text: &str) -> T {
    text.parse().ok().expect("a number")
}

/// Returns several valid values of an input, at its bounds and between them, as a reader would type
/// them. Also returns an invalid value, or `None` if all values are valid.
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

/// Runs a notebook as an interactive page does, including its pictures.
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
        // Change all inputs at once, because the inputs of a notebook can affect each other.
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
