//! Finds the added tokens of a tokenizer, such as `<|endoftext|>`, in a text. This is the first
//! step of encoding the text. The text between these tokens is encoded afterwards, for example by
//! byte pair encoding.
//!
//! Added tokens are strings such as `<|endoftext|>` or `<mask>` that are encoded as a single token
//! wherever they occur. They are found in two passes, as in Hugging Face's `tokenizers` library.
//! The first pass looks for the tokens whose setting `normalized` is false, and divides the text
//! into segments: the tokens that it finds and the text between them. Each segment of text is then
//! normalized, and the second pass looks for the other added tokens in it.
//!
//! If several added tokens start at the same position, the longest of them is found. The settings
//! of an added token can extend it to include the white space before it (`lstrip`) or after it
//! (`rstrip`), or exclude its occurrences inside words (`single_word`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;
use serde::Serialize;

use crate::normalization::Normalization;

/// An added token with its settings in tokenizer.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AddedToken {
    pub(crate) content: String,
    /// Whether occurrences inside a word are ignored.
    pub(crate) single_word: bool,
    /// Whether white space before the token belongs to it.
    pub(crate) lstrip: bool,
    /// Whether white space after the token belongs to it.
    pub(crate) rstrip: bool,
    /// Whether this added token is searched for in the text after its normalization, for example to
    /// the Unicode form NFC. If this is false, the token is searched for in the original text.
    pub(crate) normalized: bool,
    /// Whether this is a special token. On request, transformers omits special tokens from decoded
    /// text.
    pub(crate) special: bool,
}

impl AddedToken {
    /// Returns a token with the default settings of the `tokenizers` library.
    pub(crate) fn new(content: impl Into<String>, special: bool) -> Self {
        Self {
            content: content.into(),
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: !special,
            special,
        }
    }
}

/// A segment of a text that is about to be encoded: either an added token that was found in the
/// first pass, such as `<|endoftext|>`, or the text between two such tokens.
pub(crate) struct Segment<'t> {
    /// Range of bytes of the segment in the original text.
    pub(crate) range: Range<usize>,
    /// The text of this segment. The text of an added token is unchanged. Other text has already
    /// been normalized, for example to the Unicode form NFC.
    pub(crate) text: Cow<'t, str>,
    /// The parts into which `text` is divided, as ranges of bytes in `text`. A part with an ID is
    /// the added token with this ID, and a part without an ID is text that still has to be encoded.
    /// No part is empty.
    pub(crate) parts: Vec<(Option<u32>, Range<usize>)>,
}

/// The added tokens of a tokenizer, by their IDs.
pub(crate) struct AddedTokens {
    tokens: BTreeMap<u32, AddedToken>,
    normalization: Normalization,
    /// The prepared searches for added tokens: one for the first pass over a text, and one for the
    /// second pass. A search is `None` if the tokenizer has no added tokens for this pass.
    passes: [Option<Finder>; 2],
}

/// A search for several tokens at once.
struct Finder {
    search: AhoCorasick,
    ids: Vec<u32>, // the ID of each pattern
}

impl AddedTokens {
    /// Prepares the searches for the given tokens.
    ///
    /// # Errors
    /// Returns an error if the tokens are too long for one search.
    pub(crate) fn new(
        tokens: BTreeMap<u32, AddedToken>,
        normalization: Normalization,
    ) -> Result<Self, aho_corasick::BuildError> {
        let finder = |normalized: bool| {
            let of_pass = tokens
                .iter()
                .filter(|(_, token)| token.normalized == normalized);
            let patterns = of_pass.clone().map(|(_, token)| match normalized {
                true => normalization.apply((&*token.content).into()),
                false => Cow::from(&token.content),
            });
            let patterns: Vec<Cow<str>> = patterns.collect();
            let search = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(patterns.iter().map(|text| text.as_bytes()))?;
            let ids = of_pass.map(|(&id, _)| id).collect();
            Ok((!patterns.is_empty()).then_some(Finder { search, ids }))
        };
        Ok(Self {
            passes: [finder(false)?, finder(true)?],
            normalization,
            tokens,
        })
    }

    pub(crate) fn normalization(&self) -> Normalization {
        self.normalization
    }

    pub(crate) fn tokens(&self) -> &BTreeMap<u32, AddedToken> {
        &self.tokens
    }

    /// Divides a text into segments: the *added tokens* (such as `<|endoftext|>`), which have their
    /// own IDs, and the text between them, which still has to be encoded. The added tokens are
    /// searched for in two passes. The second pass searches only the text that the first pass
    /// leaves.
    pub(crate) fn segments<'t>(&self, text: &'t str) -> Vec<Segment<'t>> {
        let mut segments = Vec::new();
        let [first, second] = &self.passes;
        self.find(first.as_ref(), text, |id, range| {
            let mut parts = Vec::new();
            let mut text = Cow::from(&text[range.clone()]);
            if id.is_some() {
                parts.push((id, 0..text.len()));
            } else {
                text = self.normalization.apply(text);
                self.find(second.as_ref(), &text, |id, range| parts.push((id, range)));
            }
            segments.push(Segment { range, text, parts });
        });
        segments
    }

    /// Divides `text` at the added tokens that `finder` searches for, such as `<|endoftext|>`, and
    /// calls `each` for each part of the text, in order. If the part is an added token, `each`
    /// receives the ID of the token and the part's range of bytes. If the part is text between two
    /// tokens, it receives `None` and the range of bytes.
    ///
    /// Two tokens can claim the same white space if the first token has `rstrip` and the second
    /// token has `lstrip` or consists of white space itself. In this case, the first token gets the
    /// white space. If nothing is left for the second token, it isn't found, whereas the
    /// `tokenizers` library panics. If the second token consists of white space and doesn't have
    /// `lstrip`, it overlaps with the first token, as in the `tokenizers` library.
    fn find(
        &self,
        finder: Option<&Finder>,
        text: &str,
        mut each: impl FnMut(Option<u32>, Range<usize>),
    ) {
        let (mut behind, mut blank_end) = (0, 0);
        let found = finder.into_iter().flat_map(|finder| {
            let all = finder.search.find_iter(text);
            all.map(|found| (finder.ids[found.pattern().as_usize()], found))
        });
        for (id, found) in found {
            let token = &self.tokens[&id];
            let (mut start, mut end) = (found.start(), found.end());
            let before = text[..start].chars().next_back();
            let is_inside_word = is_word(before) || is_word(text[end..].chars().next());
            if token.single_word && is_inside_word {
                continue;
            }
            if token.lstrip {
                let before = text.get(behind..start).unwrap_or_default();
                start = behind + before.trim_end().len();
            }
            if token.rstrip {
                if end > blank_end {
                    blank_end = text.len() - text[end..].trim_start().len();
                }
                end = blank_end;
            }
            if start >= end {
                continue;
            }
            if behind < start {
                each(None, behind..start);
            }
            each(Some(id), start..end);
            behind = end;
        }
        if behind < text.len() {
            each(None, behind..text.len());
        }
    }
}

/// Returns true if the regular expression `\w` matches the character.
fn is_word(c: Option<char>) -> bool {
    static WORD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\w$").expect("a pattern that a test compiles"));
    c.is_some_and(|c| WORD.is_match(c.encode_utf8(&mut [0; 4])))
}
