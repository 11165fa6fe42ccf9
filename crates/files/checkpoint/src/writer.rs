//! Writing a safetensors file: tensors sorted by name, one metadata entry, so that equal weights
//! make equal bytes.
//!
//! It refuses what it would refuse to read: a name that is there twice, a header that is too long,
//! and numbers that are not finite, or aren't when they are rounded to the file's precision.

use std::collections::HashMap;
use std::fmt;
use std::io::Write as _;
use std::path::Path;

use atomic_file::replace;
use ndarray::{ArrayViewD, CowArray, IxDyn};
use safetensors::tensor::{Metadata, TensorInfo};

use crate::error::{CheckpointError, FormatProblem, TensorProblem, in_file, in_tensor, io};
use crate::precision::Precision;
use crate::shown::{JsonProblem, Quoted};
use crate::tensor_file::{METADATA, MOST_HEADER_BYTES};

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
    let header = header(&items, precision).map_err(in_file(path))?;
    let header_bytes = header.len() as u64;
    if header_bytes > MOST_HEADER_BYTES {
        return Err(in_file(path)(FormatProblem::HeaderTooLong {
            header: header_bytes,
            limit: MOST_HEADER_BYTES,
        }));
    }
    replace(path, |out| {
        let mut write = |bytes: &[u8]| out.write_all(bytes).map_err(io(path, "write"));
        write(&header_bytes.to_le_bytes())?;
        write(header.as_bytes())?;
        for item in &items {
            let numbers = (item.numbers)();
            assert!(
                numbers.shape() == item.shape,
                "tensor {} has shape {:?}, but {:?} was announced",
                item.name,
                numbers.shape(),
                item.shape
            );
            let numbers = numbers.as_standard_layout();
            let numbers = numbers.as_slice().expect("standard layout");
            write_numbers(numbers, precision, &mut write, &in_tensor(path, &item.name))?;
        }
        Ok(())
    })
}

/// Writes numbers in a precision, a part at a time; one that it can't hold is a problem.
pub(crate) fn write_numbers(
    numbers: &[f32],
    precision: Precision,
    write: &mut impl FnMut(&[u8]) -> Result<(), CheckpointError>,
    problem: &impl Fn(TensorProblem) -> CheckpointError,
) -> Result<(), CheckpointError> {
    const CHUNK: usize = 1 << 16;
    let mut bytes = Vec::with_capacity(CHUNK.min(numbers.len()) * precision.bytes());
    for (i, chunk) in numbers.chunks(CHUNK).enumerate() {
        if let Some(at) = chunk.iter().position(|&x| !precision.holds(x)) {
            let (index, value) = (i * CHUNK + at, chunk[at]);
            return Err(problem(if value.is_finite() {
                TensorProblem::Overflow {
                    index,
                    value,
                    precision,
                }
            } else {
                TensorProblem::NotFinite { index, value }
            }));
        }
        bytes.clear();
        precision.encode(chunk, &mut bytes);
        write(&bytes)?;
    }
    Ok(())
}

/// The JSON of the header, padded with spaces so that the tensors begin at a multiple of 8.
fn header(items: &[LazyTensor<'_>], precision: Precision) -> Result<String, FormatProblem> {
    let twins = items.windows(2).find(|pair| pair[0].name == pair[1].name);
    let twice = twins.map(|pair| &pair[0]);
    if let Some(item) = twice.or(items.iter().find(|item| item.name == METADATA)) {
        return Err(FormatProblem::Duplicate(Quoted::text(&item.name)));
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
        .map_err(|e| FormatProblem::Header(JsonProblem::new(&e)))?;
    let mut header = serde_json::to_string(&metadata).expect("names and numbers are JSON");
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    Ok(header)
}
