//! Text from bytes that come in pieces, without ever showing half a character.
//!
//! All strings together are `String::from_utf8_lossy` of all bytes; at most three bytes wait for
//! the rest of theirs.

use std::str::from_utf8;

/// The bytes of a character that has not ended yet.
///
/// ```
/// let mut stream = tokenizer::Utf8Stream::default();
/// assert_eq!(stream.push(&[b'a', 0xc3]), "a");
/// assert_eq!(stream.push(&[0xa9]), "é");
/// assert_eq!(stream.finish(), "");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    pending: Vec<u8>, // the start of a character
}

impl Utf8Stream {
    /// Takes the next bytes; returns the characters that they complete, with U+FFFD for bytes that
    /// can't begin or go on a character.
    #[must_use = "the text is given out once"]
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let whole = self.pending.len() - unfinished(&self.pending);
        let text = String::from_utf8_lossy(&self.pending[..whole]).into_owned();
        self.pending.drain(..whole);
        text
    }

    /// The rest: U+FFFD if the bytes ended inside a character, otherwise nothing.
    #[must_use = "it may be the last character"]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// How many bytes at the end begin a character that more bytes could complete.
fn unfinished(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Err(error) = from_utf8(rest) {
        match error.error_len() {
            Some(bad) => rest = &rest[error.valid_up_to() + bad..],
            None => return rest.len() - error.valid_up_to(),
        }
    }
    0
}
