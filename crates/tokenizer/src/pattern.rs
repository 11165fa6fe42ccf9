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

/// Cuts a text before the last white space character before other characters, where `cut` says so,
/// given the part before that character, how many bytes of white space it ends with, and the text
/// from the other characters on.
///
/// GPT-2's pattern divides there anyway: it takes a run of white space followed by text as all but
/// its last character (`\s+(?!\S)`) and the last, which may go with the word after it
/// (` ?\p{L}+`).
///
/// ```
/// let parts = tokenizer::bpe::gpt2_parts("a b  c", |_, blank, _| blank > 0);
/// assert_eq!(parts, ["a b ", " c"]);
/// ```
pub fn gpt2_parts(text: &str, cut: impl Fn(&str, usize, &str) -> bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0; // of the part
    let mut run = None; // where the white space run began, and its last character
    for (at, c) in text.char_indices() {
        if c.is_whitespace() {
            let began = run.map_or(at, |(began, _)| began);
            run = Some((began, at));
        } else if let Some((began, last)) = run.take()
            && cut(&text[start..last], last - began, &text[at..])
        {
            parts.push(&text[start..last]);
            start = last;
        }
    }
    parts.push(&text[start..]);
    parts
}
