//! The same training on processors with other instructions: the same tokens, and weights within a
//! bound.
//!
//! It needs qemu-x86_64, which acts as another processor; without it the test says so and does
//! nothing.
//! `GPT_FOR_AARCH64` names a `gpt` that was built for aarch64, which qemu-aarch64 then runs beside
//! them.

use std::ffi::OsString;
use std::process::Command;

use checkpoint::load_tensors;

use crate::sandbox::{copy_of, folder_with_a_run, is_long, train, words};

/// Without AVX, and with AVX2 and FMA.
const PROCESSORS: [[&str; 3]; 2] = [
    ["qemu-x86_64", "-cpu", "Nehalem"],
    ["qemu-x86_64", "-cpu", "Haswell"],
];

/// The most by which a weight may differ after 20 steps, whose weights are below 4.
const BOUND: f32 = 1e-5;

#[test]
fn other_processors_give_the_same_tokens_and_nearly_the_same_weights() {
    let has_qemu = Command::new("qemu-x86_64").arg("--version").output();
    if !is_long() || !cfg!(target_arch = "x86_64") || has_qemu.is_err() {
        println!("skipped: it is part of `cargo xtask torture`, and needs qemu-x86_64");
        return;
    }
    let good = folder_with_a_run();
    let on = |program: &[&str]| {
        let folder = copy_of(good.path());
        let gpt = |arguments: &[OsString]| {
            let mut command = Command::new(program[0]);
            let command = command.args(&program[1..]).args(arguments);
            let output = command.current_dir(folder.path()).output();
            let output = output.expect("it runs");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program:?}: {stderr}");
            output.stdout
        };
        let mut arguments = train("--max-steps");
        arguments.extend(words(
            "--max-steps 20 --learning-rate 0.01 --drop-rate 0.1 --out-dir new",
        ));
        gpt(&arguments);
        let tokens = gpt(&words(
            "generate --tokens 1,2,3 -n 40 --temperature 0 -m new --threads 1",
        ));
        let weights = folder
            .path()
            .join("new/checkpoints/step-00000020/model.safetensors");
        (tokens, load_tensors(weights).expect("a checkpoint"))
    };
    let here = crate::sandbox::program();
    let here = here.to_str().expect("a path in text");
    let mut programs: Vec<_> = PROCESSORS
        .map(|processor| [&processor[..], &[here]].concat())
        .into();
    let aarch64 = std::env::var("GPT_FOR_AARCH64");
    programs.extend(aarch64.iter().map(|gpt| vec!["qemu-aarch64", gpt]));
    let (tokens, weights) = on(&[here]);
    for program in programs {
        let (other_tokens, others) = on(&program);
        let processor = program[..program.len() - 1].join(" ");
        assert_eq!(other_tokens, tokens, "{processor}");
        let pairs = weights
            .iter()
            .flat_map(|(name, here)| here.iter().zip(&others[name]));
        let apart = pairs.fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
        println!("{processor}: same tokens, weights within {apart:e} of this processor's");
        assert!(apart <= BOUND, "{processor}: {apart:e}");
    }
}
