//! Unicode normalization, which some tokenizers apply to a text before they divide it.

use std::borrow::Cow;

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
        let is_normalized = match self {
            Self::None => IsNormalized::Yes,
            Self::Nfc => is_nfc_quick(text.chars()),
            Self::Nfkc => is_nfkc_quick(text.chars()),
        };
        match self {
            _ if is_normalized == IsNormalized::Yes => text,
            Self::Nfkc => text.nfkc().collect(),
            Self::None | Self::Nfc => text.nfc().collect(),
        }
    }
}
