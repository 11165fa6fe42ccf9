//! Commands in messages, in the form that works where they are read.

use std::path::Path;

/// The program as it is typed: `cargo gpt` if Cargo runs it, which needs no installed `gpt`.
pub(crate) fn program() -> &'static str {
    match std::env::var_os("CARGO") {
        Some(_) => "cargo gpt",
        None => "gpt",
    }
}

/// A text as it is typed in a shell's command line; Windows' shells know double quotes alone.
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

/// A path that isn't UTF-8 as it is typed in bash and zsh: its other bytes in hexadecimal digits.
pub(crate) fn quoted_path(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let typed = bytes.iter().map(|&byte| match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("$'{}'", typed.collect::<String>())
}
