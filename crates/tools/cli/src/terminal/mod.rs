//! Contains code that all commands share. It processes options and numbers, prints output and
//! errors, checks the free memory, starts threads, handles signals, and quotes text for the shell.

pub(crate) mod command;
pub(crate) mod failure;
pub(crate) mod interrupt;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod output;
pub(crate) mod shell;
pub(crate) mod threads;
