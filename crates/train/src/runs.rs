//! Names of the files in a run's folder, and functions for the communication between the processes
//! that share a run. Programs such as `gpt train` use this module to store additional files in a
//! run's folder. Any new version of this crate may change this module.

pub use crate::identity::{LOCK, RUN_FILE, run_id};
pub use crate::manifest::sha256;
pub use crate::ranks::{agree, gather_texts};
pub use crate::run_checkpoints::{CHECKPOINTS, ignored_checkpoints, steps_of};
