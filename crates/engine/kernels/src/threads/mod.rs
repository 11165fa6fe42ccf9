//! Parallel loops and reusable memory.
//!
//! A *pass* is a computation that consists of many short parallel loops, such as the forward pass
//! of a model. During a pass, rayon's threads stay awake ([`awake()`]) and share the tasks of its
//! loops ([`for_each()`]). The next pass reuses the memory of its buffers ([`buffer`] and
//! [`recycle`]).

mod awake;
pub(crate) mod buffers;
mod fill_blocks;
mod for_each;
pub(crate) mod huge_pages;
mod passes;
pub(crate) mod tasks;
mod team;

pub use awake::awake;
pub use buffers::{buffer, recycle};
pub use fill_blocks::fill_blocks;
pub use for_each::{LoopCounts, for_each, loop_counts};
pub use huge_pages::zeros;
