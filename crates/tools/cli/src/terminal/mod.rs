//! What every command shares: rules for options, output and errors, numbers, memory, threads,
//! signals and the shell.

pub(crate) mod command;
pub(crate) mod failure;
pub(crate) mod interrupt;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod output;
pub(crate) mod shell;
pub(crate) mod threads;
