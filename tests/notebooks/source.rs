//! A notebook's own source: Rust's tokens, the calls `book.…(…)`, and the code before each of them;
//! it knows no grammar.

use std::collections::HashMap;
use std::ops::Range;

/// A call of the notebook, as it is written.
pub(crate) struct Call<'a> {
    /// From 1.
    pub(crate) line: u32,
    /// Its name.
    pub(crate) method: &'a str,
    /// As they are written, references without their `&`.
    pub(crate) arguments: Vec<&'a str>,
    /// What stands before a cell since the cell before it, calls left out; empty for other calls.
    pub(crate) code: String,
    /// Whether it stands where the book's text is at hand.
    pub(crate) needs_text: bool,
}

impl Call<'_> {
    /// The argument at `place`, if it is a text.
    pub(crate) fn text(&self, place: usize) -> Option<String> {
        let text = self.arguments.get(place)?;
        let inside = text.strip_prefix('"')?.strip_suffix('"')?;
        Some(inside.replace("\\\"", "\""))
    }
}

/// Calls that are part of a notebook and no cells: what stands before them belongs to the next
/// cell.
const NO_CELLS: [&str; 6] = [
    "section",
    "listing",
    "draws",
    "leaves_out",
    "ends_unless",
    "part",
];

/// All calls, in the order of the source.
///
/// A call that begins its line is a statement: it is no part of a cell's code.
/// One within a line is: [`crate::Notebook::the_verdict`] opens a block, whose lines are the
/// cell's, and of an input there is its default, or by its line what `changed` has.
pub(crate) fn calls<'a>(source: &'a str, changed: &HashMap<u32, String>) -> Vec<Call<'a>> {
    let tokens: Vec<Range<usize>> = tokens(source)
        .filter(|(token, kind)| *kind != "comment" && !source[token.clone()].trim().is_empty())
        .map(|(token, _)| token)
        .collect();
    let text = |place: usize| tokens.get(place).map_or("", |token| &source[token.clone()]);
    let line_start = |at: usize| source[..at].rfind('\n').map_or(0, |end| end + 1);
    let line_end = |at: usize| source[at..].find('\n').map_or(source.len(), |end| at + end);
    let mut calls = Vec::new();
    let (mut depth, mut needs_text) = (0, None);
    // Where the next cell's code begins, and what within it is none.
    let (mut from, mut cuts) = (0, Vec::new());
    let mut place = 0;
    while place < tokens.len() {
        let at = tokens[place].start;
        match text(place) {
            "{" => {
                depth += 1;
                if depth == 1 {
                    (from, cuts) = (at + 1, Vec::new()); // a function's body
                }
            }
            "}" => {
                depth -= 1;
                if needs_text == Some(depth) {
                    needs_text = None;
                    cuts.push((line_start(at)..line_end(at), ""));
                }
            }
            "book" if text(place + 1) == "." && text(place + 3) == "(" => {
                let method = text(place + 2);
                let (arguments, close) = arguments(source, &tokens, place + 4);
                let start = line_start(at);
                let mut call = Call {
                    line: 1 + source[..at].matches('\n').count() as u32,
                    method,
                    arguments,
                    code: String::new(),
                    needs_text: needs_text.is_some(),
                };
                let end = line_end(tokens[close].end);
                if method == "the_verdict" {
                    needs_text = Some(depth);
                    cuts.push((start..end, ""));
                } else if method == "input" {
                    let question = usize::from(text(close + 1) == "?");
                    let value = changed.get(&call.line).map(String::as_str);
                    let value = value.unwrap_or(call.arguments[1]);
                    cuts.push((at..tokens[close + question].end, value));
                } else if source[start..at].trim().is_empty() {
                    if NO_CELLS.contains(&method) {
                        cuts.push((start..end, ""));
                    } else {
                        call.code = without(source, from.min(start)..start, &cuts);
                        (from, cuts) = (end, Vec::new());
                    }
                }
                calls.push(call);
                place = close;
            }
            _ => {}
        }
        place += 1;
    }
    calls
}

/// The arguments from the token `place` on, and the place of the bracket that closes them.
fn arguments<'a>(
    source: &'a str,
    tokens: &[Range<usize>],
    mut place: usize,
) -> (Vec<&'a str>, usize) {
    let mut arguments = Vec::new();
    let (mut depth, mut first) = (0, place);
    while place < tokens.len() {
        let token = &source[tokens[place].clone()];
        if depth == 0 && [")", ","].contains(&token) {
            if first < place {
                let argument = &source[tokens[first].start..tokens[place - 1].end];
                arguments.push(argument.trim_start_matches('&'));
            }
            first = place + 1;
            if token == ")" {
                break;
            }
        }
        match token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        place += 1;
    }
    (arguments, place.min(tokens.len() - 1))
}

/// The lines of `part` with `cuts` replaced, without blank ends and their common indentation.
fn without(source: &str, part: Range<usize>, cuts: &[(Range<usize>, &str)]) -> String {
    let mut text = String::new();
    let mut from = part.start;
    for (cut, instead) in cuts {
        text += &source[from..cut.start];
        text += instead;
        from = cut.end;
    }
    text += &source[from.min(part.end)..part.end];
    undented(&text)
}

/// The lines without blank ones at the ends and without their common indentation; a blank line is
/// one.
pub(crate) fn undented(text: &str) -> String {
    let written = text.lines().filter(|line| !line.trim().is_empty());
    let indentation = written.map(|line| line.len() - line.trim_start().len());
    let indentation = indentation.min().unwrap_or(0);
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines() {
        let line = line.get(indentation..).unwrap_or("").trim_end();
        if !line.is_empty() || lines.last().is_some_and(|last| !last.is_empty()) {
            lines.push(line);
        }
    }
    lines.join("\n").trim_end().to_owned()
}

