//! Any named arrays as one safetensors file: what an optimizer's state, or a gradient, is kept in.
//!
//! It knows no configuration: names and shapes are the caller's.

use std::collections::BTreeMap;
use std::path::Path;

use ndarray::{ArrayD, ArrayViewMutD};
use tensor_ops::Parameters;

use crate::error::{CheckpointError, MISSING, UNEXPECTED, in_tensor};
use crate::precision::Precision;
use crate::tensor_file::TensorFile;
use crate::writer::{LazyTensor, write};

/// Writes arrays as one safetensors file in f32: atomically, and with the same bytes for the same
/// arrays in any order.
///
/// ```
/// use checkpoint::{load_tensors, save_tensors};
/// let moment = ndarray::array![1.0_f32, 2.0].into_dyn();
/// let path = std::env::temp_dir().join(format!("tensors-{}", std::process::id()));
/// save_tensors(&path, [("m".to_owned(), moment.view())])?;
/// assert_eq!(load_tensors(&path)?["m"], moment);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the operating system refuses, a name is there twice or is `__metadata__`, or a number is not
/// finite.
pub fn save_tensors<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item: Into<LazyTensor<'a>>>,
) -> Result<(), CheckpointError> {
    let tensors = tensors.into_iter().map(Into::into).collect();
    write(path.as_ref(), tensors, Precision::F32)
}

/// Reads all tensors of a safetensors file of f64, f32, f16 or bf16 weights.
///
/// # Errors
/// If the file can't be read or is damaged, or a tensor is of another type or not finite.
pub fn load_tensors(
    path: impl AsRef<Path>,
) -> Result<BTreeMap<String, ArrayD<f32>>, CheckpointError> {
    let file = TensorFile::open(path.as_ref())?;
    let mut tensors = BTreeMap::new();
    for entry in &file.entries {
        file.check_type(entry)?;
        let mut array = ArrayD::zeros(&entry.info.shape[..]);
        let numbers = array.as_slice_mut().expect("fresh arrays are row-major");
        file.read(entry, 0, numbers)?;
        tensors.insert(entry.name.clone(), array);
    }
    Ok(tensors)
}

/// Fills every parameter from the tensor named `prefix` + its own name; tensors that don't begin
/// with `prefix` are left alone.
///
/// Nothing is written to `parameters` unless all names, shapes and types are right.
///
/// # Errors
/// If the file can't be read or is damaged, or a tensor is missing, of another shape or type, not
/// finite, or begins with `prefix` and names no parameter.
pub fn load_tensors_into(
    path: impl AsRef<Path>,
    parameters: &mut impl Parameters,
    prefix: &str,
) -> Result<(), CheckpointError> {
    let file = TensorFile::open(path.as_ref())?;
    let mut views: BTreeMap<String, ArrayViewMutD<'_, f32>> = parameters
        .named_parameters_mut()
        .into_iter()
        .map(|(name, view)| (format!("{prefix}{name}"), view))
        .collect();
    let mut places = Vec::new();
    for entry in file.entries.iter().filter(|e| e.name.starts_with(prefix)) {
        let Some(view) = views.remove(&entry.name) else {
            return Err(file.problem(entry, UNEXPECTED));
        };
        file.check(entry, view.shape())?;
        places.push((entry, view));
    }
    if let Some(missing) = views.keys().next() {
        return Err(in_tensor(&file.path, missing, MISSING));
    }
    for (entry, view) in &mut places {
        let numbers = view.as_slice_mut().expect("parameters are row-major");
        file.read(entry, 0, numbers)?;
    }
    Ok(())
}
