//! The binary `gpt`.
fn main() {}
