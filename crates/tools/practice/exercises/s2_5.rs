//! 2.5 One merge of byte pair encoding
//!
//! Byte pair encoding builds its vocabulary step by step. In each step, the most frequent pair of
//! neighboring tokens becomes a new token. Write the part of a step that changes the text: go
//! through the IDs from left to right, and replace each occurrence of `pair` with `new_id`.
//!
//! Occurrences don't overlap. An ID that belongs to one pair can't also belong to the next pair, so
//! `a a a` contains the pair (a, a) only once.
//!
//! HINT: At which index do you continue after you have replaced a pair, and at which index after
//!   you have kept an ID?
//! HINT: If ids[i] is pair.0 and ids[i + 1] is pair.1, append new_id and continue at index i + 2.
//!   Otherwise, append ids[i] and continue at index i + 1.
//! HINT: The last ID has no right neighbor. `ids.get(i + 1)` returns an `Option`, which you can
//!   compare with `Some(&pair.1)`.

/// Returns a copy of `ids` in which each occurrence of `pair` is replaced with `new_id`.
pub fn merge(ids: &[u32], pair: (u32, u32), new_id: u32) -> Vec<u32> {
    // SOLUTION
    let mut merged = Vec::new();
    let mut i = 0;
    while i < ids.len() {
        if ids[i] == pair.0 && ids.get(i + 1) == Some(&pair.1) {
            merged.push(new_id);
            i += 2;
        } else {
            merged.push(ids[i]);
            i += 1;
        }
    }
    merged
    // END
}

// CHECKS

use crate::Report;
use crate::check::{Check, Mistake};

type Merge = fn(&[u32], (u32, u32), u32) -> Vec<u32>;

/// Merges pairs of neighboring token IDs. With suitable arguments, the result is that of a typical
/// mistake, which the check can then recognize in a learner's function. If `is_pair(i)` returns
/// true, replaces the pair at index `i` with `new_id` and continues at index `i + step`. Otherwise,
/// copies the ID at index `i` and continues with the next index.
fn merged(ids: &[u32], new_id: u32, step: usize, is_pair: impl Fn(usize) -> bool) -> Vec<u32> {
    let (mut merged, mut i) = (Vec::new(), 0);
    while i < ids.len() {
        let found = i + 1 < ids.len() && is_pair(i);
        merged.push(if found { new_id } else { ids[i] });
        i += if found { step } else { 1 };
    }
    merged
}

pub(crate) const MISTAKES: &[Mistake<Merge>] = &[
    (
        "only the first pair is replaced; go on to the end of the IDs",
        |ids, pair, new_id| {
            let is_pair = |i: usize| (ids[i], ids[i + 1]) == pair;
            let first = (0..ids.len().saturating_sub(1)).find(|&i| is_pair(i));
            merged(ids, new_id, 2, |i| Some(i) == first)
        },
    ),
    (
        "the second ID of a pair is used again; continue with the ID after it",
        |ids, pair, new_id| merged(ids, new_id, 1, |i| (ids[i], ids[i + 1]) == pair),
    ),
    (
        "the last ID is missing; append it although it has no right neighbor",
        |ids, pair, new_id| {
            let (mut merged, mut i) = (Vec::new(), 0);
            while i + 1 < ids.len() {
                let found = (ids[i], ids[i + 1]) == pair;
                merged.push(if found { new_id } else { ids[i] });
                i += if found { 2 } else { 1 };
            }
            merged
        },
    ),
    (
        "reversed pairs are also replaced; replace only pair.0 followed by pair.1",
        |ids, (left, right), new_id| {
            let pairs = [(left, right), (right, left)];
            merged(ids, new_id, 2, |i| pairs.contains(&(ids[i], ids[i + 1])))
        },
    ),
];

/// Checks the learner's `merge`.
pub fn check(merge: Merge) -> Report {
    let mut check = Check::new(merge, MISTAKES);
    // Computes the expected result of merging in an independent way: it converts each ID to a
    // character and replaces the pair in the resulting string.
    let plain = |ids: &[u32], pair: (u32, u32), new_id: u32| -> Vec<u32> {
        let text = |ids: &[u32]| -> String {
            ids.iter()
                .map(|&id| char::from_u32(id).expect("a character"))
                .collect()
        };
        let merged = text(ids).replace(&text(&[pair.0, pair.1]), &text(&[new_id]));
        merged.chars().map(u32::from).collect()
    };
    let letters: Vec<u32> = "aaabdaaabac".chars().map(u32::from).collect();
    let others = [5, 6, 5, 5, 6, 6, 5];
    let inputs: [(&str, &[u32], (u32, u32)); 5] = [
        ("\"aa\" in \"aaabdaaabac\"", &letters, (97, 97)),
        ("5 6 in 5 6 5 5 6 6 5", &others, (5, 6)),
        ("a text without the pair", &[1, 2, 3], (3, 1)),
        ("a text of one ID", &[1], (1, 2)),
        ("an empty text", &[], (1, 2)),
    ];
    for (label, ids, pair) in inputs {
        check.equals(label, plain(ids, pair, 256), |merge| merge(ids, pair, 256));
    }
    check.report()
}
