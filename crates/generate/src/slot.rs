//! The identifier of a text in a batch.

/// The identifier of a text in a [`Batch`](crate::Batch) or in
/// [`TokenStreams`](crate::TokenStreams).
///
/// A batch never assigns the same slot to two texts, even if the first text has been removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub(crate) u64);
