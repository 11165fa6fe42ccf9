//! Runs a notebook with inputs that the reader has changed. The request `{"notebook": "ch03",
//! "inputs": [[259, "123"]]}` runs chapter 3, and the input that the call on line 259 reads has the
//! value 123.
//!
//! The answer contains the output of each cell, the pictures, the paragraphs and the inputs, each
//! with the line of the call that created it. The document's own output isn't part of the answer
//! because it is already on the page.
//!
//! The request `{"source": TEXT}` sets the text that all later runs read. TEXT can be the book's
//! text or a different one.

use std::sync::{Mutex, PoisonError};

use notebooks::{Kind, Outcome, PROGRAMS, Part, Settings, cells, inputs, text};
use serde_json::{Value, from_value, json};

/// Text that the notebooks read, or `None` to read the short story of this project.
static SOURCE: Mutex<Option<&'static str>> = Mutex::new(None);

/// Sets the text that the notebooks read from now on. The memory of the text is never freed,
/// because [`Settings`] needs a text that lives as long as the program.
fn set_source(text: &str) {
    *SOURCE.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned().leak());
}

/// Returns the answer to a request, or an object with a `fault` if there is no notebook of the
/// requested name.
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
