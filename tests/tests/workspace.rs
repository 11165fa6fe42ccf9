//! Tests that involve several crates. They run every notebook and every example, check that results
//! don't depend on the number of threads, and check that each library can be used without the
//! workspace.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

mod examples;
mod notebooks;
mod standalone;
mod threads;
