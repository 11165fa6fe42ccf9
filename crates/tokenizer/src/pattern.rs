//! GPT-2's pattern, which divides a text into words, numbers, punctuation and white space before
//! pairs of bytes are merged.

use std::sync::LazyLock;

use regex::Regex;

/// GPT-2's own but for `\s+(?!\S)`, which [`gpt2_pieces`] adds: looking ahead would cost time in
/// proportion to the square of a text.
static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";
    Regex::new(pattern).expect("a pattern that compiled before")
});

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
    let mut pieces = Vec::new();
    let mut start = 0;
    while let Some(found) = PATTERN.find_at(text, start) {
        let (piece, rest) = (found.as_str(), &text[found.end()..]);
        // Of white space before something else, the last character is left for what follows.
        let last = piece.char_indices().next_back().map_or(0, |(at, _)| at);
        let is_blank = piece.chars().all(char::is_whitespace);
        let end = match is_blank && last > 0 && !rest.is_empty() {
            true => start + last,
            false => found.end(),
        };
        pieces.push(&text[start..end]);
        start = end;
    }
    pieces
}
