//! The parts of a run's folder by name, and what processes exchange: for programs that keep more in
//! the folder than checkpoints, as `gpt train` does.

pub use crate::checkpoint::{check_copies, read_settings};
pub use crate::identity::LOCK;
pub use crate::kept::{CHECKPOINTS, ignored_checkpoints, steps_of};
pub use crate::manifest::sha256;
pub use crate::ranks::{agree, gather_texts};
pub use crate::state::Settings;
