//! Model folders, in and out: against transformers, round trips, and files that lie.

mod hostile_config;
mod hostile_weights;
mod mutations;
mod round_trip;
mod support;
mod transformers;
