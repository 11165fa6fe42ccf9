//! Tests of the public API, with one module per topic.
#![allow(clippy::unwrap_used)]
#![allow(clippy::approx_constant)] // a logit in the book is close to 2 pi

mod bad_input;
mod batch;
mod book;
mod common;
mod decoder;
mod sampling;
mod stream;
