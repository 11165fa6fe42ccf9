//! Commands in messages, in a form that can be pasted where they are read.
//!
//! On Unix the shell is bash, zsh or another POSIX shell. On Windows it is PowerShell or cmd, and
//! the program can't know which, so an argument is quoted only if both read it in the same way.

use std::env;
use std::path::Path;

use crate::terminal::output::escaped;

/// Returns the program's name on the command line: `cargo gpt` if `cargo run` started this program,
/// because then `gpt` may not be installed.
///
/// Cargo sets `CARGO` for everything that it starts, such as the commands of `cargo watch`, but the
/// package's name only for the package's own programs.
pub(crate) fn program() -> &'static str {
    let package = env::var("CARGO_PKG_NAME");
    match package.is_ok_and(|package| package == env!("CARGO_PKG_NAME")) {
        true => "cargo gpt",
        false => "gpt",
    }
}

/// The shells of a system.
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

/// Returns a text as one argument of a command, or `None` if no quotes make the shell pass it on
/// unchanged.
pub(crate) fn quoted(text: &str) -> Option<String> {
    quoted_for(SHELLS, text)
}

fn quoted_for(shells: Shells, text: &str) -> Option<String> {
    match shells {
        _ if text.contains('\0') => None,
        // Messages show other control characters as escapes, which aren't the text.
        Shells::Posix if escaped(text) != text => Some(quoted_bytes(text.as_bytes())),
        Shells::Posix => shlex::try_quote(text).ok().map(Into::into),
        Shells::Windows => {
            let is_plain = |c: char| c.is_alphanumeric() || "-_./\\:=".contains(c);
            if !text.is_empty() && text.chars().all(is_plain) {
                return Some(text.to_owned());
            }
            // PowerShell replaces $ and `, cmd replaces %, and PowerShell's quotes include
            // typographic ones. A final backslash would escape the closing quote.
            let changes = |c: char| "\"\u{201c}\u{201d}\u{201e}$`%".contains(c);
            let is_changed =
                text.contains(changes) || text.ends_with('\\') || escaped(text) != text;
            (!is_changed).then(|| format!("\"{text}\""))
        }
    }
}

/// Returns a path as one argument of a command. If it can't be quoted, the result says that the
/// path must be written by hand.
pub(crate) fn shell_quoted(path: &Path) -> String {
    path_for(SHELLS, path)
}

fn path_for(shells: Shells, path: &Path) -> String {
    const BY_HAND: &str = "(the path, which can't be quoted for both PowerShell and cmd)";
    let quoted = match (shells, path.to_str()) {
        (Shells::Posix, None) => Some(quoted_bytes(path.as_os_str().as_encoded_bytes())),
        (Shells::Posix, Some(path)) => quoted_for(shells, path),
        (Shells::Windows, path) => path.and_then(|path| {
            let folder = path.trim_end_matches('\\'); // the same folder, but for a drive's root
            quoted_for(shells, path).or_else(|| quoted_for(shells, folder))
        }),
    };
    quoted.unwrap_or_else(|| BY_HAND.to_owned())
}

/// Quotes bytes for bash and zsh, with those outside printable ASCII in hexadecimal digits.
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
