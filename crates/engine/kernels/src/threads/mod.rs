//! Threads and memory that are reused: a pass keeps rayon's threads awake, loops are shared among
//! them, and buffers stay from pass to pass.

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
