//! GPT-2's pattern, which divides a text into words, numbers, punctuation and white space before
//! pairs of bytes are merged.
//!
//! The pattern is `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
//! A test compares [`gpt2_piece`] with the pattern itself.

use std::sync::LazyLock;

use regex_syntax::hir::{Class as Characters, HirKind};

/// The classes that the pattern distinguishes.
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

/// Ranges of characters (first, last) with their class, in order. All others are `Other`.
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

/// Returns the class of a character by a search in the ranges, for the rare characters from
/// U+10000 on.
fn class_of_rare(c: char) -> Class {
    let behind = RANGES.partition_point(|(first, ..)| *first <= c);
    match RANGES[..behind].last() {
        Some(&(_, last, class)) if c <= last => class,
        _ => Class::Other,
    }
}

/// Returns the first piece of a text that isn't empty.
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
    // White space before a word leaves its last character to that word.
    let Some(end) = text.find(|c| class(c) != Class::Space) else {
        return text;
    };
    let last = text[..end].char_indices().next_back();
    match last.map_or(0, |(at, _)| at) {
        0 => &text[..end],
        last => &text[..last],
    }
}

/// The pieces of a text, which joined are the text.
///
/// A word takes the space before it with it; of more white space it takes the last space, and the
/// rest is a piece.
///
/// ```
/// let pieces = tokenizer::bpe::gpt2_pieces("It's   12 o'clock!\n");
/// assert_eq!(pieces, ["It", "'s", "  ", " 12", " o", "'", "clock", "!", "\n"]);
/// ```
pub fn gpt2_pieces(text: &str) -> Vec<&str> {
    pieces(text, gpt2_piece).collect()
}

/// The pieces of a text, by the function that returns the first one.
pub(crate) fn pieces(text: &str, divide: fn(&str) -> &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let length = match divide(rest).len() {
            0 => rest.len(), // an empty piece would never end
            length => length,
        };
        let piece;
        (piece, rest) = rest.split_at(length);
        (length > 0).then_some(piece)
    })
}

/// Cuts a text into parts of at least `least` bytes, where GPT-2's pattern divides it anyway:
/// before the last white space character in front of a word.
///
/// The pattern takes white space followed by text as all but its last character (`\s+(?!\S)`) and
/// the last, which may go with the word after it (` ?\p{L}+`).
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

/// Returns the first place from `least` on at which a text may be cut.
fn first_cut(text: &str, least: usize) -> Option<usize> {
    let start = (least.max(1)..=text.len()).find(|&at| text.is_char_boundary(at))?;
    let mut last = None; // the white space character just before
    for (at, c) in text[start..].char_indices() {
        match (c.is_whitespace(), last) {
            (true, _) => last = Some(start + at),
            (false, Some(cut)) => return Some(cut),
            (false, None) => {}
        }
    }
    None
}
