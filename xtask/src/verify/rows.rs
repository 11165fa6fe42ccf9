//! Every place where the documents print a figure, and the cases that check it (`goldens/rows.toml`).

use anyhow::{Context, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Row>,
}

/// One place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// Its section and cell.
    pub(crate) row: String,
    /// The cases that check it.
    #[cfg_attr(not(test), expect(dead_code, reason = "the coverage test reads it"))]
    pub(crate) cases: Option<Vec<String>>,
    /// Why there is none.
    pub(crate) absent: Option<String>,
}

/// All places, in order.
///
/// # Errors
/// The file is no valid list.
pub(crate) fn load() -> Result<Vec<Row>> {
    let file: File =
        toml::from_str(include_str!("../../goldens/rows.toml")).context("goldens/rows.toml")?;
    Ok(file.row)
}
