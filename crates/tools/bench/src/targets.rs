//! What the project promises of its speed, and whether a run kept it: each row is ahead of its
//! fastest peer, and some are at a part of the floor.

use crate::report::{Row, say};

const DECODE: &str = "decode 16+128, tied";

/// A row's work and precision, and the part of its floor that is promised at least.
const PARTS: &[(&str, &str, f64)] = &[
    (DECODE, "f32", 0.88),
    (DECODE, "bf16", 0.82),
    (DECODE, "f16", 0.82),
    (DECODE, "int8", 0.75),
    (DECODE, "int4", 0.65),
    ("train 4x256, tied", "f32", 0.8),
    ("train 4x256, untied", "f32", 0.8),
    ("forward 1x1024, tied", "f32", 0.85),
];

/// Prints what is promised of these rows, and returns how much of it is missed.
pub(crate) fn check(rows: &[Row]) -> usize {
    say("\ntargets:");
    let mut missed = 0;
    for row in rows {
        let part = PARTS
            .iter()
            .find(|(work, precision, _)| (*work, *precision) == (row.work.as_str(), row.precision));
        for (of, figure, least) in [
            ("times the fastest peer", row.ratio, Some(1.0)),
            ("of the floor", row.floor_fraction, part.map(|part| part.2)),
        ] {
            let Some((figure, least)) = figure.zip(least) else {
                continue;
            };
            let kept = figure >= least;
            missed += usize::from(!kept);
            let text = format!("{} {}: {figure:.2} {of}", row.work, row.precision);
            let verdict = if kept { "kept" } else { "MISSED" };
            say(&format!("  {text:<70} at least {least:.2}: {verdict}"));
        }
    }
    missed
}
