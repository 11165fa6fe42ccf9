#![doc = include_str!("../README.md")]
//!
//! A request is JSON, `{"notebook": "ch03", "inputs": [["In [24].seed", "123"]]}`.
//! The answer has what each cell and each picture shows, by the line of its call; nothing but the
//! request is kept.
//! It says nothing of what the document prints: the page has that already.

use std::sync::{Mutex, PoisonError};

use notebooks::{Cell, Given, Outcome, PROGRAMS, Part, Settings, cells};
use pictures::html;
use serde_json::{Value, json};

static REQUEST: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn lock(bytes: &Mutex<Vec<u8>>) -> std::sync::MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Appends a byte to the request.
#[allow(unsafe_code)] // of the attribute: the page finds it by this name
#[unsafe(no_mangle)]
pub extern "C" fn push(byte: u32) {
    lock(&REQUEST).push(byte as u8);
}

/// Answers the request, which is then empty: how many bytes the answer has.
///
/// A panic, which ends the instance, leaves its message as the answer.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn run() -> u32 {
    #[cfg(target_family = "wasm")] // elsewhere a notebook catches it
    std::panic::set_hook(Box::new(|panic| {
        let fault = json!({ "fault": panic.to_string() });
        *lock(&ANSWER) = fault.to_string().into_bytes();
    }));
    let request = std::mem::take(&mut *lock(&REQUEST));
    lock(&ANSWER).clear();
    *lock(&ANSWER) = answer(&request).to_string().into_bytes();
    length()
}

/// How many bytes the answer has.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn length() -> u32 {
    lock(&ANSWER).len() as u32
}

/// The byte of the answer at `place`; 0 behind its end.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn byte(place: u32) -> u32 {
    lock(&ANSWER)
        .get(place as usize)
        .map_or(0, |&byte| byte.into())
}

/// The answer to a request.
pub fn answer(request: &[u8]) -> Value {
    let request: Value = serde_json::from_slice(request).unwrap_or_default();
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
            "line": cell.line, "shows": record.ours, "faults": record.verdict.faults,
            "figures": record.verdict.figures,
        }),
        Outcome::Lost(fault) => json!({ "line": cell.line, "fault": fault }),
        Outcome::Skipped(_) if cell.needs_text => {
            json!({ "line": cell.line, "skipped": "it needs the book's text" })
        }
        Outcome::Skipped(why) => json!({ "line": cell.line, "skipped": why }),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_by_what_the_cells_show_and_a_wrong_one_by_its_fault() {
        for byte in br#"{"notebook": "ch03", "inputs": [["In [24].seed", "123"]]}"# {
            push((*byte).into());
        }
        let length = run();
        let answer: Vec<u8> = (0..length).map(|place| byte(place) as u8).collect();
        let answer: Value = serde_json::from_slice(&answer).expect("it is JSON");
        let seed = answer["inputs"].as_array().expect("inputs").iter();
        let mut seed = seed.filter(|input| input["name"] == "In [24].seed");
        let seed = seed.next().expect("the seed");
        assert_eq!(
            (&seed["default"], &seed["value"]),
            (&json!("789"), &json!("123"))
        );
        let shows = |cell: &&Value| cell["line"] == seed["cell"];
        let cell = answer["cells"]
            .as_array()
            .expect("cells")
            .iter()
            .find(shows);
        let shown = cell.expect("the cell")["shows"].as_str().expect("a text");
        assert!(shown.starts_with("tensor([[-0.5337, -0.1051]"), "{shown}");
        assert!(
            answer["pictures"][0]["figure"]
                .as_str()
                .is_some_and(|it| it.contains("<svg"))
        );
        assert_eq!(super::answer(b"}")["fault"], "there is no such notebook");
    }
}
