//! stub
use anyhow::Result;
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {}

pub(crate) fn run(_: &GenerateArgs) -> Result<()> {
    Ok(())
}
