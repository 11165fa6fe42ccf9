//! One safetensors file, open: its checked header, and its tensors read one at a time into the caller's memory.
//!
//! It maps nothing: a file that shrinks while it is read is an error, not a signal.

use std::fs::File;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::error::{CheckpointError, TensorProblem, in_tensor, io};
use crate::file::{open_file, read_exact_at};
use crate::header::{Entry, header_length, parse};
use crate::precision::Precision;
use crate::shown::Shape;

/// Elements a thread reads and converts at once.
const CHUNK: usize = 1 << 18;

/// A safetensors file whose header has been checked.
#[derive(Debug)]
pub(crate) struct TensorFile {
    pub(crate) path: PathBuf,
    file: File,
    /// Sorted by name.
    pub(crate) entries: Vec<Entry>,
    /// Where the tensors begin.
    data_begin: u64,
}

impl TensorFile {
    pub(crate) fn open(path: &Path) -> Result<Self, CheckpointError> {
        let (file, size) = open_file(path)?;
        let mut first = [0; 8];
        let first = &mut first[..size.min(8) as usize];
        read_exact_at(&file, first, 0).map_err(io(path, "read"))?;
        let header_bytes = header_length(path, first, size)?;
        let mut header = vec![0; header_bytes as usize];
        read_exact_at(&file, &mut header, 8).map_err(io(path, "read"))?;
        let data_begin = 8 + header_bytes;
        let entries = parse(path, &header, size - data_begin)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            entries,
            data_begin,
        })
    }

    /// Reads a tensor, in row-major order, as f32.
    ///
    /// # Panics
    /// If `out` doesn't have as many elements as the tensor.
    pub(crate) fn read(&self, entry: &Entry, out: &mut [f32]) -> Result<(), CheckpointError> {
        assert!(
            entry.len() == out.len(),
            "a tensor of {} elements into {}",
            entry.len(),
            out.len()
        );
        let precision = self.precision(entry)?;
        let results: Vec<Result<(), CheckpointError>> = out
            .par_chunks_mut(CHUNK)
            .enumerate()
            .map_init(Vec::new, |bytes, (i, chunk)| {
                self.read_part(entry, precision, i * CHUNK, chunk, bytes)?;
                match chunk.iter().position(|x| !x.is_finite()) {
                    None => Ok(()),
                    Some(at) => Err(self.problem(
                        entry,
                        TensorProblem::NotFinite {
                            index: i * CHUNK + at,
                            value: chunk[at],
                        },
                    )),
                }
            })
            .collect();
        // The first in the file, whichever thread was first.
        results.into_iter().collect()
    }

    /// Whether two tensors of one shape have the same numbers, read a little at a time.
    pub(crate) fn read_equal(
        (self_, entry): (&Self, &Entry),
        (other, other_entry): (&Self, &Entry),
    ) -> Result<bool, CheckpointError> {
        let (mut bytes, mut left, mut right) = (Vec::new(), vec![0.0; CHUNK], vec![0.0; CHUNK]);
        let precisions = (self_.precision(entry)?, other.precision(other_entry)?);
        for first in (0..entry.len()).step_by(CHUNK) {
            let len = CHUNK.min(entry.len() - first);
            let (left, right) = (&mut left[..len], &mut right[..len]);
            self_.read_part(entry, precisions.0, first, left, &mut bytes)?;
            other.read_part(other_entry, precisions.1, first, right, &mut bytes)?;
            if left != right {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// An error about one of this file's tensors.
    pub(crate) fn problem(&self, entry: &Entry, problem: TensorProblem) -> CheckpointError {
        in_tensor(&self.path, &entry.name)(problem)
    }

    /// That a tensor has this shape, and numbers that weights may have.
    pub(crate) fn check(&self, entry: &Entry, shape: &[usize]) -> Result<(), CheckpointError> {
        let expected: Vec<u64> = shape.iter().map(|&size| size as u64).collect();
        if entry.shape != expected {
            let problem = TensorProblem::Shape {
                expected: Shape::new(&expected),
                found: Shape::new(&entry.shape),
            };
            return Err(self.problem(entry, problem));
        }
        self.precision(entry).map(drop)
    }

    pub(crate) fn precision(&self, entry: &Entry) -> Result<Precision, CheckpointError> {
        entry
            .precision()
            .ok_or_else(|| self.problem(entry, TensorProblem::Dtype(entry.dtype)))
    }

    /// Reads elements from `first` on; `bytes` is scratch.
    fn read_part(
        &self,
        entry: &Entry,
        precision: Precision,
        first: usize,
        out: &mut [f32],
        bytes: &mut Vec<u8>,
    ) -> Result<(), CheckpointError> {
        let offset = self.data_begin + entry.begin + (first * precision.bytes()) as u64;
        if precision == Precision::F32 && cfg!(target_endian = "little") {
            // The file's bytes are the array's.
            return read_exact_at(&self.file, bytemuck::cast_slice_mut(out), offset)
                .map_err(io(&self.path, "read"));
        }
        bytes.resize(out.len() * precision.bytes(), 0);
        read_exact_at(&self.file, bytes, offset).map_err(io(&self.path, "read"))?;
        precision.decode(bytes, out);
        Ok(())
    }
}
