//! The patterns by which tokenizers other than GPT-2's divide text into pieces.

use regex::Regex;
use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{Ast, Visitor, visit};

/// A pattern that divides text into pieces. The matches of the pattern are pieces, and so is the
/// text between two matches.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    regex: Regex,
    /// Whether the pattern must match the whole text. This is the case if the `tokenizers` library
    /// would omit all text that the pattern doesn't match.
    pub(crate) must_match_all: bool,
}

/// A part of almost all regular expressions with which tokenizers divide text. Before a word, it
/// matches all white space except the last character. At the end of the text, it matches all white
/// space. The lookahead `(?!\S)` isn't supported by regular expression engines that match in linear
/// time, so this part is replaced with [`WHITESPACE_GROUP`].
const WHITESPACE: &str = r"\s+(?!\S)";

/// Regular expression that replaces [`WHITESPACE`] and needs no lookahead. It may also match the
/// white space character after the part that [`WHITESPACE`] would match, so only the text of its
/// group `blank` counts as the match.
const WHITESPACE_GROUP: &str = r"(?P<blank>\s+)(?:\z|\s)";

impl Split {
    /// Parses a pattern. Returns `None` if the pattern isn't supported.
    ///
    /// A pattern may contain the alternative `\s+(?!\S)` once. Other lookaheads, possessive
    /// quantifiers and patterns that match the empty string aren't supported. Anchors aren't
    /// supported because their meaning differs between regular expression engines.
    pub(crate) fn new(pattern: &str, must_match_all: bool) -> Option<Self> {
        let parsed = |pattern: &str| Parser::new().parse(pattern).ok();
        let (plain, rest) = match pattern.split_once(WHITESPACE) {
            Some((before, after)) => {
                // Reject patterns in which `\s+(?!\S)` occurs inside a group or as a part of a
                // longer alternative, such as `(a|\s+(?!\S))` or `a\s+(?!\S)`.
                let is_alternative = (before.is_empty() || before.ends_with('|'))
                    && (after.is_empty() || after.starts_with('|'))
                    && parsed(before).and(parsed(after)).is_some();
                let joined = |blank| format!("{before}{blank}{after}");
                is_alternative.then(|| (joined(WHITESPACE_GROUP), joined(r"\s")))?
            }
            None => (pattern.to_owned(), pattern.to_owned()),
        };
        visit(&parsed(&rest)?, Supported).ok()?;
        let regex = Regex::new(&plain).ok()?;
        (!regex.is_match("")).then_some(Self {
            regex,
            must_match_all,
        })
    }

    /// Divides text into pieces. The boolean of each piece is true if the pattern matches the
    /// piece, and false if the piece is text between two matches.
    pub(crate) fn pieces<'t>(&self, text: &'t str) -> impl Iterator<Item = (&'t str, bool)> {
        let (mut behind, mut found) = (0, None);
        std::iter::from_fn(move || {
            found = found.or_else(|| self.first(text, behind));
            let (start, end) = found.unwrap_or((text.len(), text.len()));
            let (piece, is_match) = match behind < start {
                true => (&text[behind..start], false),
                false => (&text[start..end], found.take().is_some()),
            };
            behind += piece.len();
            (!piece.is_empty()).then_some((piece, is_match))
        })
    }

    /// Returns the range of the first match that starts at the position `from` or later.
    fn first(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let found = self.regex.find_at(text, from)?;
        if !found.as_str().ends_with(char::is_whitespace) {
            return Some((found.start(), found.end()));
        }
        let groups = self.regex.captures_at(text, from)?;
        let end = groups
            .name("blank")
            .map_or(found.end(), |blank| blank.end());
        Some((found.start(), end))
    }
}

/// A visitor for the syntax tree of a pattern. It fails if the pattern contains a construct that
/// [`Split::new`] doesn't support.
struct Supported;

impl Visitor for Supported {
    type Output = ();
    type Err = ();

    fn finish(self) -> Result<(), ()> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), ()> {
        let is_supported = match ast {
            Ast::Assertion(_) => false,
            // The second `+` in a pattern such as `a++` has different meanings: for the engine that
            // the `tokenizers` library uses, it makes the first `+` possessive, whereas the crate
            // `regex` repeats the repetition. Such patterns therefore aren't supported.
            Ast::Repetition(outer) => !matches!(*outer.ast, Ast::Repetition(_)),
            _ => true,
        };
        is_supported.then_some(()).ok_or(())
    }
}
