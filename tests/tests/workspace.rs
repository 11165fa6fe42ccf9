//! Tests of several crates together: every notebook, the same bits for any number of threads, each
//! crate used alone, each example.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

mod examples;
mod notebooks;
mod standalone;
mod threads;
