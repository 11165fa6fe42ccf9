//! Added tokens, which are found in a text before it is divided into pieces.
//!
//! They are found as the library tokenizers finds them: first the tokens that aren't normalized,
//! in the text as it is, then the others, in the rest of the text after its normalization. Of
//! several tokens at one place the longest counts. A token may take the white space beside it
//! (`lstrip`, `rstrip`), or count only where no letter or digit is beside it (`single_word`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;
use serde::Serialize;

use crate::normalization::Normalization;

/// An added token, as tokenizer.json describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AddedToken {
    pub(crate) content: String,
    /// The token isn't found inside a word.
    pub(crate) single_word: bool,
    /// White space before the token belongs to it.
    pub(crate) lstrip: bool,
    /// White space after the token belongs to it.
    pub(crate) rstrip: bool,
    /// The token is looked for in the normalized text.
    pub(crate) normalized: bool,
    /// The token isn't text, and transformers leaves it out of a decoded text if asked to.
    pub(crate) special: bool,
}

impl AddedToken {
    /// A token with the library's defaults.
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

/// An added token that isn't normalized, or the text between two of them.
pub(crate) struct Segment<'t> {
    /// Range of bytes in the text before its normalization.
    pub(crate) range: Range<usize>,
    /// The segment after its normalization.
    pub(crate) text: Cow<'t, str>,
    /// Ranges of bytes in `text`, which together are the whole segment. A range is an added token
    /// with the given ID, or text to encode. No range is empty.
    pub(crate) parts: Vec<(Option<u32>, Range<usize>)>,
}

/// The added tokens of a tokenizer, by their ids.
pub(crate) struct AddedTokens {
    tokens: BTreeMap<u32, AddedToken>,
    normalization: Normalization,
    /// The tokens that are found before and after the normalization.
    passes: [Option<Finder>; 2],
}

/// Finds some of the tokens.
struct Finder {
    search: AhoCorasick,
    ids: Vec<u32>, // of the search's patterns
}

impl AddedTokens {
    /// # Errors
    /// If the tokens are too many to search for.
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

    /// Divides a text at its added tokens.
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

    /// Calls `each` for the tokens of a pass, with their ids, and for the text between them.
    ///
    /// Two tokens may want the same white space: with `rstrip` for the first, and if the second
    /// is itself white space or has `lstrip`. The second then has what the first left, and isn't
    /// there if nothing is left. (The library panics there.) Without `lstrip` a second token of
    /// white space overlaps the first, as in the library.
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

/// True for a character of words, in the sense of regular expressions.
fn is_word(c: Option<char>) -> bool {
    static WORD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\w$").expect("a pattern that a test compiles"));
    c.is_some_and(|c| WORD.is_match(c.encode_utf8(&mut [0; 4])))
}
