//! Unicode normalization, which some tokenizers apply to a text before they divide it.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfkc_quick};

/// The form of Unicode that a tokenizer brings a text into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Normalization {
    /// The text stays as it is.
    #[default]
    None,
    Nfc,
    Nfkc,
}

impl Normalization {
    /// Returns a text in this form.
    pub(crate) fn apply<'t>(self, text: Cow<'t, str>) -> Cow<'t, str> {
        match self {
            _ if self.is_applied(text.chars()) => text,
            Self::Nfkc => text.nfkc().collect(),
            Self::None | Self::Nfc => text.nfc().collect(),
        }
    }

    /// True if characters surely are in this form.
    fn is_applied(self, characters: impl Iterator<Item = char>) -> bool {
        let is_applied = match self {
            Self::None => IsNormalized::Yes,
            Self::Nfc => is_nfc_quick(characters),
            Self::Nfkc => is_nfkc_quick(characters),
        };
        is_applied == IsNormalized::Yes
    }

    /// Returns the bytes of a text that each byte of its normalized form comes from: itself, or
    /// all characters that are normalized together.
    pub(crate) fn origins(self, text: &str) -> Vec<Range<usize>> {
        let begins =
            |c: char| canonical_combining_class(c) == 0 && self.is_applied([c].into_iter());
        let (mut origins, mut start) = (Vec::new(), 0);
        while start < text.len() {
            let mut others = text[start..].char_indices().skip(1);
            let next = others.find(|&(_, c)| begins(c));
            let end = next.map_or(text.len(), |(at, _)| start + at);
            match self.apply(text[start..end].into()) {
                Cow::Borrowed(_) => origins.extend((start..end).map(|at| at..at + 1)),
                Cow::Owned(new) => origins.extend(new.bytes().map(|_| start..end)),
            }
            start = end;
        }
        origins
    }
}
