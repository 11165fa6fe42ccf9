#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod folder;
mod name;
mod output;
mod replace;

pub use error::FileError;
pub use folder::{
    StagedFolder, copy_file, create_folder, create_new_folder, remove_folder,
    remove_unfinished_folders, sync_folder,
};
pub use name::unfinished_of;
pub use output::{append, write_output};
pub use replace::{remove_unfinished, replace, write_atomically};
