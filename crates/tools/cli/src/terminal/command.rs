//! Rules for the options of every command: the last value of a repeated option counts, a negative
//! number is a value and not a flag, and `~` at the beginning of a path is the home folder.

use std::any::TypeId;
use std::env::home_dir;
use std::path::{Path, PathBuf};

use clap::Command;
use clap::builder::{PathBufValueParser, TypedValueParser, ValueParser};

/// Returns a subcommand whose options follow these rules.
pub(crate) fn with_rules(command: Command) -> Command {
    let command = command.args_override_self(true);
    command.mut_args(|arg| {
        let takes_values = arg.get_action().takes_values();
        let is_path = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        // A negative number is refused by the option's parser, which can name the option.
        let arg = arg.allow_negative_numbers(takes_values);
        match takes_values && is_path {
            true => arg.value_parser(path_parser()),
            false => arg,
        }
    })
}

/// Returns the flag of an option's name.
pub(crate) fn flag(option: &str) -> String {
    format!("--{}", option.replace('_', "-"))
}

fn path_parser() -> ValueParser {
    PathBufValueParser::new()
        .try_map(|path| in_home(&path))
        .into()
}

/// Returns a path with `~`, if that is its first component, replaced by the home folder. A shell
/// does this only to `~` at the beginning of an unquoted word: not in `--out-dir=~/x`.
///
/// # Errors
/// If the home folder is unknown.
pub(crate) fn in_home(path: &Path) -> Result<PathBuf, &'static str> {
    let Ok(inside) = path.strip_prefix("~") else {
        return Ok(path.to_owned());
    };
    let home = home_dir().filter(|home| !home.as_os_str().is_empty());
    let home = home.ok_or(
        "~ stands for the home folder, but its path is unknown; write the whole path instead",
    )?;
    Ok(home.join(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tilde_is_the_home_folder_only_as_the_first_component() {
        let home = home_dir().unwrap();
        for (path, expected) in [
            ("~", home.clone()),
            ("~/runs/0001", home.join("runs/0001")),
            ("~user/runs", "~user/runs".into()),
            ("./~/runs", "./~/runs".into()),
            ("runs/~", "runs/~".into()),
        ] {
            assert_eq!(in_home(Path::new(path)), Ok(expected), "{path}");
        }
    }
}
