//! The names of a run's files, and functions for the communication between ranks. This module is
//! for programs that store additional files in a run's folder, such as `gpt train`. Its items may
//! change in any version.

pub use crate::identity::{LOCK, RUN_FILE, run_id};
pub use crate::manifest::sha256;
pub use crate::ranks::{agree, gather_texts};
pub use crate::run_checkpoints::{CHECKPOINTS, ignored_checkpoints, steps_of};
