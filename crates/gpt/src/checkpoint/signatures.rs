//! The public functions' signatures, until each has its file.
#![allow(missing_docs, unused_variables, clippy::missing_errors_doc)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use ndarray::{ArrayD, ArrayViewD};
use tensor_ops::Parameters;

use super::{CheckpointError, Precision};
use crate::{GptConfig, GptModel};

/// Loads the model in a folder (Hugging Face's or the book's layout); `path` is the folder or a file in it.
pub fn load_model(path: impl AsRef<Path>) -> Result<GptModel, CheckpointError> {
    unimplemented!()
}
/// The configuration alone.
pub fn load_config(path: impl AsRef<Path>) -> Result<GptConfig, CheckpointError> {
    unimplemented!()
}
/// Writes config.json and model.safetensors with the book's names, f32.
pub fn save_book(model: &GptModel, folder: impl AsRef<Path>) -> Result<(), CheckpointError> {
    unimplemented!()
}
/// Writes config.json, generation_config.json and model.safetensors that transformers loads.
pub fn save_hugging_face(
    model: &GptModel,
    folder: impl AsRef<Path>,
    precision: Precision,
) -> Result<(), CheckpointError> {
    unimplemented!()
}
/// Writes named arrays as one safetensors file, atomically and with deterministic bytes.
pub fn save_tensors(
    path: impl AsRef<Path>,
    tensors: &[(String, ArrayViewD<'_, f32>)],
) -> Result<(), CheckpointError> {
    unimplemented!()
}
/// All tensors of a safetensors file, by name.
pub fn load_tensors(
    path: impl AsRef<Path>,
) -> Result<BTreeMap<String, ArrayD<f32>>, CheckpointError> {
    unimplemented!()
}
/// Fills every parameter from the tensor named prefix + name; tensors of other prefixes are left alone.
pub fn load_tensors_into(
    path: impl AsRef<Path>,
    parameters: &mut impl Parameters,
    prefix: &str,
) -> Result<(), CheckpointError> {
    unimplemented!()
}
/// Writes a file so that a crash leaves the old one or the new one: temporary file beside it, `sync_all`, rename, sync of the folder.
pub fn write_atomically(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut io::BufWriter<File>) -> io::Result<()>,
) -> Result<(), CheckpointError> {
    unimplemented!()
}
/// Deletes the temporary files that a crash during [`write_atomically`] left in a folder; returns how many.
pub fn remove_unfinished(folder: impl AsRef<Path>) -> Result<usize, CheckpointError> {
    unimplemented!()
}
