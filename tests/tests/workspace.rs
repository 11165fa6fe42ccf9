//! Tests of several crates together: every notebook, text to tokens end to end, the same bits for
//! any number of threads, each crate used alone, each example.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

mod examples;
mod notebooks;
mod pipeline;
mod standalone;
mod threads;
