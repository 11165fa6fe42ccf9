//! A notebook, computed with a reader's inputs: `{"notebook": "ch03", "inputs": [["In [24].seed",
//! "123"]]}`.
//!
//! The answer has what each cell and each picture shows, by the line of its call.
//! It says nothing of what the document prints: the page has that already.

use notebooks::{Cell, Given, Outcome, PROGRAMS, Part, Settings, cells};
use pictures::html;
use serde_json::{Value, json};

/// The answer to a request.
pub(crate) fn answer(request: &Value) -> Value {
    let mut programs = PROGRAMS.iter();
    let Some(program) = programs.find(|program| request["notebook"] == program.name) else {
        return json!({ "fault": "there is no such notebook" });
    };
    let unrun = program.unrun("");
    let mut inputs = Vec::new();
    for one in request["inputs"].as_array().into_iter().flatten() {
        let (Some(name), Some(value)) = (one[0].as_str(), one[1].as_str()) else {
            continue;
        };
        let named = |(cell, input): &(&Cell, &Given)| name_of(cell, input) == name;
        if let Some((_, input)) = all_inputs(&unrun).find(named) {
            inputs.push((input.line, value.to_owned()));
        }
    }
    let parts = program.run(&Settings {
        draws: true,
        small: true,
        inputs,
        ..Settings::default()
    });
    let shown = cells(&parts).map(|cell| match &cell.outcome {
        Outcome::Ran(record) => json!({
            "line": cell.line, "code": cell.code, "shows": record.ours, "faults": record.verdict.faults,
            "figures": record.verdict.figures,
        }),
        Outcome::Lost(fault) => json!({ "line": cell.line, "code": cell.code, "fault": fault }),
        Outcome::Skipped(_) if cell.needs_text => {
            json!({ "line": cell.line, "skipped": "it needs the book's text" })
        }
        Outcome::Skipped(why) => json!({ "line": cell.line, "code": cell.code, "skipped": why }),
    });
    let shown: Vec<Value> = shown.collect();
    let drawn = parts.iter().filter_map(|part| match part {
        Part::Picture { line, picture, .. } => {
            let figure = html::figure(picture.as_ref()?);
            Some(json!({ "line": line, "figure": figure }))
        }
        _ => None,
    });
    let drawn: Vec<Value> = drawn.collect();
    let ran = |cell: &Cell| matches!(cell.outcome, Outcome::Ran(_) | Outcome::Lost(_));
    let inputs = all_inputs(&parts).filter(|(cell, _)| ran(cell));
    let inputs = inputs.map(|(cell, input)| {
        json!({
            "name": name_of(cell, input), "label": input.name, "cell": cell.line,
            "default": input.default, "value": input.value,
        })
    });
    let inputs: Vec<Value> = inputs.collect();
    json!({ "cells": shown, "pictures": drawn, "inputs": inputs })
}

/// The inputs, each with its cell.
fn all_inputs(parts: &[Part]) -> impl Iterator<Item = (&Cell, &Given)> {
    cells(parts).flat_map(|cell| cell.inputs.iter().map(move |input| (cell, input)))
}

/// `In [24].seed`.
fn name_of(cell: &Cell, input: &Given) -> String {
    format!("{}.{}", cell.cell, input.name)
}
