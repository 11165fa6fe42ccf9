//! Writes safetensors files. The tensors are sorted by name, so two files that contain the same
//! tensors and the same metadata are identical.
//!
//! If the name of a tensor is invalid, or if an element isn't finite after it has been rounded to
//! the precision of the file, writing fails with an error. The file that already exists at the path
//! remains unchanged.

use std::fmt;
use std::io::Write;
use std::path::Path;

use atomic_file::replace;
use ndarray::{ArrayViewD, CowArray, IxDyn};
use serde_json::json;
use tensor_ops::Dtype;

use crate::encoding::{FILE_DTYPES, encode, in_file};
use crate::error::{CheckpointError, in_tensor, invalid, io};
use crate::tensor_file::{MAX_HEADER_BYTES, METADATA, not_finite, other_shape};

/// A tensor that will be written to a file. Its numbers are computed only when they are written, so
/// the tensors don't all have to be in memory at the same time.
pub struct LazyTensor<'a> {
    /// Name of the tensor in the file.
    pub name: String,
    /// Shape of the tensor in the file.
    pub shape: Vec<usize>,
    /// Function that computes the numbers of the tensor. It returns an array of the shape `shape`.
    pub numbers: Box<dyn Fn() -> CowArray<'a, f32, IxDyn> + Send + Sync + 'a>,
}

/// Shows the name and the shape of the tensor, but doesn't compute its numbers.
impl fmt::Debug for LazyTensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyTensor")
            .field("name", &self.name)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl<'a> From<(String, ArrayViewD<'a, f32>)> for LazyTensor<'a> {
    fn from((name, view): (String, ArrayViewD<'a, f32>)) -> Self {
        Self {
            name,
            shape: view.shape().to_vec(),
            numbers: Box::new(move || CowArray::from(view.clone())),
        }
    }
}

/// Replaces a file atomically. First, the header is written, which includes the key-value pairs in
/// `metadata`. Then, the tensors are written one after another.
pub(crate) fn write(
    path: &Path,
    mut items: Vec<LazyTensor<'_>>,
    dtype: Dtype,
    metadata: &[(&str, &str)],
) -> Result<(), CheckpointError> {
    dtype.one_of(FILE_DTYPES)?;
    items.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(twins) = items.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(in_tensor(
            path,
            &twins[0].name,
            "two tensors have this name",
        ));
    }
    if let Some(item) = items.iter().find(|item| item.name == METADATA) {
        let problem =
            "this name is reserved for the metadata of a safetensors file; choose another";
        return Err(in_tensor(path, &item.name, problem));
    }
    let header = header(&items, dtype, metadata);
    if header.len() as u64 > MAX_HEADER_BYTES {
        let bytes = header.len();
        return Err(invalid(
            path,
            format!(
                "the header, which contains the names and shapes of the tensors, has {bytes} bytes, but the maximum is {MAX_HEADER_BYTES}; write fewer tensors, or use shorter names"
            ),
        ));
    }
    replace(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())
            .and_then(|()| out.write_all(header.as_bytes()))
            .map_err(io(path, "write"))?;
        let encode = |numbers: &[f32], bytes: &mut Vec<u8>| encode(dtype, numbers, bytes);
        let mut items = items.iter();
        items.try_for_each(|item| write_numbers(out, path, item, dtype, encode))
    })
}

/// Computes the numbers of a tensor and writes them in chunks. `encode` converts a chunk of numbers
/// and appends the resulting bytes to a buffer. If the file's format can't represent a number,
/// `encode` returns the number's index in the chunk as an error.
pub(crate) fn write_numbers(
    out: &mut dyn Write,
    path: &Path,
    item: &LazyTensor<'_>,
    dtype: Dtype,
    encode: impl Fn(&[f32], &mut Vec<u8>) -> Result<(), usize>,
) -> Result<(), CheckpointError> {
    const PART: usize = 1 << 16;
    let LazyTensor { name, shape, .. } = item;
    let numbers = (item.numbers)();
    if numbers.shape() != shape {
        return Err(in_tensor(path, name, other_shape(numbers.shape(), shape)));
    }
    let numbers = numbers.as_standard_layout();
    let numbers = numbers.as_slice().expect("standard layout");
    let mut bytes = Vec::new();
    for (i, part) in numbers.chunks(PART).enumerate() {
        bytes.clear();
        encode(part, &mut bytes).map_err(|place| {
            let (index, value) = (i * PART + place, part[place]);
            let problem = match value.is_finite() {
                true => format!("element {index} is {value}, which is too large for {dtype}"),
                false => not_finite(index, value),
            };
            in_tensor(path, name, problem)
        })?;
        out.write_all(&bytes).map_err(io(path, "write"))?;
    }
    Ok(())
}

/// Returns the header of a safetensors file in JSON. The header is padded with spaces, so that the
/// data of the tensors begins at an offset that is a multiple of 8 bytes.
fn header(items: &[LazyTensor<'_>], dtype: Dtype, metadata: &[(&str, &str)]) -> String {
    // transformers requires that the metadata contains the name of the framework, "pt" for PyTorch.
    let mut json = json!({METADATA: {"format": "pt"}});
    for (key, value) in metadata {
        json[METADATA][key] = json!(value);
    }
    let mut begin = 0;
    for LazyTensor { name, shape, .. } in items {
        let dtype = in_file(dtype);
        let end = begin + shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let data_offsets = (begin, end);
        json[name] = json!({"dtype": dtype, "shape": shape, "data_offsets": data_offsets});
        begin = end;
    }
    let mut header = json.to_string();
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    header
}
