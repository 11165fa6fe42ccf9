//! Saves named arrays, such as the state of an optimizer or the gradients of a model, to a
//! safetensors file and loads them again. Unlike a model folder, such a file has no config.json.

use std::collections::BTreeMap;
use std::path::Path;

use tensor_ops::engine::row_major_mut;
use tensor_ops::{Dtype, Parameters};

use crate::error::{CheckpointError, MISSING, UNEXPECTED, in_tensor};
use crate::tensor_file::{Entry, TensorFile};
use crate::writer::{LazyTensor, write};

/// Writes named arrays to a safetensors file as `f32`. The file is replaced atomically. The
/// contents of the file don't depend on the order of the arrays.
///
/// ```
/// use checkpoint::{load_tensors_into, save_tensors};
/// use checkpoint::gpt::{GptConfig, GptModel, Parameters, torch_rng::TorchRng};
/// let config = GptConfig { vocab_size: 20, n_layers: 1, ..GptConfig::GPT2_124M };
/// let grads = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let path = std::env::temp_dir().join(format!("tensors-{}", std::process::id()));
/// save_tensors(&path, grads.named_parameters())?;
/// let mut again = GptModel::zeros(config)?;
/// load_tensors_into(&path, &mut again, "")?;
/// assert_eq!(again, grads);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns an error in these cases:
///
/// - Two arrays have the same name, or an array is called `__metadata__`.
/// - The header of the file, which contains the names and shapes, would have more than 2 MiB.
/// - An array doesn't have the shape that is given in its [`LazyTensor`].
/// - A number isn't finite.
/// - The file can't be written.
///
/// If an error occurs, a file that already exists at `path` isn't changed. The only exception is an
/// error that occurs when the folder is synced: the new file has then already replaced the old one.
pub fn save_tensors<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item: Into<LazyTensor<'a>>>,
) -> Result<(), CheckpointError> {
    save_tensors_with_metadata(path, tensors, &[])
}

/// Writes arrays in the same way as [`save_tensors`], and adds the keys and values in `metadata` to
/// the metadata in the file's header. [`read_metadata`] returns this metadata.
///
/// # Errors
/// Returns an error under the same conditions as [`save_tensors`].
pub fn save_tensors_with_metadata<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item: Into<LazyTensor<'a>>>,
    metadata: &[(&str, &str)],
) -> Result<(), CheckpointError> {
    let tensors = tensors.into_iter().map(Into::into).collect();
    write(path.as_ref(), tensors, Dtype::Float32, metadata)
}

/// Reads the metadata in the header of a safetensors file, which maps keys to strings. The metadata
/// of every file that this crate writes contains the key `format`.
///
/// # Errors
/// Returns an error if the file can't be read or isn't a safetensors file.
pub fn read_metadata(path: impl AsRef<Path>) -> Result<BTreeMap<String, String>, CheckpointError> {
    Ok(TensorFile::open(path.as_ref())?.metadata)
}

/// Fills each parameter with the numbers of a tensor. The name of the tensor must be `prefix`
/// followed by the name of the parameter. Tensors whose names don't begin with `prefix` are
/// ignored.
///
/// # Errors
///
/// Returns an error if the file can't be read or is damaged; if a tensor is missing, has the wrong
/// shape or type, or contains a number that isn't finite; or if there is no parameter for a tensor
/// whose name begins with `prefix`. If an error is returned, some of the parameters may have been
/// changed.
pub fn load_tensors_into(
    path: impl AsRef<Path>,
    parameters: &mut (impl Parameters + ?Sized),
    prefix: &str,
) -> Result<(), CheckpointError> {
    let file = TensorFile::open(path.as_ref())?;
    let of_prefix = file
        .entries
        .iter()
        .filter(|entry| entry.name.starts_with(prefix));
    let mut entries: BTreeMap<&str, &Entry> =
        of_prefix.map(|entry| (&*entry.name, entry)).collect();
    for (name, view) in parameters.named_parameters_mut() {
        let name = format!("{prefix}{name}");
        let Some(entry) = entries.remove(&*name) else {
            return Err(in_tensor(&file.path, &name, MISSING));
        };
        file.check(entry, view.shape())?;
        file.read(entry, 0, row_major_mut(&name, view))?;
    }
    match entries.values().next() {
        Some(entry) => Err(file.problem(entry, UNEXPECTED)),
        None => Ok(()),
    }
}
