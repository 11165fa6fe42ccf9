//! The functions of the WebAssembly module that a page calls. The module has no imports and shares
//! no memory with the page, so bytes are transferred one at a time: the page calls [`push`] for
//! each byte of a request, then [`run`], and then [`byte`] for each byte of the answer.
//!
//! Requests and answers are JSON. From one request to the next, the module keeps the text that the
//! notebooks read, the trained model with the continuation that it is generating, and the training
//! run.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::training::{self, PageTraining};
use crate::{PageModel, notebook};

static REQUEST: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static MODEL: Mutex<Option<PageModel>> = Mutex::new(None);
static LESSON: Mutex<Option<PageTraining>> = Mutex::new(None);

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Appends a byte to the next request.
#[allow(unsafe_code)] // `no_mangle` counts as unsafe code. The page finds the function by its name.
#[unsafe(no_mangle)]
pub extern "C" fn push(byte: u32) {
    lock(&REQUEST).push(byte as u8);
}

/// Processes the request whose bytes the page has passed to [`push`], and returns the length of the
/// answer in bytes. If the request fails, the answer is a JSON object whose field `fault` contains
/// the error message. The request is cleared, so that the page can send the next one.
///
/// If the module panics in WebAssembly, the panic ends its instance, so this function doesn't
/// return. In this case, the panic hook stores the panic message as the answer, which the page can
/// still read with [`length`] and [`byte`].
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn run() -> u32 {
    // The panic hook is set only in WebAssembly, where a panic ends the instance of the module. On
    // other targets, notebooks catch panics, so the hook isn't needed. It would also replace the
    // default panic hook of the process.
    #[cfg(target_family = "wasm")]
    std::panic::set_hook(Box::new(|panic| {
        let fault = json!({ "fault": panic.to_string() });
        *lock(&ANSWER) = fault.to_string().into_bytes();
    }));
    let request = std::mem::take(&mut *lock(&REQUEST));
    lock(&ANSWER).clear();
    let request: Value = serde_json::from_slice(&request).unwrap_or_default();
    let answer = answer(&request).unwrap_or_else(|error| json!({ "fault": format!("{error:#}") }));
    *lock(&ANSWER) = answer.to_string().into_bytes();
    length()
}

/// Answers a request. The fields of the request determine its purpose:
/// - `presets`, `lesson`, `steps`, `parts` or `view`: a request about training (see
///   [`PageTraining`]).
/// - `model`: a packed model in Base64, which is stored for later requests.
/// - `text` or `next`: a request about the stored model (see [`PageModel::answer`]).
/// - Anything else: a request about a notebook (see [`notebook`]).
fn answer(request: &Value) -> Result<Value> {
    if request["presets"].is_boolean() {
        return Ok(training::presets());
    }
    if let Some(preset) = request["lesson"].as_str() {
        return match PageTraining::new(preset, &request["values"]) {
            Ok(lesson) => lock(&LESSON).insert(lesson).answer(&json!({ "steps": 0 })),
            Err(answer) => Ok(answer),
        };
    }
    if ["steps", "parts", "view"]
        .iter()
        .any(|name| !request[name].is_null())
    {
        let mut lesson = lock(&LESSON);
        return lesson
            .as_mut()
            .context("no training run has been started")?
            .answer(request);
    }
    let mut kept = lock(&MODEL);
    if let Some(packed) = request["model"].as_str() {
        *kept = Some(PageModel::unpack(&STANDARD.decode(packed)?)?);
        return Ok(json!({}));
    }
    let is_of_model = request["text"].is_string() || request["next"].is_boolean();
    match &mut *kept {
        Some(model) if is_of_model => model.answer(request),
        _ => Ok(notebook::answer(request)),
    }
}

/// Returns the length of the answer in bytes.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn length() -> u32 {
    lock(&ANSWER).len() as u32
}

/// Returns the byte of the answer at the given index, or 0 if the index is out of range.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn byte(place: u32) -> u32 {
    lock(&ANSWER)
        .get(place as usize)
        .map_or(0, |&byte| byte.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: &Value) -> Value {
        for byte in request.to_string().bytes() {
            push(byte.into());
        }
        let length = run();
        let answer: Vec<u8> = (0..length).map(|place| byte(place) as u8).collect();
        serde_json::from_slice(&answer).expect("it is JSON")
    }

    #[test]
    fn a_request_is_answered_by_what_the_cells_show_and_a_wrong_one_by_its_fault() {
        let book = ask(&json!({ "notebook": "ch03", "inputs": [] }));
        let inputs = book["inputs"].as_array().expect("inputs");
        let mut seed = inputs.iter().filter(|it| it["name"] == "In [24].seed");
        let seed = seed.next().expect("the seed");
        assert_eq!(seed["default"], "789");
        let answer = ask(&json!({ "notebook": "ch03", "inputs": [[seed["line"], "123"]] }));
        let shows = |cell: &&Value| cell["line"] == seed["cell"];
        let cell = answer["cells"]
            .as_array()
            .expect("cells")
            .iter()
            .find(shows);
        let shown = cell.expect("the cell")["shows"].as_str().expect("a text");
        assert!(shown.starts_with("tensor([[-0.5337, -0.1051]"), "{shown}");
        let figures = answer["pictures"].as_array().expect("figures").iter();
        let figures: Vec<&str> = figures.filter_map(|it| it["figure"].as_str()).collect();
        assert!(figures.iter().any(|it| it.contains("class=\"product\"")));
        assert!(figures.iter().any(|it| it.contains("<svg")));
        assert_eq!(
            notebook::answer(&json!({}))["fault"],
            "there is no such notebook"
        );
    }
}
