//! The identifier of a text in a batch.

/// Identifies a text in a [`Batch`](crate::Batch) or in [`TokenStreams`](crate::TokenStreams).
///
/// A batch never uses the same slot for two texts, even if the first text has been removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub(crate) u64);
