//! Writing a safetensors file: tensors sorted by name, one metadata entry, so that equal weights
//! make equal bytes.
//!
//! It refuses what it would refuse to read: a name that is there twice, a header that is too long,
//! and numbers that are not finite, or aren't when they are rounded to the file's precision.

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::path::Path;

use atomic_file::replace;
use ndarray::{ArrayViewD, CowArray, IxDyn};
use safetensors::tensor::{Metadata, TensorInfo};

use crate::error::{CheckpointError, in_tensor, invalid, io};
use crate::precision::Precision;
use crate::shown::{JsonProblem, quoted};
use crate::tensor_file::{METADATA, MOST_HEADER_BYTES, header_too_long, not_finite};

/// A tensor to be written, whose numbers are made when its turn comes: in the order of the names.
pub struct LazyTensor<'a> {
    /// Its name in the file.
    pub name: String,
    /// Its shape in the file.
    pub shape: Vec<usize>,
    /// Makes an array of this shape.
    pub numbers: Box<dyn Fn() -> CowArray<'a, f32, IxDyn> + 'a>,
}

impl fmt::Debug for LazyTensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.shape)
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

/// Writes a file atomically: the header, then tensor after tensor.
pub(crate) fn write(
    path: &Path,
    mut items: Vec<LazyTensor<'_>>,
    precision: Precision,
) -> Result<(), CheckpointError> {
    items.sort_by(|a, b| a.name.cmp(&b.name));
    let header = header(&items, precision).map_err(|problem| invalid(path, problem))?;
    let length = header.len() as u64;
    if length > MOST_HEADER_BYTES {
        return Err(invalid(path, header_too_long(length)));
    }
    replace(path, |out| {
        out.write_all(&length.to_le_bytes())
            .and_then(|()| out.write_all(header.as_bytes()))
            .map_err(io(path, "write"))?;
        let encode = |numbers: &[f32], bytes: &mut Vec<u8>| precision.encode(numbers, bytes);
        let name = precision.to_string();
        let mut items = items.iter();
        items.try_for_each(|item| write_numbers(out, path, item, &name, encode))
    })
}

/// Writes a tensor's numbers, a part at a time, each part as `encode` makes bytes of it; a number
/// at whose place it fails is one that the format of this name can't hold.
pub(crate) fn write_numbers(
    out: &mut dyn Write,
    path: &Path,
    item: &LazyTensor<'_>,
    format: &str,
    encode: impl Fn(&[f32], &mut Vec<u8>) -> Result<(), usize>,
) -> Result<(), CheckpointError> {
    const PART: usize = 1 << 16;
    let LazyTensor { name, shape, .. } = item;
    let numbers = (item.numbers)();
    let made = numbers.shape();
    assert!(
        made == shape,
        "tensor {name} has shape {made:?}, but {shape:?} was announced"
    );
    let numbers = numbers.as_standard_layout();
    let numbers = numbers.as_slice().expect("standard layout");
    let mut bytes = Vec::new();
    for (i, part) in numbers.chunks(PART).enumerate() {
        bytes.clear();
        encode(part, &mut bytes).map_err(|place| {
            let problem = cant_hold(i * PART + place, part[place], format);
            in_tensor(path, name, problem)
        })?;
        out.write_all(&bytes).map_err(io(path, "write"))?;
    }
    Ok(())
}

/// The problem of a number that weights can't have, or can't have in a format.
pub(crate) fn cant_hold(index: usize, value: f32, format: &str) -> String {
    match value.is_finite() {
        true => format!("element {index} is {value}, which {format} can't hold"),
        false => not_finite(index, value),
    }
}

/// The JSON of the header, padded with spaces so that the tensors begin at a multiple of 8.
fn header(items: &[LazyTensor<'_>], precision: Precision) -> Result<String, String> {
    let twins = items.windows(2).find(|pair| pair[0].name == pair[1].name);
    let twice = twins.map(|pair| &pair[0]);
    if let Some(item) = twice.or(items.iter().find(|item| item.name == METADATA)) {
        let name = quoted(&item.name);
        return Err(format!("the header would have {name} twice"));
    }
    let mut end = 0;
    let tensor = |item: &LazyTensor<'_>| {
        let begin = end;
        end += item.shape.iter().product::<usize>() * precision.bytes();
        let info = TensorInfo {
            dtype: precision.dtype(),
            shape: item.shape.clone(),
            data_offsets: (begin, end),
        };
        (item.name.clone(), info)
    };
    // transformers wants to know which framework's layout it is.
    let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let metadata = Metadata::new(Some(format), items.iter().map(tensor).collect())
        .map_err(|e| JsonProblem::new(&e).to_string())?;
    let mut header = serde_json::to_string(&metadata).expect("names and numbers are JSON");
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    Ok(header)
}
