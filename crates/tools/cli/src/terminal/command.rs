//! Rules that apply to the options of all commands:
//!
//! - If an option is repeated, its last value is used.
//! - A negative number is treated as the value of the preceding option, and not as another option.
//! - `~` at the beginning of a path stands for the home folder.

use std::any::TypeId;
use std::env::home_dir;
use std::path::{Path, PathBuf};

use clap::Command;
use clap::builder::{PathBufValueParser, TypedValueParser, ValueParser};

/// Returns `command` with three rules applied to its options: the last value of a repeated option
/// is used, a negative number is accepted as the value of an option, and `~` at the beginning of a
/// path stands for the home folder.
pub(crate) fn with_rules(command: Command) -> Command {
    let command = command.args_override_self(true);
    command.mut_args(|arg| {
        let takes_values = arg.get_action().takes_values();
        let is_path = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        // Without `allow_negative_numbers`, clap would treat the `-1` in `--seed -1` as an unknown
        // option. With it, clap passes the number to the value parser of the option. If this parser
        // rejects the number, the error message contains the name of the option.
        let arg = arg.allow_negative_numbers(takes_values);
        match takes_values && is_path {
            true => arg.value_parser(path_parser()),
            false => arg,
        }
    })
}

/// Returns the command-line flag of an option. For example, the flag for `max_steps` is
/// `--max-steps`.
pub(crate) fn flag(option: &str) -> String {
    format!("--{}", option.replace('_', "-"))
}

fn path_parser() -> ValueParser {
    PathBufValueParser::new()
        .try_map(|path| in_home(&path))
        .into()
}

/// Replaces `~` with the path of the home folder if it is the first component of a path. Shells
/// replace `~` only at the beginning of a word, so the program must replace it in arguments such as
/// `--out-dir=~/x`.
///
/// # Errors
/// Returns an error if the home folder is unknown.
pub(crate) fn in_home(path: &Path) -> Result<PathBuf, &'static str> {
    let Ok(inside) = path.strip_prefix("~") else {
        return Ok(path.to_owned());
    };
    let home = home_dir().filter(|home| !home.as_os_str().is_empty());
    let home = home.ok_or(
        "~ stands for the home folder, but the path of the home folder is unknown; specify the full path instead",
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