/// The lines of an item, from the first that begins with `start` to its closing brace, and the
/// number of the first.
pub fn item(source: &str, start: &str) -> Option<(usize, String)> {
    let line = source
        .lines()
        .position(|line| line.trim_start().starts_with(start))?;
    let lines: Vec<&str> = source.lines().skip(line).collect();
    let indentation = &lines[0][..lines[0].len() - lines[0].trim_start().len()];
    let end = format!("{indentation}}}");
    let length = lines.iter().position(|line| *line == end)? + 1;
    Some((line + 1, undented(&lines[..length].join("\n"))))
}

const KEYWORDS: [&str; 31] = [
    "as", "break", "const", "continue", "crate", "else", "enum", "false", "fn", "for", "if",
    "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "self",
    "static", "struct", "super", "trait", "true", "use", "where", "while",
];

/// All tokens, blanks too, with what they are: `keyword`, `type`, `text`, `number`, `comment` or
/// nothing.
pub fn tokens(source: &str) -> impl Iterator<Item = (Range<usize>, &'static str)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = &source[start..];
        let (length, kind) = token(rest, rest.chars().next()?);
        start += length;
        Some((start - length..start, kind))
    })
}

/// How long the token at the start of `rest` is, and what it is.
fn token(rest: &str, first: char) -> (usize, &'static str) {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let while_word = |rest: &str| rest.find(|c| !word(c)).unwrap_or(rest.len());
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), "comment");
    }
    for (open, close) in [("r#\"", "\"#"), ("r\"", "\"")] {
        if let Some(inside) = rest.strip_prefix(open) {
            let end = inside
                .find(close)
                .map_or(inside.len(), |at| at + close.len());
            return (open.len() + end, "text");
        }
    }
    match first {
        '"' => (quoted(rest, '"').unwrap_or(rest.len()), "text"),
        // A lifetime has no second quote.
        '\'' => match quoted(rest, '\'') {
            Some(length) if length <= 6 => (length, "text"),
            _ => (1, ""),
        },
        '0'..='9' => {
            let digits = while_word(rest);
            let fraction = rest[digits..].strip_prefix('.').map_or(0, |rest| {
                if rest.starts_with(|c: char| c.is_ascii_digit()) {
                    1 + while_word(rest)
                } else {
                    0
                }
            });
            (digits + fraction, "number")
        }
        _ if word(first) => {
            let length = while_word(rest);
            let kind = match &rest[..length] {
                keyword if KEYWORDS.contains(&keyword) => "keyword",
                _ if first.is_uppercase() => "type",
                _ => "",
            };
            (length, kind)
        }
        _ => (first.len_utf8(), ""),
    }
}

/// The length of a text with both its quotes.
fn quoted(rest: &str, quote: char) -> Option<usize> {
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            _ if character == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.section("3.1", "A \"title\"");
    // What it shows.
    let x = array![1.0, 2.0];
    book.listing("a.rs", "fn a(");
    let y = x + book.input("more", 1)?;

    book.prints("In [3]", &x, "tensor([1., 2.])");
    book.prints(
        "In [3]",
        &x.map(|x| (x, ")")),
        r"a \",
    );
    if let Some(text) = book.the_verdict() {
        let n = text.len();
        book.prints("In [4]", &n, "3");
        drop(n);
    }
    book.draws("a picture", || {
        let y = x + 2;
        draw(&y)
    });
    book.shape("In [5]", &y, &[2]);
    Ok(())
}

fn helper() { "book.prints(" }
"#;

    #[test]
    fn a_cell_has_all_code_since_the_cell_before_whatever_stands_between() {
        let calls = calls(SOURCE, &HashMap::from([(7, "5".to_owned())]));
        let cells: Vec<_> = calls
            .iter()
            .filter(|call| ["prints", "shape"].contains(&call.method))
            .map(|call| {
                (
                    call.line,
                    call.code.as_str(),
                    call.arguments[1],
                    call.needs_text,
                )
            })
            .collect();
        let first = "// What it shows.\nlet x = array![1.0, 2.0];\n\nlet y = x + 5;";
        assert_eq!(
            cells,
            [
                (9, first, "x", false),
                (10, "", "x.map(|x| (x, \")\"))", false),
                (17, "let n = text.len();", "n", true),
                (24, "drop(n);", "y", false),
            ]
        );
        assert_eq!(calls[0].text(1).unwrap(), "A \"title\"");
        assert_eq!(calls.len(), 9);
    }

    #[test]
    fn tokens_are_told_apart_and_nothing_is_lost() {
        let code = "let &'a str = '\\'', \"a // \\\" b\", 0..2.5e3, r\"c\\\"); Vec // end\nself";
        let told = tokens(code).filter(|(_, kind)| !kind.is_empty());
        let told: Vec<_> = told.map(|(at, kind)| (&code[at], kind)).collect();
        assert_eq!(
            told,
            [
                ("let", "keyword"),
                ("'\\''", "text"),
                ("\"a // \\\" b\"", "text"),
                ("0", "number"),
                ("2.5e3", "number"),
                ("r\"c\\\"", "text"),
                ("Vec", "type"),
                ("// end", "comment"),
                ("self", "keyword"),
            ]
        );
        let all: usize = tokens(code).map(|(at, _)| at.len()).sum();
        assert_eq!(all, code.len());
    }
}
