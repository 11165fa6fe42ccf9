//! Tests that models can be saved and loaded again, that models saved by transformers produce the
//! same results in this crate, and that invalid files are rejected.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // The helper functions also belong to the tests.

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
