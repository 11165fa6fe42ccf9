//! Commands in messages, as they work where they are read.

/// The program as it is typed: `cargo gpt` for whoever runs it by Cargo, which needs no installed
/// `gpt`.
pub(crate) fn program() -> &'static str {
    match std::env::var_os("CARGO") {
        Some(_) => "cargo gpt",
        None => "gpt",
    }
}

/// A text as it is typed in a shell's command line.
pub(crate) fn quoted(text: &str) -> String {
    shlex::try_quote(text).map_or_else(|_| text.to_owned(), Into::into)
}
