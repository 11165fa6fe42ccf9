//! GPT-2's alphabet: each byte as a character that can be seen, in which byte-level vocabularies
//! are written.

use std::sync::LazyLock;

use tokenizer::bpe::gpt2_bytes;

/// The number of bytes that are written as themselves; the others are written as U+0100 and up, in
/// order.
const SEEN: u32 = 188;

static CHARS: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut chars = ['\0'; 256];
    for (byte, place) in gpt2_bytes().into_iter().zip(0..) {
        chars[usize::from(byte)] = match place < SEEN {
            true => char::from(byte),
            false => char::from_u32(0x100 + place - SEEN).expect("U+0100 to U+0143 are characters"),
        };
    }
    chars
});

/// The character that a byte is written as.
pub(crate) fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// The byte that a character stands for, if it is of the alphabet.
fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    match u8::try_from(code) {
        Ok(byte) => (char_of(byte) == c).then_some(byte),
        Err(_) => (0..=255).find(|&byte| CHARS[usize::from(byte)] == c),
    }
}

/// The bytes that a token stands for; one with a character that is not of the alphabet stands for
/// itself.
pub(crate) fn bytes_of(token: &str) -> Box<[u8]> {
    let bytes: Option<Box<[u8]>> = token.chars().map(byte_of).collect();
    bytes.unwrap_or_else(|| token.as_bytes().into())
}

/// True if a token consists of characters of the alphabet.
pub(crate) fn is_written(token: &str) -> bool {
    token.chars().all(|c| byte_of(c).is_some())
}

/// Bytes as a token is written.
pub(crate) fn written(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char_of(byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character_and_back() {
        assert_eq!(
            (char_of(b' '), char_of(b'\n'), char_of(0xad)),
            ('Ġ', 'Ċ', 'Ń')
        );
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!(byte_of(' '), None);
        assert_eq!(*bytes_of("Ġé"), [b' ', 0xe9]);
        assert_eq!(*bytes_of("a é"), *"a é".as_bytes());
    }
}
