#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The exercises name this crate as a reader's file does.
extern crate self as practice;

mod answer;
mod check;
mod exercise;
#[path = "../exercises/mod.rs"]
mod exercises;
pub mod given;
mod reference;

// Crates whose types appear in the exercises.
pub use {ndarray, tokenizer};

pub use check::{Outcome, REPORT_FILE, Report};
pub use exercise::Exercise;
pub use exercises::*;
