//! Tests the command-line program `gpt` from a user's point of view: its output, its files and its
//! error messages.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

mod convert;
mod data_folders;
mod generate;
mod help;
mod identity;
mod inspect;
mod interrupt;
mod keeps;
#[cfg(feature = "mpi")]
mod mpi;
mod one_model;
mod paths;
mod readme;
mod refusals;
mod resume;
mod support;
mod texts;
mod tools;
mod train;
mod vocabularies;
