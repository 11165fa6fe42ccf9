//! Packs a trained model for a web page and prints the resulting script. The argument is a model
//! folder or the folder of a training run.
//!
//! ```sh
//! cargo run --package live --features pack --example pack -- FOLDER
//! ```

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1);
    let folder = folder.context("expected a model folder")?;
    let script = live::model_script(Path::new(&folder))?;
    Ok(std::io::stdout().write_all(script.as_bytes())?)
}
