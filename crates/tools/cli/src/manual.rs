//! `gpt completions` and `gpt man`: the command line as shells and `man` read it.

use std::path::PathBuf;

use anyhow::Result;
use atomic_file::{create_folder, write_atomically};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::output::{print, print_text};

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

/// Prints the completions of a command.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "gpt", &mut script);
    Ok(print_text(&String::from_utf8(script)?)?)
}

/// Writes the pages of a command.
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<()> {
    let dir = args.dir.display();
    create_folder(&args.dir)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let subcommands = command.get_subcommands().cloned();
    for command in subcommands.chain([command.clone()]) {
        let page = Man::new(command);
        let path = args.dir.join(page.get_filename());
        write_atomically(path, |file| page.render(file))?;
    }
    Ok(print(format!("man pages in {dir}: man {dir}/gpt.1\n"))?)
}
