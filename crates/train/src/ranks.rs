//! Communication between the processes that share a training run, which are called ranks.
//!
//! The batches of a step or an evaluation are assigned to the ranks in turn. With two ranks, for
//! example, rank 0 computes batches 0, 2, 4 and so on. All ranks have all weights. `shards.rs`
//! defines which part of the gradients and moments each rank owns.
//!
//! This crate doesn't depend on MPI. A program that uses MPI must implement [`Ranks`] with it, and
//! the tests implement [`Ranks`] with threads. A run that isn't shared uses `OneProcess`.

use std::borrow::Cow;
use std::fmt::Debug;

use bytemuck::{bytes_of, cast_slice, cast_slice_mut};

use crate::TrainError;
use crate::diff::difference;
use crate::manifest::sha256;

/// One of the processes that train a model together.
///
/// All processes must call the same functions in the same order, because each exchange of data
/// waits for all processes.
pub trait Ranks: Debug + Send + Sync {
    /// Returns the number of this process. The first process has number 0.
    fn rank(&self) -> usize;

    /// Returns the number of processes.
    fn size(&self) -> usize;

    /// Sends a part of `send` to each rank. `send` consists of one part per rank, in the order of
    /// the ranks, and all parts have the same length. `receive` is filled with the parts that this
    /// rank receives, in the order of the ranks that sent them.
    fn all_to_all(&self, send: &[u8], receive: &mut [u8]);

    /// Performs an all-gather, which fills `all` with the bytes `own` of every rank, in the order
    /// of the ranks. `own` must have the same length on all ranks.
    fn all_gather(&self, own: &[u8], all: &mut [u8]);
}

/// The only process of a run that isn't shared.
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

/// Returns true if `yes` is true on any rank. All ranks return the same value.
pub(crate) fn any(ranks: &dyn Ranks, yes: bool) -> bool {
    let mut all = vec![0; ranks.size()];
    ranks.all_gather(&[u8::from(yes)], &mut all);
    all.contains(&1)
}

/// Collects one value per batch, such as the loss, from the ranks that computed the batches. `own`
/// contains one value per batch, but only the values of the batches that this rank computed are
/// used.
pub(crate) fn of_all_batches(ranks: &dyn Ranks, own: &[f64]) -> Vec<f64> {
    let (n, size) = (own.len(), ranks.size());
    let mut all = vec![0.0; n * size];
    ranks.all_gather(cast_slice(own), cast_slice_mut(&mut all));
    (0..n).map(|i| all[i % size * n + i]).collect()
}

/// Exchanges strings among all ranks and returns the strings of all ranks, in the order of the
/// ranks.
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

/// Returns a form of a value that is short enough to be displayed. A long value, such as a random
/// state, is replaced by its hash.
fn shortened(value: &str) -> Cow<'_, str> {
    const MAX_BYTES: usize = 100;
    match value.len() > MAX_BYTES {
        true => format!("a value with the SHA-256 {}", sha256(value)).into(),
        false => value.into(),
    }
}

/// Checks that all ranks have the same fields. A field consists of a name and a value.
///
/// # Errors
///
/// Returns [`TrainError::RanksDiffer`], which contains the first field that differs between a rank
/// and rank 0. All ranks return the same error.
pub fn agree(ranks: &dyn Ranks, fields: &[(String, String)]) -> Result<(), TrainError> {
    let own: Vec<(&String, Cow<'_, str>)> = fields
        .iter()
        .map(|(name, value)| (name, shortened(value)))
        .collect();
    let own = serde_json::to_string(&own).expect("texts are valid JSON");
    let all = gather_texts(ranks, &own).into_iter();
    // If a rank runs another version of this program, its fields may have a format that can't be
    // parsed. The rank's list is then empty here, so an error is returned.
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
