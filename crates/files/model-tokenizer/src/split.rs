//! The patterns by which other tokenizers than GPT-2's divide a text into pieces.

use regex::Regex;
use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{Ast, Visitor, visit};

/// A pattern of a pre-tokenizer: its matches and the text between them are pieces.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    regex: Regex,
    /// The pattern must match the whole text, because the library leaves the rest out.
    pub(crate) is_whole: bool,
}

/// White space except the last character, unless it ends the text. Regular expressions in linear
/// time have no lookahead, but this alternative is in nearly all patterns of tokenizers.
const BLANK: &str = r"\s+(?!\S)";

/// The same with a group for the match, because it may take one character too many.
const BLANK_GROUP: &str = r"(?P<blank>\s+)(?:\z|\s)";

impl Split {
    /// Reads a pattern; `None` if it isn't supported.
    ///
    /// It may have the alternative `\s+(?!\S)` once, but no other lookahead, no anchors (whose
    /// meaning differs between the engines that tokenizers use), no possessive repetition, and
    /// must not match an empty text.
    pub(crate) fn new(pattern: &str, is_whole: bool) -> Option<Self> {
        let parsed = |pattern: &str| Parser::new().parse(pattern).ok();
        let (plain, rest) = match pattern.split_once(BLANK) {
            Some((before, after)) => {
                // An alternative of the pattern itself, not one in a group.
                let is_alternative = (before.is_empty() || before.ends_with('|'))
                    && (after.is_empty() || after.starts_with('|'))
                    && parsed(before).and(parsed(after)).is_some();
                let joined = |blank| format!("{before}{blank}{after}");
                is_alternative.then(|| (joined(BLANK_GROUP), joined(r"\s")))?
            }
            None => (pattern.to_owned(), pattern.to_owned()),
        };
        visit(&parsed(&rest)?, Supported).ok()?;
        let regex = Regex::new(&plain).ok()?;
        (!regex.is_match("")).then_some(Self { regex, is_whole })
    }

    /// Returns the pieces of a text, and whether the pattern matches each.
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

    /// Returns the first match from a place on.
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

/// Looks for what [`Split::new`] doesn't support: an error is that it was found.
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
            // Possessive elsewhere, but here a repetition of a repetition.
            Ast::Repetition(outer) => !matches!(*outer.ast, Ast::Repetition(_)),
            _ => true,
        };
        is_supported.then_some(()).ok_or(())
    }
}
