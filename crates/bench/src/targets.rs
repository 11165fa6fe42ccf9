//! What the project promises of its speed, and whether a run kept it.

use crate::report::{Row, say};

/// A promise about rows.
struct Target {
    /// What is promised
    text: &'static str,
    least: f64,
    /// The figure; `None` if a row or a peer is absent
    figure: fn(&[Row]) -> Option<f64>,
}

const DECODE: &str = "decode 16+128, tied";

const TARGETS: &[Target] = &[
    Target {
        text: "forward 1x1024: times transformers f32",
        least: 2.0,
        figure: |rows| ratio(rows, "forward 1x1024, tied", "f32"),
    },
    Target {
        text: "train 4x256: times PyTorch's book model",
        least: 2.2,
        figure: |rows| ratio(rows, "train 4x256, untied", "f32"),
    },
    Target {
        text: "train 4x256: times transformers f32",
        least: 2.2,
        figure: |rows| ratio(rows, "train 4x256, tied", "f32"),
    },
    Target {
        text: "epochs of the book: times PyTorch's model",
        least: 2.0,
        figure: |rows| {
            let run = |row: &&Row| row.work.contains("epochs of the book");
            rows.iter().find(run)?.ratio
        },
    },
    Target {
        text: "prompt 1x1024: times the best peer",
        least: 1.0,
        figure: |rows| ratio(rows, "prefill 1x1024, tied", "f32"),
    },
    Target {
        text: "decode f32: times the best peer",
        least: 1.0,
        figure: |rows| ratio(rows, DECODE, "f32"),
    },
    Target {
        text: "decode f32: part of the memory floor",
        least: 0.88,
        figure: |rows| floor(rows, DECODE, "f32"),
    },
    Target {
        text: "decode bf16: part of the memory floor",
        least: 0.82,
        figure: |rows| floor(rows, DECODE, "bf16"),
    },
    Target {
        text: "decode f16: part of the memory floor",
        least: 0.82,
        figure: |rows| floor(rows, DECODE, "f16"),
    },
    Target {
        text: "decode f16: times llama.cpp's",
        least: 1.0,
        figure: |rows| ratio(rows, DECODE, "f16"),
    },
    Target {
        text: "decode int8: part of the memory floor",
        least: 0.75,
        figure: |rows| floor(rows, DECODE, "int8"),
    },
    Target {
        text: "decode int8: times llama.cpp's q8_0",
        least: 1.3,
        figure: |rows| ratio(rows, DECODE, "int8"),
    },
    Target {
        text: "decode int4: part of the memory floor",
        least: 0.65,
        figure: |rows| floor(rows, DECODE, "int4"),
    },
    Target {
        text: "decode int4: times llama.cpp's q4_0",
        least: 1.0,
        figure: |rows| ratio(rows, DECODE, "int4"),
    },
    Target {
        text: "train 4x256, tied: part of the product floor",
        least: 0.8,
        figure: |rows| floor(rows, "train 4x256, tied", "f32"),
    },
    Target {
        text: "train 4x256, untied: part of the product floor",
        least: 0.8,
        figure: |rows| floor(rows, "train 4x256, untied", "f32"),
    },
    Target {
        text: "forward 1x1024: part of the product floor",
        least: 0.85,
        figure: |rows| floor(rows, "forward 1x1024, tied", "f32"),
    },
    Target {
        text: "nanoGPT for a CPU: times the best PyTorch",
        least: 2.5,
        figure: |rows| ratio(rows, "train nanoGPT for a CPU", "f32"),
    },
    Target {
        text: "nanoGPT on characters: times the best PyTorch",
        least: 2.0,
        figure: |rows| ratio(rows, "train nanoGPT on characters", "f32"),
    },
    Target {
        text: "story: times the best PyTorch",
        least: 2.0,
        figure: |rows| ratio(rows, "train story", "f32"),
    },
    Target {
        text: "build from a seed: times PyTorch",
        least: 1.0,
        figure: |rows| ratio(rows, "build 124M from a seed, untied", "f32"),
    },
    Target {
        text: "memory of train 4x256: PyTorch's over ours",
        least: 1.0,
        figure: |rows| ratio(rows, "memory of train 4x256, untied", "f32"),
    },
];

/// Prints each target and returns how many are missed; one that can't be judged is not missed.
pub(crate) fn print(rows: &[Row]) -> usize {
    say("\ntargets:");
    let mut missed = 0;
    for Target {
        text,
        least,
        figure,
    } in TARGETS
    {
        let verdict = match figure(rows) {
            None => "not measured".to_owned(),
            Some(figure) if figure >= *least => format!("{figure:.2}, kept"),
            Some(figure) => {
                missed += 1;
                format!("{figure:.2}, MISSED")
            }
        };
        say(&format!("  {text:<47} at least {least:.2}: {verdict}"));
    }
    missed
}

fn find<'a>(rows: &'a [Row], work: &str, precision: &str) -> Option<&'a Row> {
    rows.iter()
        .find(|row| row.work == work && row.precision == precision)
}

fn ratio(rows: &[Row], work: &str, precision: &str) -> Option<f64> {
    find(rows, work, precision)?.ratio
}

fn floor(rows: &[Row], work: &str, precision: &str) -> Option<f64> {
    find(rows, work, precision)?.floor_fraction
}
