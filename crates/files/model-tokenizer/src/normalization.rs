//! Unicode normalization, which some tokenizers apply to text before they divide it into pieces.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfkc_quick};

/// The Unicode normalization form that a tokenizer uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Normalization {
    /// The text isn't normalized.
    #[default]
    None,
    Nfc,
    Nfkc,
}

impl Normalization {
    /// Returns the normalized text. If the text is already normalized, it isn't copied.
    pub(crate) fn apply<'t>(self, text: Cow<'t, str>) -> Cow<'t, str> {
        match self {
            _ if self.is_applied(text.chars()) => text,
            Self::Nfkc => text.nfkc().collect(),
            Self::None | Self::Nfc => text.nfc().collect(),
        }
    }

    /// Returns true if the quick check of the Unicode standard shows that a text, given as its
    /// characters, is already in this normalization form. Returns false if the text isn't
    /// normalized or if the quick check can't decide.
    fn is_applied(self, characters: impl Iterator<Item = char>) -> bool {
        let is_applied = match self {
            Self::None => IsNormalized::Yes,
            Self::Nfc => is_nfc_quick(characters),
            Self::Nfkc => is_nfkc_quick(characters),
        };
        is_applied == IsNormalized::Yes
    }

    /// Returns a vector with one range for each byte of the normalized text. The range contains the
    /// bytes of the original text from which the byte was produced.
    ///
    /// Characters that are normalized together, such as a letter and the accents that follow it,
    /// share one range: each resulting byte gets the range of all these characters. If
    /// normalization doesn't change a byte, its range contains only this byte.
    pub(crate) fn origins(self, text: &str) -> Vec<Range<usize>> {
        let (mut origins, mut start) = (Vec::new(), 0);
        while start < text.len() {
            let mut others = text[start..].char_indices().skip(1);
            let next = others.find(|&(_, c)| self.begins(c));
            let end = next.map_or(text.len(), |(at, _)| start + at);
            let normalized = self.apply(text[start..end].into());
            match normalized == text[start..end] {
                true => origins.extend((start..end).map(|at| at..at + 1)),
                false => origins.extend(normalized.bytes().map(|_| start..end)),
            }
            start = end;
        }
        origins
    }

    /// Returns true if normalization never combines this character with the characters before it.
    fn begins(self, c: char) -> bool {
        let first = match self {
            Self::Nfkc => c.nfkd().next(),
            Self::None | Self::Nfc => c.nfd().next(),
        };
        canonical_combining_class(first.unwrap_or(c)) == 0 && self.is_applied(first.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strings from which the test texts are built: each text consists of three of them. Unicode
    /// normalization composes some of these characters with the previous character (such as the
    /// combining accent U+0301), replaces or decomposes others (such as the ligature "ﬁ"), and
    /// doesn't change the rest.
    const PARTS: [&str; 14] = [
        "a", "e", "\u{301}", "\u{327}", "\u{344}", "é", "\u{212b}", "\u{2126}", "ﬁ", "①",
        "\u{1100}", "\u{1161}", "\u{11a8}", "가",
    ];

    #[test]
    fn each_byte_of_a_normalized_text_comes_from_characters_that_become_it() {
        let texts = PARTS.iter().flat_map(|a| {
            let pairs = PARTS.iter().map(move |b| format!("{a}{b}"));
            pairs.flat_map(|pair| PARTS.iter().map(move |c| format!("{pair}{c}")))
        });
        for text in texts {
            for form in [Normalization::Nfc, Normalization::Nfkc] {
                let normalized = form.apply((&*text).into());
                let origins = form.origins(&text);
                assert_eq!(origins.len(), normalized.len(), "{text:?}");
                assert!(origins.is_sorted_by_key(|range| range.start), "{text:?}");
                let mut at = 0;
                for same in origins.chunk_by(|a, b| a == b) {
                    let part = &text.as_bytes()[same[0].clone()];
                    let new = &normalized.as_bytes()[at..at + same.len()];
                    at += same.len();
                    match str::from_utf8(part) {
                        Ok(part) => assert_eq!(form.apply(part.into()).as_bytes(), new, "{text:?}"),
                        Err(_) => assert_eq!(part, new, "{text:?}"), // The byte doesn't change.
                    }
                }
            }
        }
    }

    #[test]
    fn only_characters_that_change_share_their_origin() {
        let origins = Normalization::Nfc.origins("a\u{2126}e\u{301}b");
        assert_eq!(origins, [0..1, 1..4, 1..4, 4..7, 4..7, 7..8]);
        let origins = Normalization::Nfkc.origins("ﬁx");
        assert_eq!(origins, [0..3, 0..3, 3..4]);
    }
}
