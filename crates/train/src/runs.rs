//! The names of a run's files, and the exchange between processes: for programs that keep more than
//! checkpoints in the folder, like `gpt train`.

pub use crate::checkpoint::{check_tokenizer, read_settings};
pub use crate::identity::{LOCK, RUN_FILE, run_id};
pub use crate::manifest::sha256;
pub use crate::ranks::{agree, gather_texts};
pub use crate::run_checkpoints::{CHECKPOINTS, ignored_checkpoints, steps_of};
pub use crate::state::Settings;
