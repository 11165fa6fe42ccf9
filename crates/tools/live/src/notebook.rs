//! Runs a notebook with inputs that a reader of the page has changed. For example, the request
//! `{"notebook": "ch03", "inputs": [[259, "123"]]}` runs the notebook of chapter 3 and sets the
//! input that is read by the call on line 259 to the value 123.
//!
//! The answer contains the output of each cell, the pictures, the paragraphs and the inputs, each
//! with the number of the line in the notebook's source code that created it. The output of the
//! book's original notebook isn't part of the answer, because the page already contains it.
//!
//! The request `{"source": TEXT}` sets the text that the notebooks read in all later runs. TEXT can
//! be the text that the book uses or a different one.

use std::sync::{Mutex, PoisonError};

use notebooks::{Kind, Outcome, PROGRAMS, Part, Settings, cells, inputs, text};
use serde_json::{Value, from_value, json};

/// Text that the notebooks read. If it is `None`, they read the short story "The Answering Bell".
static SOURCE: Mutex<Option<&'static str>> = Mutex::new(None);

/// Sets the text that the notebooks read from now on. The text is leaked, because [`Settings`]
/// requires a text that lives as long as the program.
fn set_source(text: &str) {
    *SOURCE.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned().leak());
}

/// Returns the answer to a request. If there is no notebook with the requested name, the answer is
/// an object whose field `fault` contains an error message.
pub(crate) fn answer(request: &Value) -> Value {
    if let Some(text) = request["source"].as_str() {
        set_source(text);
        return json!({});
    }
    let source = *SOURCE.lock().unwrap_or_else(PoisonError::into_inner);
    let source = source.unwrap_or(text::STORY);
    let mut programs = PROGRAMS.iter();
    let Some(program) = programs.find(|program| request["notebook"] == program.name) else {
        return json!({ "fault": "there is no such notebook" });
    };
    let parts = program.run(&Settings {
        draws: true,
        small: true,
        text: text::is_book(source).then_some(source),
        other_text: Some(source),
        inputs: from_value(request["inputs"].clone()).unwrap_or_default(),
        ..Settings::default()
    });
    let shown = cells(&parts).map(|cell| match &cell.outcome {
        Outcome::Ran(record) => json!({
            "line": cell.line, "code": cell.code, "shows": record.ours, "faults": record.verdict.faults,
            "figures": record.verdict.figures, "other": record.kind == Kind::OtherText,
        }),
        Outcome::Lost(why) => json!({ "line": cell.line, "code": cell.code, "fault": why }),
        Outcome::Skipped(why) => json!({ "line": cell.line, "code": cell.code, "skipped": why }),
    });
    let drawn = parts.iter().filter_map(|part| match part {
        Part::Figure { line, html, .. } => Some(json!({ "line": line, "figure": html.as_ref()? })),
        _ => None,
    });
    let texts = parts.iter().flat_map(|part| match part {
        Part::Prose { line, text } | Part::Sketch { line, text, .. } => {
            vec![(line.to_string(), text)]
        }
        Part::Cell(cell) => vec![(cell.line.to_string(), &cell.about)],
        Part::Question {
            line,
            question,
            answer,
        } => vec![(format!("{line}q"), question), (format!("{line}a"), answer)],
        _ => vec![],
    });
    let of_run = inputs(&parts).filter(|(cell, _)| !matches!(cell.outcome, Outcome::Skipped(_)));
    let of_run = of_run.map(|(cell, input)| {
        json!({
            "name": cell.name_of(input), "label": input.name, "cell": cell.line,
            "line": input.line, "fault": input.fault, "default": input.default, "value": input.value,
            "range": input.range,
        })
    });
    json!({
        "cells": shown.collect::<Vec<_>>(), "pictures": drawn.collect::<Vec<_>>(),
        "inputs": of_run.collect::<Vec<_>>(), "texts": texts.collect::<Vec<_>>(),
    })
}
