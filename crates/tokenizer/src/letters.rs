//! The characters that stand for bytes in GPT-2's vocabulary files.
//!
//! A token can be any sequence of bytes, but a vocabulary file is text. GPT-2 therefore assigns a
//! printable character to each of the 256 bytes. This crate calls this character the *letter* of
//! the byte, and OpenAI's code calls the table of all letters `bytes_to_unicode`. The characters of
//! printable ASCII and most of Latin-1 stand for themselves. The letter of the space is `Ġ`, so a
//! file contains `Ġthe` for the token " the".

use std::sync::LazyLock;

/// Number of bytes that represent visible characters in Latin-1. In a vocabulary file, such a byte
/// is written as this character. All other bytes are written as U+0100, U+0101 and so on, in
/// ascending order.
const PRINTABLE: u32 = 188;

/// Length of the table [`BYTES`], which is indexed by the code point of a character that represents
/// a byte in a vocabulary file. The length is the largest of these code points plus one.
const CODES: usize = 0x100 + 256 - PRINTABLE as usize;

static LETTERS: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut letters = ['\0'; 256];
    for (byte, place) in gpt2_bytes().into_iter().zip(0..) {
        letters[usize::from(byte)] = match place < PRINTABLE {
            true => char::from(byte),
            false => char::from_u32(0x100 + place - PRINTABLE).expect("no surrogate is this small"),
        };
    }
    letters
});

/// The byte that each character represents in a vocabulary file, indexed by the character's code
/// point. The entry is `None` if the character doesn't represent a byte.
static BYTES: LazyLock<[Option<u8>; CODES]> = LazyLock::new(|| {
    let mut bytes = [None; CODES];
    for (byte, letter) in (0..=255).zip(*LETTERS) {
        bytes[letter as usize] = Some(byte);
    }
    bytes
});

/// Returns the 256 bytes in the order of their IDs in GPT-2's vocabulary: first the bytes that are
/// visible characters in Latin-1, then all other bytes.
pub fn gpt2_bytes() -> [u8; 256] {
    let is_seen = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut bytes: [u8; 256] = std::array::from_fn(|byte| byte as u8);
    bytes.sort_by_key(|byte| !is_seen(byte)); // The sort is stable.
    bytes
}

/// Returns the letter of a byte, which is the printable character that represents the byte in
/// GPT-2's vocabulary files.
///
/// ```
/// assert_eq!(tokenizer::bpe::letter_of(b' '), 'Ġ');
/// ```
pub fn letter_of(byte: u8) -> char {
    LETTERS[usize::from(byte)]
}

/// Returns the string that represents `bytes` in a vocabulary file. It contains one printable
/// character for each byte.
///
/// ```
/// assert_eq!(tokenizer::bpe::letters_of(" é".as_bytes()), "ĠÃ©");
/// ```
pub fn letters_of(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| letter_of(byte)).collect()
}

/// Returns the bytes that a string from a vocabulary file represents. If one of its characters
/// doesn't represent a byte (see [`letter_of`]), returns `None`.
///
/// ```
/// use tokenizer::bpe::bytes_of_letters;
/// assert_eq!(bytes_of_letters("Ġthe").as_deref(), Some(&b" the"[..]));
/// assert_eq!(bytes_of_letters(" the"), None); // the letter of the space is Ġ
/// ```
pub fn bytes_of_letters(letters: &str) -> Option<Vec<u8>> {
    let byte_of = |letter: char| BYTES.get(letter as usize).copied().flatten();
    letters.chars().map(byte_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_letter() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes_of_letters(&letters_of(&bytes)), Some(bytes));
        assert_eq!([b'\n', 0xad].map(letter_of), ['Ċ', 'Ń']);
        assert_eq!(bytes_of_letters("Ń\u{144}"), None);
    }
}
