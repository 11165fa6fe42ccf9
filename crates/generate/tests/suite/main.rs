//! Tests through the public interface: one module a theme.
#![allow(clippy::unwrap_used)]
#![allow(clippy::approx_constant)] // a logit of the book looks like 2 pi

mod bad_input;
mod batch;
mod book;
mod common;
mod decoder;
mod sampling;
mod stream;
