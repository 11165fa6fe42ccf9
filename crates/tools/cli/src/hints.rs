//! Commands in messages, as they work where they are read.

/// The program as it is typed: `cargo gpt` for whoever runs it by Cargo, which needs no installed
/// `gpt`.
pub(crate) fn program() -> &'static str {
    match std::env::var_os("CARGO") {
        Some(_) => "cargo gpt",
        None => "gpt",
    }
}
