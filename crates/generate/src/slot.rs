//! The identifier of a sequence in a batch.

/// The identifier of a sequence in a [`Batch`](crate::Batch) or in
/// [`TokenStreams`](crate::TokenStreams).
///
/// A batch assigns a new slot to each sequence, and it never reuses the slot of a sequence that has
/// been removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub(crate) u64);
