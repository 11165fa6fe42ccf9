//! Commands in messages, in the form that works where they are read.

use std::path::Path;

/// The program's name on the command line: `cargo gpt` if Cargo runs it, because then `gpt` may not
/// be installed.
pub(crate) fn program() -> &'static str {
    match std::env::var_os("CARGO") {
        Some(_) => "cargo gpt",
        None => "gpt",
    }
}

/// A text quoted for a shell; Windows' shells know only double quotes.
pub(crate) fn quoted(text: &str) -> String {
    if cfg!(windows) {
        let is_plain = |c: char| c.is_alphanumeric() || "-_./\\:=".contains(c);
        return match !text.is_empty() && text.chars().all(is_plain) {
            true => text.to_owned(),
            false => format!("\"{}\"", text.replace('"', "\"\"")),
        };
    }
    shlex::try_quote(text).map_or_else(|_| text.to_owned(), Into::into)
}

/// A path quoted for a shell.
pub(crate) fn shell_quoted(path: &Path) -> String {
    match path.to_str() {
        Some(path) => quoted(path),
        None => quoted_bytes(path),
    }
}

/// A path that isn't UTF-8, quoted for bash and zsh: other bytes in hexadecimal digits.
fn quoted_bytes(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
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
        assert_eq!(shell_quoted(Path::new("runs/0001")), "runs/0001");
        for name in ["my run", "it's", "$HOME", "a;b"] {
            let words = shlex::split(&format!("gpt --resume {}", shell_quoted(Path::new(name))));
            assert_eq!(words.unwrap()[2..], [name]);
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            let latin1 = std::ffi::OsStr::from_bytes(b"f\xfcr 'x'");
            assert_eq!(shell_quoted(Path::new(latin1)), "$'f\\xfcr \\'x\\''");
        }
    }
}
