//! Communication between the processes that share a training run. These processes are called ranks.
//!
//! The batches of a training step or an evaluation are assigned to the ranks in turn. If there are
//! two ranks, for example, rank 0 computes batches 0, 2, 4 and so on, and rank 1 computes all other
//! batches. Each rank stores all weights of the model. The gradients and the optimizer's moments
//! are divided among the ranks, as described in `shards.rs`.
//!
//! This crate doesn't depend on MPI. A program that uses MPI for the communication must implement
//! [`Ranks`] for its MPI library. The tests implement [`Ranks`] for threads, and a run that isn't
//! shared uses `OneProcess`.

use std::borrow::Cow;
use std::fmt::Debug;

use bytemuck::{bytes_of, cast_slice, cast_slice_mut};

use crate::TrainError;
use crate::diff::difference;
use crate::manifest::sha256;

/// One of the processes (ranks) that train a model together.
///
/// All processes must call the methods `all_to_all` and `all_gather` in the same order, because
/// each call waits until all processes have called the method.
pub trait Ranks: Debug + Send + Sync {
    /// Returns the number of this process, counted from 0.
    fn rank(&self) -> usize;

    /// Returns the number of processes that share the run.
    fn size(&self) -> usize;

    /// Performs an all-to-all exchange. `send` consists of one part for each rank, in the order of
    /// the ranks, and all parts have the same length. Afterwards, `receive` contains the parts that
    /// all ranks sent to this rank, in the order of the sending ranks.
    fn all_to_all(&self, send: &[u8], receive: &mut [u8]);

    /// Performs an all-gather, which fills `all` with a copy of `own` from each rank, in the order
    /// of the ranks. `own` must have the same length on all ranks.
    fn all_gather(&self, own: &[u8], all: &mut [u8]);
}

/// The only process of a training run that isn't shared.
#[derive(Debug)]
pub(crate) struct OneProcess;

impl Ranks for OneProcess {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_to_all(&self, send: &[u8], receive: &mut [u8]) {
        receive.copy_from_slice(send);
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) {
        all.copy_from_slice(own);
    }
}

/// Returns true on all ranks if `yes` is true on at least one rank. Otherwise, returns false on all
/// ranks.
pub(crate) fn any(ranks: &dyn Ranks, yes: bool) -> bool {
    let mut all = vec![0; ranks.size()];
    ranks.all_gather(&[u8::from(yes)], &mut all);
    all.contains(&1)
}

/// Collects one value for each batch, such as its loss, and returns all values on all ranks. `own`
/// contains one element for each batch, but only the elements for the batches that this rank
/// computed are used.
pub(crate) fn of_all_batches(ranks: &dyn Ranks, own: &[f64]) -> Vec<f64> {
    let (n, size) = (own.len(), ranks.size());
    let mut all = vec![0.0; n * size];
    ranks.all_gather(cast_slice(own), cast_slice_mut(&mut all));
    (0..n).map(|i| all[i % size * n + i]).collect()
}

/// Sends a string from each rank to all ranks. Returns the strings of all ranks, in the order of
/// the ranks.
pub fn gather_texts(ranks: &dyn Ranks, text: &str) -> Vec<String> {
    let mut lengths = vec![0; ranks.size()];
    ranks.all_gather(bytes_of(&text.len()), cast_slice_mut(&mut lengths));
    let longest = lengths.iter().copied().max().unwrap_or(0).max(1);
    let mut own = text.as_bytes().to_vec();
    own.resize(longest, 0);
    let mut all = vec![0; longest * ranks.size()];
    ranks.all_gather(&own, &mut all);
    all.chunks(longest)
        .zip(lengths)
        .map(|(bytes, length)| String::from_utf8_lossy(&bytes[..length]).into_owned())
        .collect()
}

/// Returns a value unchanged if it is short enough for an error message. Otherwise, returns a text
/// that contains only the hash of the value. This applies to the state of a random number
/// generator, for example.
fn shortened(value: &str) -> Cow<'_, str> {
    const MAX_BYTES: usize = 100;
    match value.len() > MAX_BYTES {
        true => format!("a value with the SHA-256 {}", sha256(value)).into(),
        false => value.into(),
    }
}

/// Checks that all ranks pass the same list of fields to this function. Each field consists of a
/// name and a value.
///
/// # Errors
///
/// Returns [`TrainError::RanksDiffer`] if the lists differ. The error contains the first field
/// whose value on some rank differs from its value on rank 0. All ranks return the same error.
pub fn agree(ranks: &dyn Ranks, fields: &[(String, String)]) -> Result<(), TrainError> {
    let own: Vec<(&String, Cow<'_, str>)> = fields
        .iter()
        .map(|(name, value)| (name, shortened(value)))
        .collect();
    let own = serde_json::to_string(&own).expect("texts are valid JSON");
    let all = gather_texts(ranks, &own).into_iter();
    // A rank that runs another version of this program may send its fields in a format that this
    // rank can't parse. In that case, an empty list is used, which differs from the list of any
    // other rank and therefore leads to an error.
    let all = all.map(|fields| serde_json::from_str(&fields).unwrap_or_default());
    let all: Vec<Vec<(String, String)>> = all.collect();
    for (rank, fields) in all.iter().enumerate() {
        if let Some((name, first, other)) = difference(&all[0], fields) {
            return Err(TrainError::RanksDiffer {
                name,
                rank,
                other,
                first,
            });
        }
    }
    Ok(())
}
