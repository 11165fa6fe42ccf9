//! Contains the code that all commands share: rules for options, output, error reports, numbers,
//! checks of the free memory, threads, signals, and quoting for the shell.

pub(crate) mod command;
pub(crate) mod failure;
pub(crate) mod interrupt;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod output;
pub(crate) mod shell;
pub(crate) mod threads;
