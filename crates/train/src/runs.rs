//! The parts of a run's folder by name, and what programs of several processes ask: for whoever
//! keeps more in the folder than checkpoints, as `gpt train` does.

pub use crate::checkpoint::{check_copies, read_settings};
pub use crate::kept::{CHECKPOINTS, damaged_checkpoint, steps_of};
pub use crate::manifest::sha256;
pub use crate::ranks::{agree, gather_texts};
pub use crate::run_folder::{LOCK, TOKENIZER};
pub use crate::state::Settings;
