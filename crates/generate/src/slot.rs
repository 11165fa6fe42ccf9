//! The place of a text among those that a model continues together.

/// A text's place in a [`Batch`](crate::Batch). No other text of this batch gets the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub(crate) u64);
