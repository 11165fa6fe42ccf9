//! What the project promises of its speed, and whether a run kept it.

use crate::report::{Row, say};

/// What of a row is promised.
enum Of {
    /// Times the speed of this peer, or its memory over ours
    Times(&'static str),
    /// The part of this floor
    Part(&'static str),
}
use Of::{Part, Times};

const MEMORY: Of = Part("the memory floor");
const PRODUCT: Of = Part("the product floor");
const DECODE: &str = "decode 16+128, tied";

/// A row's work and precision, what of it, and the least that is promised.
const TARGETS: &[(&str, &str, Of, f64)] = &[
    ("forward 1x1024, tied", "f32", Times("transformers"), 2.0),
    (
        "train 4x256, untied",
        "f32",
        Times("PyTorch's book model"),
        2.2,
    ),
    ("train 4x256, tied", "f32", Times("transformers"), 2.2),
    (
        "epochs of the book, untied",
        "f32",
        Times("PyTorch's model"),
        2.0,
    ),
    ("prefill 1x1024, tied", "f32", Times("the best peer"), 1.0),
    (DECODE, "f32", Times("the best peer"), 1.0),
    (DECODE, "f32", MEMORY, 0.88),
    (DECODE, "bf16", MEMORY, 0.82),
    (DECODE, "f16", MEMORY, 0.82),
    (DECODE, "f16", Times("llama.cpp's"), 1.0),
    (DECODE, "int8", MEMORY, 0.75),
    (DECODE, "int8", Times("llama.cpp's q8_0"), 1.3),
    (DECODE, "int4", MEMORY, 0.65),
    (DECODE, "int4", Times("llama.cpp's q4_0"), 1.0),
    ("train 4x256, tied", "f32", PRODUCT, 0.8),
    ("train 4x256, untied", "f32", PRODUCT, 0.8),
    ("forward 1x1024, tied", "f32", PRODUCT, 0.85),
    (
        "train nanoGPT for a CPU",
        "f32",
        Times("the best PyTorch"),
        2.5,
    ),
    (
        "train nanoGPT on characters",
        "f32",
        Times("the best PyTorch"),
        2.0,
    ),
    ("train story", "f32", Times("the best PyTorch"), 2.0),
    (
        "build 124M from a seed, untied",
        "f32",
        Times("PyTorch"),
        1.0,
    ),
    (
        "memory of train 4x256, untied",
        "f32",
        Times("PyTorch"),
        1.0,
    ),
];

/// Prints each target and returns how many are missed; one that can't be judged is not missed.
pub(crate) fn print(rows: &[Row]) -> usize {
    say("\ntargets:");
    let mut missed = 0;
    for (work, precision, of, least) in TARGETS {
        let row = rows.iter().find(|row| is(row, work, precision));
        let (text, figure) = match of {
            Times(peer) => (format!("times {peer}"), row.and_then(|row| row.ratio)),
            Part(floor) => (
                format!("part of {floor}"),
                row.and_then(|row| row.floor_fraction),
            ),
        };
        let verdict = match figure {
            None => "not measured".to_owned(),
            Some(figure) if figure >= *least => format!("{figure:.2}, kept"),
            Some(figure) => {
                missed += 1;
                format!("{figure:.2}, MISSED")
            }
        };
        let text = format!("{work}, {precision}: {text}");
        say(&format!("  {text:<56} at least {least:.2}: {verdict}"));
    }
    missed
}

/// Whether a row is of this work; that of several epochs begins with their number.
fn is(row: &Row, work: &str, precision: &str) -> bool {
    let counted = |c: char| c.is_ascii_digit() || c == ' ';
    row.work.trim_start_matches(counted) == work && row.precision == precision
}
