//! Splitting text into words, punctuation and white space, as in section 2.2 of the book.
//!
//! The functions return the same results as Python's `re.split` with the book's patterns. Because
//! each pattern is enclosed in parentheses, the separators are part of the result. Words and
//! separators alternate, and the result starts and ends with a word. If two separators are
//! adjacent, or if the text starts or ends with a separator, the word at this position is an empty
//! string. The concatenation of all items is equal to the text.
//!
//! Only the book's patterns are supported, not regular expressions in general.

use crate::whitespace::{is_python_whitespace, python_strip};

/// One of the book's patterns. A pattern determines the separators at which text is split. In these
/// patterns, `\s` matches the characters that Python considers white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Separators {
    /// `(\s)`
    Whitespace,
    /// `([,.]|\s)`
    CommasPeriods,
    /// `([,.?_!"()\']|--|\s)`, an early pattern in the book, which doesn't match `:` and `;`. For
    /// example, it doesn't split "word;" into "word" and ";". Text that contains "word;" therefore
    /// can't be encoded with a vocabulary that was built with [`Separators::Full`].
    WithoutColons,
    /// `([,.:;?_!"()\']|--|\s)`, the pattern that both word tokenizers use.
    Full,
}

impl Separators {
    /// Returns the length in bytes of the separator, such as a comma, with which `rest` begins.
    /// Returns `None` if `rest` doesn't begin with one of this pattern's separators.
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

/// Splits text into words and separators, which alternate in the result, like `re.split(pattern,
/// text)`.
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

/// Splits text like `re.split(r'([,.:;?_!"()\']|--|\s)', text)`. The result includes empty strings
/// and white space.
pub fn split_text(text: &str) -> Vec<&str> {
    split_keeping(text, Separators::Full)
}

/// Removes the items that are empty or consist only of white space, like
/// `[item for item in items if item.strip()]`. White space in the other items isn't removed.
pub fn without_blanks<'a>(items: &[&'a str]) -> Vec<&'a str> {
    let kept = items.iter().filter(|item| !python_strip(item).is_empty());
    kept.copied().collect()
}

/// Strips all items and removes the items that are then empty, like `[item.strip() for item in
/// items if item.strip()]`.
pub fn strip_without_blanks<'a>(items: &[&'a str]) -> Vec<&'a str> {
    let stripped = items.iter().map(|item| python_strip(item));
    stripped.filter(|item| !item.is_empty()).collect()
}

/// Returns the words and punctuation characters of a text, like the list `preprocessed` in the
/// book. This function splits the text with [`split_text`] and cleans the result with
/// [`strip_without_blanks`].
///
/// ```
/// let words = tokenizer::preprocess("Hello, world. Is this-- a test?");
/// assert_eq!(words, ["Hello", ",", "world", ".", "Is", "this", "--", "a", "test", "?"]);
/// ```
pub fn preprocess(text: &str) -> Vec<&str> {
    strip_without_blanks(&split_text(text))
}
