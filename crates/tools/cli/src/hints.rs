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

/// A path that isn't UTF-8, quoted for bash and zsh: other bytes in hexadecimal digits.
pub(crate) fn quoted_path(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let escaped = bytes.iter().map(|&byte| match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("$'{}'", escaped.collect::<String>())
}
