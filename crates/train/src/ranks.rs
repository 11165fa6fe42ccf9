//! The processes that share the work of one run: how they exchange numbers and compare their plans.
//!
//! The batches of a step or an evaluation are dealt in turn: the first rank computes the first, and
//! so on. All ranks have all weights; `shards.rs` defines each rank's part of the sums and moments.
//! This crate doesn't use MPI: a program with MPI provides an implementation, the tests have one
//! with threads, and a single process is `OneProcess`.

use std::borrow::Cow;
use std::fmt::Debug;

use bytemuck::{bytes_of, cast_slice, cast_slice_mut};

use crate::TrainError;
use crate::diff::difference;
use crate::manifest::sha256;

/// This process among those that train one model together; all of them make the same exchanges in
/// the same order.
pub trait Ranks: Debug + Send + Sync {
    /// This one's number, counted from 0.
    fn rank(&self) -> usize;

    /// The number of processes.
    fn size(&self) -> usize;

    /// `send` is one equal part for each rank; `receive` becomes the parts that the ranks had for
    /// this one, in their order.
    fn all_to_all(&self, send: &[u8], receive: &mut [u8]);

    /// `all` becomes what each rank calls `own`, in their order; all are of one length.
    fn all_gather(&self, own: &[u8], all: &mut [u8]);
}

/// A single process: sending does nothing, and gathering returns its own data.
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

/// True on all ranks if it is on any.
pub(crate) fn any(ranks: &dyn Ranks, yes: bool) -> bool {
    let mut all = vec![0; ranks.size()];
    ranks.all_gather(&[u8::from(yes)], &mut all);
    all.contains(&1)
}

/// The numbers of all batches, each from the rank that computed it.
pub(crate) fn of_all_batches(ranks: &dyn Ranks, own: &[f64]) -> Vec<f64> {
    let (n, size) = (own.len(), ranks.size());
    let mut all = vec![0.0; n * size];
    ranks.all_gather(cast_slice(own), cast_slice_mut(&mut all));
    (0..n).map(|i| all[i % size * n + i]).collect()
}

/// Gathers a text of each rank, in their order.
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

/// A value as it is compared and shown: of a long one, such as a random state, the hash.
fn shortened(value: &str) -> Cow<'_, str> {
    const MAX_BYTES: usize = 100;
    match value.len() > MAX_BYTES {
        true => format!("a value with the SHA-256 {}", sha256(value)).into(),
        false => value.into(),
    }
}

/// Checks that every rank has the same fields, given as names and values.
///
/// # Errors
/// [`TrainError::RanksDiffer`], on all ranks alike: the first field in which a rank differs from
/// rank 0.
pub fn agree(ranks: &dyn Ranks, fields: &[(String, String)]) -> Result<(), TrainError> {
    let own: Vec<(&String, Cow<'_, str>)> = fields
        .iter()
        .map(|(name, value)| (name, shortened(value)))
        .collect();
    let own = serde_json::to_string(&own).expect("texts are JSON");
    let all = gather_texts(ranks, &own).into_iter();
    // Another version of this program may write another form, and differs by that.
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
