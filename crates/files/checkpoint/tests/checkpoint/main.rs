//! Tests of model folders. They load fixtures saved by transformers, load models that this crate
//! has saved, and check that damaged files are rejected.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // Clippy doesn't recognize helper functions as parts of tests.

mod folder_forms;
mod gguf;
mod hostile_config;
mod hostile_header;
mod hostile_weights;
mod mutations;
mod round_trip;
mod special_tokens;
mod support;
mod transformers;
