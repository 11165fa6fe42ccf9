//! Quotes the arguments of commands that are shown in messages, so that users can paste the
//! commands into a shell.
//!
//! On Unix, arguments are quoted for bash, zsh and other POSIX shells. On Windows, they are quoted
//! for PowerShell and cmd. The program can't know which of these two shells the user is using, so
//! it quotes an argument only if both shells interpret the quoted text in the same way.

use std::env;
use std::path::Path;

use crate::terminal::output::escaped;

/// Returns the command with which the user can start this program: `cargo gpt` if the program was
/// started by Cargo, and `gpt` otherwise. A user who starts the program with Cargo may not have
/// installed `gpt`.
///
/// To detect whether Cargo started the program, the function checks the environment variable
/// `CARGO_PKG_NAME`, which Cargo sets only for programs of the package itself. The variable `CARGO`
/// wouldn't be suitable, because it is also set for programs that `cargo watch` starts.
pub(crate) fn program() -> &'static str {
    let package = env::var("CARGO_PKG_NAME");
    match package.is_ok_and(|package| package == env!("CARGO_PKG_NAME")) {
        true => "cargo gpt",
        false => "gpt",
    }
}

/// The shells for which a command is quoted.
#[derive(Clone, Copy)]
enum Shells {
    Posix,
    Windows,
}

const SHELLS: Shells = if cfg!(windows) {
    Shells::Windows
} else {
    Shells::Posix
};

/// Quotes a string as a single command-line argument. Returns `None` if this isn't possible.
pub(crate) fn quoted(text: &str) -> Option<String> {
    quoted_for(SHELLS, text)
}

fn quoted_for(shells: Shells, text: &str) -> Option<String> {
    match shells {
        _ if text.contains('\0') => None,
        // The argument contains invisible or control characters. Messages show such characters as
        // escape sequences, so users couldn't copy the characters themselves. The argument is
        // therefore quoted in the form `$'...'`, in which the shell interprets escape sequences.
        Shells::Posix if escaped(text) != text => Some(quoted_bytes(text.as_bytes())),
        Shells::Posix => shlex::try_quote(text).ok().map(Into::into),
        Shells::Windows => {
            let is_plain = |c: char| c.is_alphanumeric() || "-_./\\:=".contains(c);
            if !text.is_empty() && text.chars().all(is_plain) {
                return Some(text.to_owned());
            }
            // Even within quotation marks, `$` and the backtick have a special meaning in
            // PowerShell, and so does `%` in cmd. In PowerShell, typographic quotation marks also
            // end the quoted text. A backslash at the end of the text would escape the closing
            // quotation mark. An argument with any of these characters can't be quoted for both
            // shells.
            let changes = |c: char| "\"\u{201c}\u{201d}\u{201e}$`%".contains(c);
            let is_changed =
                text.contains(changes) || text.ends_with('\\') || escaped(text) != text;
            (!is_changed).then(|| format!("\"{text}\""))
        }
    }
}

/// Quotes a path as a single command-line argument. If the path can't be quoted, returns a phrase
/// in parentheses that says so.
pub(crate) fn shell_quoted(path: &Path) -> String {
    path_for(SHELLS, path)
}

fn path_for(shells: Shells, path: &Path) -> String {
    const BY_HAND: &str = "(the path, which can't be quoted for both PowerShell and cmd)";
    let quoted = match (shells, path.to_str()) {
        (Shells::Posix, None) => Some(quoted_bytes(path.as_os_str().as_encoded_bytes())),
        (Shells::Posix, Some(path)) => quoted_for(shells, path),
        (Shells::Windows, path) => path.and_then(|path| {
            // A path that ends with a backslash may be impossible to quote, because the backslash
            // would escape the closing quotation mark. In this case, the path is quoted without
            // final backslashes. It still refers to the same folder, unless this folder is the root
            // of a drive.
            let folder = path.trim_end_matches('\\');
            quoted_for(shells, path).or_else(|| quoted_for(shells, folder))
        }),
    };
    quoted.unwrap_or_else(|| BY_HAND.to_owned())
}

/// Quotes bytes for bash and zsh in the form `$'...'`. All bytes except printable ASCII characters
/// are written as hexadecimal escape sequences.
fn quoted_bytes(bytes: &[u8]) -> String {
    let escaped = bytes.iter().map(|&byte| match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("$'{}'", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_hint_is_typed_as_it_stands() {
        let posix = |path| path_for(Shells::Posix, Path::new(path));
        assert_eq!(posix("runs/0001"), "runs/0001");
        for name in ["my run", "it's", "$HOME", "a;b", "a`b`%c", "end\\"] {
            let words = shlex::split(&format!("gpt --resume {}", posix(name)));
            assert_eq!(words.unwrap()[2..], [name]);
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            let latin1 = std::ffi::OsStr::from_bytes(b"f\xfcr 'x'");
            let quoted = path_for(Shells::Posix, Path::new(latin1));
            assert_eq!(quoted, "$'f\\xfcr \\'x\\''");
        }
        assert_eq!(quoted_for(Shells::Posix, "a\0"), None);
        assert_eq!(
            quoted_for(Shells::Posix, "a\nb\u{1b}").unwrap(),
            "$'a\\x0ab\\x1b'"
        );
    }

    #[test]
    fn windows_gets_only_what_powershell_and_cmd_read_alike() {
        let windows = |text| quoted_for(Shells::Windows, text);
        for (text, expected) in [
            ("runs\\0001", "runs\\0001"),
            ("C:\\", "C:\\"),
            ("two words", "\"two words\""),
            ("it's 1,2 & more", "\"it's 1,2 & more\""),
            ("", "\"\""),
        ] {
            assert_eq!(windows(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "say \"x\"",
            "a\u{201c}b",
            "a $(calc)",
            "a`b",
            "50%",
            "a b\\",
            "a\nb",
        ] {
            assert_eq!(windows(text), None, "{text}");
        }
        let path = |path| path_for(Shells::Windows, Path::new(path));
        assert_eq!(path("dir with space\\t\\"), "\"dir with space\\t\"");
        assert!(path("50% off").contains("can't be quoted"));
    }
}
