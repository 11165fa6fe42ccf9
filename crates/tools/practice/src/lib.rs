#![doc = include_str!("../README.md")]

// The files of the exercises are part of this crate, but are also copied to the learner's folder,
// where this crate is a dependency with the name `practice`. This declaration allows them to use
// the name `practice` in both places.
extern crate self as practice;

mod answer;
mod check;
mod exercise;
#[path = "../exercises/mod.rs"]
mod exercises;
mod gpt_program;
mod reference;
mod training;

// Re-exports the crates whose types appear in the exercises or whose functions the learner's GPT
// calls.
pub use {gpt, ndarray, tensor_ops, tokenizer, torch_rng};

pub use check::{Outcome, REPORT_FILE, Report};
pub use exercise::Exercise;
pub use exercises::*;
pub use gpt_program::{files_of_gpt, parts_of_gpt};
/// Text of the story on which the learner's GPT is trained.
pub use notebooks::text::STORY;
pub use training::Training;
