//! GPT-2's pattern, which divides text into pieces before byte pairs are merged.
//!
//! A piece is a word, a number, a group of punctuation characters, or white space. A single space
//! in front of a word, a number or a group belongs to the same piece. The pattern is this regular
//! expression:
//!
//! ```text
//! '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//! ```
//!
//! [`gpt2_piece`] implements the pattern without a regular expression engine. Tests compare the
//! resulting token IDs with those of tiktoken.

use std::sync::LazyLock;

use regex_syntax::hir::{Class as Characters, HirKind};

/// The classes of characters that the pattern distinguishes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Number,
    Space,
    Other,
}

/// The class of each character below U+10000.
static CLASSES: LazyLock<Vec<Class>> = LazyLock::new(|| {
    let mut classes = vec![Class::Other; 1 << 16];
    for &(first, last, class) in &*RANGES {
        let end = (last as usize + 1).min(classes.len());
        classes
            .get_mut(first as usize..end)
            .unwrap_or_default()
            .fill(class);
    }
    classes
});

/// Unicode characters that are letters, numbers or white space, as a sorted list of ranges. Each
/// entry consists of the first character of a range, the last character, and the class of the
/// characters in between, such as [`Class::Letter`]. Characters outside all ranges have the class
/// [`Class::Other`].
static RANGES: LazyLock<Vec<(char, char, Class)>> = LazyLock::new(|| {
    let patterns = [
        (Class::Letter, r"\p{L}"),
        (Class::Number, r"\p{N}"),
        (Class::Space, r"\s"),
    ];
    let mut ranges = Vec::new();
    for (class, pattern) in patterns {
        let pattern = regex_syntax::parse(pattern).expect("a class that the crate knows");
        let HirKind::Class(Characters::Unicode(characters)) = pattern.into_kind() else {
            unreachable!("a class of Unicode characters");
        };
        let all = characters.ranges().iter();
        ranges.extend(all.map(|range| (range.start(), range.end(), class)));
    }
    ranges.sort_unstable_by_key(|(first, ..)| *first);
    ranges
});

/// Returns the class (letter, number, white space or other) of a character above U+FFFF by a binary
/// search in [`RANGES`]. The search is slower than a lookup in [`CLASSES`], but such characters are
/// rare.
fn class_of_rare(c: char) -> Class {
    let behind = RANGES.partition_point(|(first, ..)| *first <= c);
    match RANGES[..behind].last() {
        Some(&(_, last, class)) if c <= last => class,
        _ => Class::Other,
    }
}

/// Returns the first of the pieces, such as words and numbers, into which GPT-2's pattern divides
/// `text`. Returns an empty string if `text` is empty.
///
/// ```
/// assert_eq!(tokenizer::bpe::gpt2_piece(" 12 o'clock"), " 12");
/// ```
pub fn gpt2_piece(text: &str) -> &str {
    const CONTRACTIONS: [&str; 7] = ["'s", "'d", "'m", "'t", "'ll", "'ve", "'re"];
    let is_in_text = |contraction: &&str| text.starts_with(contraction);
    if text.starts_with('\'')
        && let Some(contraction) = CONTRACTIONS.into_iter().find(is_in_text)
    {
        return &text[..contraction.len()];
    }
    let classes = &**CLASSES;
    let class = |c: char| match classes.get(c as usize) {
        Some(&class) => class,
        None => class_of_rare(c),
    };
    let (space, behind) = match text.strip_prefix(' ') {
        Some(behind) => (1, behind),
        None => (0, text),
    };
    let first = behind.chars().next().map_or(Class::Space, class);
    if first != Class::Space {
        let end = behind.find(|c| class(c) != first);
        return end.map_or(text, |end| &text[..space + end]);
    }
    // The first piece consists of white space. If another character follows the white space, the
    // last white space character isn't part of the piece, unless it is the only one.
    let Some(end) = text.find(|c| class(c) != Class::Space) else {
        return text;
    };
    let last = text[..end].char_indices().next_back();
    match last.map_or(0, |(at, _)| at) {
        0 => &text[..end],
        last => &text[..last],
    }
}

/// Divides text into pieces, such as words and numbers, with GPT-2's pattern. The concatenation of
/// the pieces is equal to the text.
///
/// A space before a word belongs to the same piece as the word. If several white space characters
/// precede a word, all of them except the last one form a separate piece.
///
/// ```
/// let pieces = tokenizer::bpe::gpt2_pieces("It's   12 o'clock!\n");
/// assert_eq!(pieces, ["It", "'s", "  ", " 12", " o", "'", "clock", "!", "\n"]);
/// ```
pub fn gpt2_pieces(text: &str) -> Vec<&str> {
    pieces(text, gpt2_piece).collect()
}

/// Returns an iterator over the pieces into which `text` is divided before its bytes are merged
/// into tokens. The function `divide` must return the first piece of its argument. It is called
/// repeatedly with the text that remains after the previous piece. If it returns an empty string,
/// all of the remaining text becomes a single piece, because otherwise the iterator would never
/// end.
///
/// # Panics
/// The iterator panics if `divide` returns a string that isn't a prefix of its argument.
pub(crate) fn pieces(text: &str, divide: fn(&str) -> &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let first = divide(rest);
        let length = match first.len() {
            0 => rest.len(),
            length if is_prefix(first, rest) => length,
            _ => panic!(
                "the function `divide` of a byte pair encoding returned {:?}, but it must return a \
                prefix of its argument, which begins with {:?}",
                beginning(first),
                beginning(rest)
            ),
        };
        let piece;
        (piece, rest) = rest.split_at(length);
        Some(piece)
    })
}

/// Returns true if `text` begins with `piece`. If `piece` is a slice of `text`, which is almost
/// always the case, this function doesn't have to compare any bytes.
fn is_prefix(piece: &str, text: &str) -> bool {
    let is_slice = piece.as_ptr() == text.as_ptr() && piece.len() <= text.len();
    is_slice || text.starts_with(piece)
}

/// Returns the first 20 characters of a string, which are enough to recognize it in an error
/// message.
fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(20);
    end.map_or(text, |(end, _)| &text[..end])
}

/// Divides text into parts that several threads can encode at the same time. Each part except the
/// last one has at least `least` bytes. The concatenation of the token IDs of all parts is equal to
/// the token IDs of the whole text.
///
/// Text is divided only before a white space character that is followed by a word, a number or
/// punctuation. GPT-2's pattern always begins a new piece at this position: `\s+(?!\S)` matches any
/// white space before this character, and the character itself either belongs to the next piece or
/// is a separate piece.
///
/// ```
/// let parts = tokenizer::bpe::gpt2_parts("a b  c", 3);
/// assert_eq!(parts, ["a b ", " c"]);
/// ```
pub fn gpt2_parts(text: &str, least: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = first_cut(rest, least) {
        let part;
        (part, rest) = rest.split_at(at);
        parts.push(part);
    }
    parts.push(rest);
    parts
}

/// Returns the first position, at or after byte `least`, at which `text` can be divided into two
/// parts that are encoded separately without changing the token IDs. Returns `None` if there is no
/// such position.
fn first_cut(text: &str, least: usize) -> Option<usize> {
    let start = (least.max(1)..=text.len()).find(|&at| text.is_char_boundary(at))?;
    let mut last = None; // position of the previous character, if it is white space
    for (at, c) in text[start..].char_indices() {
        match (c.is_whitespace(), last) {
            (true, _) => last = Some(start + at),
            (false, Some(cut)) => return Some(cut),
            (false, None) => {}
        }
    }
    None
}
