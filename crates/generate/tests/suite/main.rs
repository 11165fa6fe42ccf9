//! What the crate promises, through its public interface: one module a theme.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod beam;
mod book;
mod common;
mod decoder;
mod sampling;
mod stream;
