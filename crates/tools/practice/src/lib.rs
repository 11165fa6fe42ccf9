#![doc = include_str!("../README.md")]

// The exercises name this crate as a reader's file does.
extern crate self as practice;

mod answer;
mod check;
mod exercise;
#[path = "../exercises/mod.rs"]
mod exercises;
mod gpt_program;
mod reference;
mod training;

// Crates whose types appear in the exercises, and those that the GPT of the reader uses.
pub use {gpt, ndarray, tensor_ops, tokenizer, torch_rng};

pub use check::{Outcome, REPORT_FILE, Report};
pub use exercise::Exercise;
pub use exercises::*;
pub use gpt_program::{files_of_gpt, parts_of_gpt};
/// The text of the story on which the reader's GPT is trained.
pub use notebooks::text::STORY;
pub use training::Training;
