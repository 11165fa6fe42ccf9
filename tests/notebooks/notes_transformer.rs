//! notes_transformer.

use anyhow::Result;

use crate::Notebook;

pub(crate) fn run(_book: &mut Notebook) -> Result<()> {
    Ok(())
}
