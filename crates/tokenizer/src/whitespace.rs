//! Python's definition of white space, which applies to `\s` in regular expressions and to the
//! method `str.strip`.
//!
//! In Python, white space consists of the characters with the Unicode property White_Space and the
//! four information separators U+001C to U+001F. In GPT-2's pattern, however, `\s` doesn't match
//! the four information separators. This is the same in tiktoken and in this crate.

/// Returns true if `\s` matches the character in Python. `str.isspace` gives the same result.
///
/// ```
/// assert!(tokenizer::is_python_whitespace('\u{1c}')); // file separator: not Unicode White_Space
/// assert!(tokenizer::is_python_whitespace('\u{a0}')); // no-break space
/// assert!(!tokenizer::is_python_whitespace('\u{200b}')); // zero width space
/// ```
pub fn is_python_whitespace(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Removes white space from both ends of a string, like Python's `text.strip()`.
///
/// ```
/// assert_eq!(tokenizer::python_strip(" ! \u{1f}"), "!");
/// ```
pub fn python_strip(text: &str) -> &str {
    text.trim_matches(is_python_whitespace)
}

#[cfg(test)]
mod tests {
    use super::is_python_whitespace;

    /// Code points of all characters `c` that `re.fullmatch(r"\s", c)` matches in CPython 3.11. For
    /// exactly these characters, `c.strip()` returns an empty string.
    const CPYTHON: [u32; 29] = [
        0x9, 0xa, 0xb, 0xc, 0xd, 0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x85, 0xa0, 0x1680, 0x2000, 0x2001,
        0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029,
        0x202f, 0x205f, 0x3000,
    ];

    #[test]
    fn every_code_point_is_white_space_exactly_where_python_says() {
        let ours: Vec<u32> = (0..=0x10_ffff)
            .filter(|&code| char::from_u32(code).is_some_and(is_python_whitespace))
            .collect();
        assert_eq!(ours, CPYTHON);
    }
}
