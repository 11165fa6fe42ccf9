//! Formatting bytes as hexadecimal digits.

/// Returns the bytes as lowercase hexadecimal digits, two for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
