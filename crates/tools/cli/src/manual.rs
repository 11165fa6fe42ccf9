//! `gpt completions` and `gpt man`: the command line as shells and `man` read it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use clap_complete::Shell;

use crate::args;
use crate::output::print;

#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete in
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The folder to write gpt.1, gpt-train.1 and so on to
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "gpt", &mut script);
    Ok(print(script)?)
}

pub(crate) fn man(args: &ManArgs) -> Result<()> {
    let dir = args.dir.display();
    std::fs::create_dir_all(&args.dir)
        .and_then(|()| clap_mangen::generate_to(args::command(), &args.dir))
        .with_context(|| dir.to_string())?;
    Ok(print(format!("man pages in {dir}: man {dir}/gpt.1\n"))?)
}
