//! The identifier of a sequence in a batch.

/// The identifier of a sequence in a [`Batch`](crate::Batch) or in
/// [`TokenStreams`](crate::TokenStreams).
///
/// A batch never assigns the same slot to two sequences, even if the first sequence has been
/// removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub(crate) u64);
