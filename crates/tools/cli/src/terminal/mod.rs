//! Contains functions that all commands share. They process options and numbers, print output and
//! errors, check the free memory, start threads, handle signals, and quote text for shells.

pub(crate) mod command;
pub(crate) mod failure;
pub(crate) mod interrupt;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod output;
pub(crate) mod shell;
pub(crate) mod threads;
