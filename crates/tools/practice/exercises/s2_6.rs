//! 2.6 Sliding windows
//!
//! A language model learns to predict the next token. A training example therefore consists of two
//! windows of the text: the inputs, and the targets, which begin one token later. At each position,
//! the target is the token that follows the input.
//!
//! Return the examples of a text as pairs of inputs and targets, with `max_length` IDs each. Each
//! example begins `stride` IDs after the previous example. Omit examples at the end of the text
//! that would have too few inputs or targets. The text can be too short for even one example.
//!
//! HINT: How many consecutive IDs of the text does one example need for its inputs and targets
//!   together?
//! HINT: The example that begins at index s has the inputs ids[s..s + max_length] and the targets
//!   ids[s + 1..s + 1 + max_length]. The values of s are 0, stride, 2 * stride, and so on.
//! HINT: `ids.get(start..end)` returns `None` if the text ends before `end`. A subtraction such as
//!   `ids.len() - max_length` panics if the result would be negative.

/// Returns the training examples of a text as pairs of inputs and targets, with `max_length` IDs
/// each.
pub fn windows(ids: &[u32], max_length: usize, stride: usize) -> Vec<(Vec<u32>, Vec<u32>)> {
    // SOLUTION
    let starts = (0..ids.len()).step_by(stride);
    let window = |start: usize| {
        let window = ids.get(start..start + max_length + 1)?;
        Some((window[..max_length].to_vec(), window[1..].to_vec()))
    };
    starts.filter_map(window).collect()
    // END
}

// CHECKS

use crate::Report;
use crate::check::{Check, Mistake};

/// The inputs and the targets of an example.
type Window = (Vec<u32>, Vec<u32>);
type Windows = fn(&[u32], usize, usize) -> Vec<Window>;

pub(crate) const MISTAKES: &[Mistake<Windows>] = &[
    (
        "the targets equal the inputs; begin the targets one ID later",
        |ids, length, stride| {
            let of_inputs = |(inputs, _): Window| (inputs.clone(), inputs);
            windows(ids, length, stride)
                .into_iter()
                .map(of_inputs)
                .collect()
        },
    ),
    (
        "the targets begin two IDs after the inputs; begin them one ID later",
        |ids, length, stride| {
            let starts = (0..ids.len()).step_by(stride);
            let window = |start: usize| {
                let window = ids.get(start..start + length + 2)?;
                Some((window[..length].to_vec(), window[2..].to_vec()))
            };
            starts.filter_map(window).collect()
        },
    ),
    (
        "the last window is missing; include it if it has enough inputs and targets",
        |ids, length, stride| {
            let mut windows = windows(ids, length, stride);
            windows.pop();
            windows
        },
    ),
    (
        "the last window has fewer targets than inputs; omit incomplete windows",
        |ids, length, stride| {
            let starts = (0..ids.len()).step_by(stride);
            let window = |start: usize| {
                let inputs = ids.get(start..start + length)?;
                let end = ids.len().min(start + length + 1);
                Some((inputs.to_vec(), ids[start + 1..end].to_vec()))
            };
            starts.filter_map(window).collect()
        },
    ),
    (
        "the windows begin `max_length` IDs apart; begin them `stride` IDs apart",
        |ids, length, _| windows(ids, length, length),
    ),
    (
        "a subtraction overflows if the text is too short; return no windows for such a text",
        |ids, length, stride| {
            let starts = (0..ids.len() - length).step_by(stride);
            let window = |start: usize| {
                let targets = &ids[start + 1..start + length + 1];
                (ids[start..start + length].to_vec(), targets.to_vec())
            };
            starts.map(window).collect()
        },
    ),
];

/// Checks the learner's `windows`.
pub fn check(windows: Windows) -> Report {
    let mut check = Check::new(windows, MISTAKES);
    let numbers: Vec<u32> = (0..=1000).collect();
    let window = |windows: Windows, place: usize| {
        let windows = windows(&numbers, 4, 1);
        windows.into_iter().nth(place).unwrap_or_default()
    };
    let cells = [(0, "In [68]"), (1, "In [69]"), (996, "In [71]")];
    for (place, cell) in cells {
        let label = |what: &str| format!("2.6: the {what} of window {}", place + 1);
        check.printed(&label("inputs"), ("ch02_bonus", cell, 0), |windows| {
            window(windows, place).0
        });
        check.printed(&label("targets"), ("ch02_bonus", cell, 1), |windows| {
            window(windows, place).1
        });
    }
    let ids = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];
    let by_loops = |ids: &[u32], length: usize, stride: usize| -> Vec<Window> {
        let (mut windows, mut start) = (Vec::new(), 0);
        while start + length < ids.len() {
            let inputs = (0..length).map(|i| ids[start + i]).collect();
            windows.push((inputs, (1..=length).map(|i| ids[start + i]).collect()));
            start += stride;
        }
        windows
    };
    for (label, n, length, stride) in [
        ("10 IDs, windows of 3, stride 2", 10, 3, 2),
        ("10 IDs, windows of 3, stride 1", 10, 3, 1),
        ("4 IDs: one window of 3", 4, 3, 1),
        ("3 IDs: no window of 3", 3, 3, 1),
        ("2 IDs: no window of 3", 2, 3, 1),
        ("an empty text", 0, 3, 1),
    ] {
        let expected = by_loops(&ids[..n], length, stride);
        check.equals(label, expected, |windows| {
            windows(&ids[..n], length, stride)
        });
    }
    check.report()
}
