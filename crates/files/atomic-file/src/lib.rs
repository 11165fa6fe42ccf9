#![doc = include_str!("../README.md")]
#![allow(clippy::disallowed_methods, reason = "it is the one writer of files")]
#![forbid(unsafe_code)]

mod error;
mod file_format;
mod file_system;
mod folder;
mod name;
mod output;
mod read;
mod replace;
mod support;

pub use error::FileError;
pub use file_format::FileFormat;
pub use file_system::Lock;
pub use folder::{
    StagedFolder, create_folder, create_new_folder, names_in, remove_folder,
    remove_unfinished_folders, require_new_or_empty,
};
pub use name::{folder_of, is_system_file, unfinished_of};
pub use output::{append, create_output, is_descriptor, require_new_output, write_output};
pub use read::{
    is_file, missing_reason, open_file, quote_python_numbers, read_exact_at, read_small_file,
};
pub use replace::{replace, write_atomically};
pub use support::missing_support;
