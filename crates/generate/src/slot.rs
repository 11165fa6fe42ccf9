//! The identifier of a sequence in a batch.

/// The identifier of a sequence in a [`Batch`](crate::Batch) or in
/// [`TokenStreams`](crate::TokenStreams).
///
/// Each sequence that is added to a batch gets a new slot. The slot of a removed sequence is never
/// used again, so an old slot can't refer to the wrong sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub(crate) u64);
