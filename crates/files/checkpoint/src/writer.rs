//! Writing a safetensors file: tensors sorted by name, one metadata entry, so that equal weights
//! make equal bytes.
//!
//! Names that the file can't have are errors, and so are numbers that aren't finite, also after
//! rounding to the file's format. After an error, the old file stays.

use std::io::Write;
use std::path::Path;

use atomic_file::replace;
use ndarray::{ArrayViewD, CowArray, IxDyn};
use serde_json::json;
use tensor_ops::Dtype;

use crate::encoding::{FILE_DTYPES, encode, in_file};
use crate::error::{CheckpointError, in_tensor, invalid, io};
use crate::tensor_file::{MAX_HEADER_BYTES, METADATA, not_finite, other_shape};

/// A tensor to be written, whose numbers are made when its turn comes: in the order of the names.
pub struct LazyTensor<'a> {
    /// Its name in the file.
    pub name: String,
    /// Its shape in the file.
    pub shape: Vec<usize>,
    /// Makes an array of this shape.
    pub numbers: Box<dyn Fn() -> CowArray<'a, f32, IxDyn> + 'a>,
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

/// Writes a file atomically: the header with pairs of `metadata`, then tensor after tensor.
pub(crate) fn write(
    path: &Path,
    mut items: Vec<LazyTensor<'_>>,
    dtype: Dtype,
    metadata: &[(&str, &str)],
) -> Result<(), CheckpointError> {
    dtype.one_of(FILE_DTYPES)?;
    items.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(twins) = items.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(in_tensor(path, &twins[0].name, "duplicate tensor name"));
    }
    if let Some(item) = items.iter().find(|item| item.name == METADATA) {
        let problem = "a safetensors file has its metadata under this name";
        return Err(in_tensor(path, &item.name, problem));
    }
    let header = header(&items, dtype, metadata);
    if header.len() as u64 > MAX_HEADER_BYTES {
        let bytes = header.len();
        return Err(invalid(
            path,
            format!(
                "the names and shapes take {bytes} bytes, more than the {MAX_HEADER_BYTES} that are read; write fewer tensors, or shorter names"
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

/// Writes a tensor's numbers, a part at a time. `encode` makes the bytes of a part; its error is
/// the index of a number that the format can't hold.
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
                true => format!("element {index} is {value}, which {dtype} can't hold"),
                false => not_finite(index, value),
            };
            in_tensor(path, name, problem)
        })?;
        out.write_all(&bytes).map_err(io(path, "write"))?;
    }
    Ok(())
}

/// The JSON of the header, padded with spaces so that the tensors begin at a multiple of 8.
fn header(items: &[LazyTensor<'_>], dtype: Dtype, metadata: &[(&str, &str)]) -> String {
    // transformers requires the name of the framework.
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
