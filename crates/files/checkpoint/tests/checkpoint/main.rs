//! Model folders, in and out: against transformers, round trips, and files that lie.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

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
