//! Splitting text into words and punctuation with the separators kept, as Python's `re.split` does
//! with one capturing group (book section 2.2).
//!
//! Two separators side by side have an empty string between them, and so has a separator at either
//! end:
//! the pieces always alternate piece, separator, piece, ..., and joined they give the text back.
//! It knows the patterns of the book, not regular expressions in general.

use crate::whitespace::{is_python_whitespace, python_strip};

/// The separators of a pattern; `\s` is Python's white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Separators {
    /// `(\s)`
    Whitespace,
    /// `([,.]|\s)`
    CommasPeriods,
    /// `([,.?_!"()\']|--|\s)`: an early form that forgets `:` and `;`, which a vocabulary built
    /// with [`Separators::Full`] therefore can't cover ("word;" is one piece).
    WithoutColons,
    /// `([,.:;?_!"()\']|--|\s)`: the pattern of both tokenizers.
    Full,
}

impl Separators {
    /// The length in bytes of the separator that `rest` starts with.
    fn at_start(self, rest: &str) -> Option<usize> {
        let first = rest.chars().next()?;
        if is_python_whitespace(first) {
            return Some(first.len_utf8());
        }
        let single = match self {
            Separators::Whitespace => "",
            Separators::CommasPeriods => ",.",
            Separators::WithoutColons => ",.?_!\"()'",
            Separators::Full => ",.:;?_!\"()'",
        };
        let dashes = matches!(self, Separators::WithoutColons | Separators::Full);
        if single.contains(first) {
            Some(1)
        } else if dashes && rest.starts_with("--") {
            Some(2)
        } else {
            None
        }
    }
}

/// `re.split(pattern, text)` with the pattern in parentheses: pieces and separators in turn.
///
/// ```
/// use tokenizer::{Separators, split_keeping};
/// let pieces = split_keeping("Hello, world.", Separators::CommasPeriods);
/// assert_eq!(pieces, ["Hello", ",", "", " ", "world", ".", ""]);
/// ```
pub fn split_keeping(text: &str, separators: Separators) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < text.len() {
        match separators.at_start(&text[at..]) {
            Some(length) => {
                pieces.push(&text[start..at]);
                pieces.push(&text[at..at + length]);
                at += length;
                start = at;
            }
            None => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    pieces.push(&text[start..]);
    pieces
}

/// `re.split(r'([,.:;?_!"()\']|--|\s)', text)`: the raw split, empty and blank pieces included.
pub fn split_text(text: &str) -> Vec<&str> {
    split_keeping(text, Separators::Full)
}

/// `[item for item in items if item.strip()]`: drops the blank items, leaves the others as they
/// are.
pub fn without_blanks<'a>(items: &[&'a str]) -> Vec<&'a str> {
    let kept = items.iter().filter(|item| !python_strip(item).is_empty());
    kept.copied().collect()
}

/// `[item.strip() for item in items if item.strip()]`: drops the blank items, strips the others.
pub fn strip_without_blanks<'a>(items: &[&'a str]) -> Vec<&'a str> {
    let stripped = items.iter().map(|item| python_strip(item));
    stripped.filter(|item| !item.is_empty()).collect()
}

/// The book's `preprocessed`: [`split_text`], then [`strip_without_blanks`].
///
/// ```
/// let words = tokenizer::preprocess("Hello, world. Is this-- a test?");
/// assert_eq!(words, ["Hello", ",", "world", ".", "Is", "this", "--", "a", "test", "?"]);
/// ```
pub fn preprocess(text: &str) -> Vec<&str> {
    strip_without_blanks(&split_text(text))
}
