//! The registry: the id of every case beside the function that recomputes it.

use anyhow::Result;

use super::cases;
use super::compare::Computed;
use super::lab::Lab;
use super::table::Case;
use super::train;

/// Recomputes the figures of a case from its row of the table.
pub(crate) type Recompute = fn(&Case, &mut Lab) -> Result<Computed>;

/// One entry.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    /// The case's id.
    pub(crate) id: &'static str,
    /// What recomputes it.
    pub(crate) recompute: Recompute,
    /// The large model it shares with other cases; they run one after the other, so that one is held at a time.
    pub(crate) model: Model,
}

/// The large models, in the order in which they are built and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Model {
    /// None.
    None,
    /// The worksheet's bad language model.
    BadLm,
    /// The placeholder model of chapter 4.
    Dummy,
    /// GPT-2 small with a context of 1024 tokens.
    Gpt1024,
    /// GPT-2 small with a context of 256 tokens.
    Gpt256,
}

impl Check {
    /// A check without a large model.
    pub(crate) const fn new(id: &'static str, recompute: Recompute) -> Self {
        Self {
            id,
            recompute,
            model: Model::None,
        }
    }

    /// A check that shares `model`.
    pub(crate) const fn on(id: &'static str, model: Model, recompute: Recompute) -> Self {
        Self {
            id,
            recompute,
            model,
        }
    }
}

/// All checks, document by document.
pub(crate) fn checks() -> impl Iterator<Item = &'static Check> {
    [
        cases::SEED000,
        cases::SEED001,
        cases::SEED002,
        cases::SEED003,
        cases::SEED004,
        cases::CH02,
        cases::CH04,
        cases::CH05,
        train::CHECKS,
    ]
    .into_iter()
    .flatten()
}
