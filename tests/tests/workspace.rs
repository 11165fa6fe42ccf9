//! Tests that involve several crates. They run every notebook and every example, check that results
//! are the same for any number of threads, and use each library without the others.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

mod examples;
mod notebooks;
mod standalone;
mod threads;
