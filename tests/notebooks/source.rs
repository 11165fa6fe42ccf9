//! Parses the Rust source code of a notebook, so that a web page or a terminal can show it to
//! learners. A notebook is a Rust port of one of the book's Python notebooks. In its code, `book`
//! is a variable of type [`crate::Notebook`]. The methods of this type show computed values and
//! compare them with the output of the Python notebook. [`calls`] finds the calls to these methods,
//! such as `book.prints(…)`, and the code between them. [`item`] finds functions and types that a
//! notebook shows as listings.
//!
//! [`tokens`] splits Rust code into tokens, such as keywords and string literals. This module uses
//! the tokens to find the end of a call's arguments. The web pages that show notebooks use them for
//! syntax highlighting.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::book::read_file;

/// A call to a method of the variable `book`, such as `book.prints(…)`, in the source code of a
/// notebook. Each of these calls shows something to learners, reads an input, or supports the
/// notebook's prose. The calls divide the source code into cells and the other parts that learners
/// see.
pub(crate) struct Call<'a> {
    /// Line number of the call in the notebook's source file, starting from 1.
    pub(crate) line: u32,
    /// Name of the `book` method that is called, such as `prints`.
    pub(crate) method: &'a str,
    /// Source code of each argument of the call, without a leading `&`. For example, the argument
    /// `&x` is stored as `x`. If the argument is the name of a string constant, this is the string
    /// literal that defines the constant.
    pub(crate) arguments: Vec<&'a str>,
    /// Code of the notebook between the previous statement that calls a `book` method and this one.
    /// Learners see it as the code of a cell. The field is empty if this call reads an input, as in
    /// `let seed = book.input(…);`. In this case, the statement that contains the call is included
    /// in the `code` field of the next statement's [`Call`].
    pub(crate) code: String,
}

impl Call<'_> {
    /// Returns the text of an argument of this call. If the argument is a string literal, its text
    /// is the value of the string, without quotes and escapes. Otherwise, its text is its source
    /// code. For example, in `book.prints("In [3]", &x, …)`, the argument at index 0 has the text
    /// `In [3]`, and the argument at index 1 has the text `x`. Returns `None` if the call has no
    /// argument at index `place`.
    pub(crate) fn text(&self, place: usize) -> Option<String> {
        static ESCAPE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"(?s)\\(\n\s*|x20|.)").expect("a regular expression"));
        let code = *self.arguments.get(place)?;
        let raw = code.trim_start_matches('r').trim_matches('#');
        let Some(inside) = raw.strip_prefix('"').and_then(|it| it.strip_suffix('"')) else {
            return Some(code.split_whitespace().collect::<Vec<_>>().join(" "));
        };
        let character = |escape: &Captures<'_>| match &escape[1] {
            "n" => "\n".to_owned(),
            "x20" => " ".to_owned(),
            end if end.starts_with('\n') => String::new(),
            other => other.to_owned(),
        };
        Some(match code.starts_with('r') {
            true => inside.to_owned(),
            false => ESCAPE.replace_all(inside, character).into_owned(),
        })
    }
}

/// Returns the calls to methods of the variable `book` in `source`, the source code of a notebook,
/// in their original order. Two kinds of calls are included: statements such as `book.prints(…);`,
/// and calls that read an input, as in `let seed = book.input(…);`.
///
/// If a call is part of a larger statement, learners see other code in its place. If `changed`
/// contains code for the line number of the call, such as the value that the learner has entered,
/// they see this code. Otherwise, they see the argument that specifies the default value. For
/// example, `book.input("seed", 123, ..)` is replaced with `123`. A call without arguments returns
/// the book's text, so it is replaced with code that reads the-verdict.txt.
pub(crate) fn calls<'a>(source: &'a str, changed: &HashMap<u32, String>) -> Vec<Call<'a>> {
    static CALL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\bbook\.([a-z_]+)\(").expect("a regular expression"));
    let (mut calls, mut code, mut at) = (Vec::new(), String::new(), 0);
    while let Some(call) = CALL.captures_at(source, at) {
        let (start, method) = (call.get_match().start(), call.extract::<1>().1[0]);
        let (arguments, end) = arguments(source, call.get_match().end());
        let line_start = source[..start].rfind('\n').map_or(0, |end| end + 1);
        let line = source[..start].matches('\n').count() as u32 + 1;
        let is_statement = source[line_start..start].trim().is_empty() && !is_input(method);
        code += &source[at..if is_statement { line_start } else { start }];
        at = end;
        if is_statement {
            at += source[end..].find('\n').map_or(0, |end| end + 1);
        } else {
            let default = arguments.get(1).or(arguments.first()).copied();
            let written = || default.map_or_else(|| read_file("the-verdict.txt"), str::to_owned);
            // In the code that learners see, a call that reads an input is replaced with the
            // input's value. If this value has several lines, such as a matrix with one line per
            // row, all lines are indented like the line that contains the call.
            let indentation: String = source[line_start..]
                .chars()
                .take_while(|&c| c == ' ')
                .collect();
            let replacement = changed.get(&line).cloned().unwrap_or_else(written);
            code += &replacement.replace('\n', &format!("\n{indentation}"));
        }
        if is_statement || is_input(method) {
            calls.push(Call {
                line,
                method,
                arguments,
                code: match is_statement {
                    true => std::mem::take(&mut code),
                    false => String::new(),
                },
            });
            if is_statement && !HIDDEN.contains(&method) {
                code.push('\n');
            }
        }
    }
    calls
}

/// Names of the `book` methods that only support the prose of a notebook. They compute values that
/// the prose mentions, or check statements in the prose. In the code that learners see, a statement
/// that calls one of these methods leaves no trace. A statement that calls any other `book` method
/// is replaced with a blank line.
const HIDDEN: [&str; 3] = ["value", "holds", "aside"];

/// Returns true if `method` is the name of a `book` method that reads an input of the notebook. An
/// input is a value, such as a seed, that learners can change.
fn is_input(method: &str) -> bool {
    ["input", "input_of_text"].contains(&method)
}

/// Returns the source code of each argument of a call in a notebook, such as `book.prints(…)`. Also
/// returns the byte offset directly after the call's closing parenthesis. `open` is the byte offset
/// directly after its opening parenthesis.
fn arguments(source: &str, open: usize) -> (Vec<&str>, usize) {
    let mut arguments = Vec::new();
    let (mut depth, mut first) = (0, open);
    for (token, _) in tokens(&source[open..]) {
        let (start, end) = (open + token.start, open + token.end);
        match &source[start..end] {
            mark @ (")" | ",") if depth == 0 => {
                let argument = source[first..start].trim().trim_start_matches('&');
                let argument = constant(source, argument).unwrap_or(argument);
                arguments.extend((!argument.is_empty()).then_some(argument));
                if mark == ")" {
                    return (arguments, end);
                }
                first = end;
            }
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    (arguments, source.len())
}

/// Returns the string literal, including its quotes, that defines the constant `name` in the source
/// code of a notebook. For example, if the code contains `const TEXT: &str = "a b";`, the result
/// for `TEXT` is `"a b"`. Returns `None` if the source code contains no string constant with this
/// name.
fn constant<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let is_constant = name.bytes().all(|c| c == b'_' || c.is_ascii_uppercase());
    let definition = is_constant.then(|| format!("const {name}: &str = "))?;
    let at = source.find(&definition)? + definition.len();
    let (literal, _) = tokens(&source[at..]).next()?;
    Some(&source[at..][literal])
}

/// Removes lint attributes such as `#[allow(dead_code)]` and `#[expect(…)]` from the Rust code that
/// a notebook shows, because they don't help learners to understand the code.
pub(crate) fn without_lints(code: &str) -> String {
    static LINT: LazyLock<Regex> = LazyLock::new(|| {
        let attribute = r"(?ms)^[ ]*#\[(expect|allow)\(.*?\)\]\n";
        Regex::new(attribute).expect("a regular expression")
    });
    LINT.replace_all(code, "").into_owned()
}

/// Removes details that learners don't need from a listing, which is the source code of a function
/// or type that a notebook shows. Removes the visibility `pub(crate)`. Also removes the end of each
/// doc comment, starting with the first example or the first section about errors or panics.
fn without_details(code: &str) -> String {
    static DETAILS: LazyLock<Regex> = LazyLock::new(|| {
        let details = r"(?m)(^ *///\n)?^ */// (```|# (Errors|Panics)).*\n(^ *///.*\n)*";
        Regex::new(details).expect("a regular expression")
    });
    DETAILS.replace_all(code, "").replace("pub(crate) ", "")
}

/// Formats a piece of a notebook's source code or prose for learners. Removes the indentation that
/// all lines have in common, blank lines at the beginning and at the end of the text, and blank
/// lines before a closing brace. Reduces consecutive blank lines to one.
pub(crate) fn undented(text: &str) -> String {
    let written = text.lines().filter(|line| !line.trim().is_empty());
    let indentation = written.map(|line| line.len() - line.trim_start().len());
    let indentation = indentation.min().unwrap_or(0);
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines() {
        let line = line.get(indentation..).unwrap_or("").trim_end();
        if line.trim_start().starts_with('}') && lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        }
        if !line.is_empty() || lines.last().is_some_and(|last| !last.is_empty()) {
            lines.push(line);
        }
    }
    lines.join("\n").trim_end().to_owned()
}

/// Finds a function, type or other item in Rust source code, so that a notebook can show it as a
/// listing. The first line of the item must begin with `start`, such as `pub fn generate(`, not
/// counting indentation. Returns the number of this line, starting from 1. Also returns the code
/// from this line to the item's closing brace, without details that learners don't need. Returns
/// `None` if no line begins with `start` or if the closing brace is missing.
pub fn item(source: &str, start: &str) -> Option<(usize, String)> {
    let line = source
        .lines()
        .position(|line| line.trim_start().starts_with(start))?;
    let lines: Vec<&str> = source.lines().skip(line).collect();
    let indentation = &lines[0][..lines[0].len() - lines[0].trim_start().len()];
    let end = format!("{indentation}}}");
    let length = lines.iter().position(|line| *line == end)? + 1;
    let item = without_details(&without_lints(&lines[..length].join("\n")));
    Some((line + 1, undented(&item)))
}

/// Matches a single token of Rust code, such as a keyword, a number or a string literal. The
/// regular expression tries its alternatives in order, so the pattern for keywords must come before
/// the pattern for other words.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    let tokens = r##"(?xs)
        (?<comment> //[^\n]* )
        | (?<text> r\#".*?"\# | r"[^"]*" | "(\\.|[^"\\])*" | '(\\.[^']*|[^'\\])' )
        | (?<number> [0-9]\w*(\.[0-9]\w*)? )
        | (?<keyword> (as|break|const|continue|crate|else|enum|false|fn|for|if|impl|in|let|loop
            |match|mod|move|mut|pub|ref|return|self|static|struct|super|trait|true|use|where|while)\b )
        | (?<type> \p{Lu}\w* )
        | \w+ | \s+ | ."##;
    Regex::new(tokens).expect("a regular expression")
});

/// Splits Rust code into tokens, including whitespace, and returns the byte range and the kind of
/// each token. The kind is `keyword`, `type`, `text` (a string or character literal), `number`,
/// `comment`, or an empty string for any other token.
pub fn tokens(source: &str) -> impl Iterator<Item = (Range<usize>, &'static str)> {
    const KINDS: [&str; 5] = ["comment", "text", "number", "keyword", "type"];
    TOKEN.captures_iter(source).map(|token| {
        let kind = KINDS.into_iter().find(|kind| token.name(kind).is_some());
        (token.get_match().range(), kind.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Notebook;
    use crate::contents::{Part, contents};

    const SOURCE: &str = r#"
pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.section("3.1", "A \"title\"");
    // Its purpose.
    let x = array![1.0, 2.0];
    book.listing("a.rs", "fn a(");
    let y = x + book.input("more", 1, 1..=4);

    book.prints("In [3]", &x, "tensor([1., 2.])");
    book.prints(
        "In [3]",
        &x.map(|x| (x, ")")),
        "\
a \\
b",
    );
    let text = book.the_verdict()?;
    book.not_in_a_page()?;
    book.prints("In [4]", &text.len(), "3");
    drop(text);
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
        let mut book = Notebook::default();
        book.code
            .insert(7, "array![\n    5.0,\n    6.0,\n]".to_owned());
        let parts = contents(SOURCE, book);
        let cells = crate::cells(&parts).map(|cell| (cell.line, &*cell.about, &*cell.code));
        let first = "let x = array![1.0, 2.0];\n\nlet y = x + array![\n    5.0,\n    6.0,\n];\nx";
        let text = "let text = &std::fs::read_to_string(\"the-verdict.txt\")?;\ntext.len()";
        assert_eq!(
            cells.collect::<Vec<_>>(),
            [
                (9, "Its purpose.", first),
                (10, "", "x.map(|x| (x, \")\"))"),
                (19, "", text),
                (25, "", "drop(text);\ny.shape()"),
            ]
        );
        let Part::Section { title, .. } = &parts[0] else {
            panic!("a section")
        };
        assert_eq!(title, "A \"title\"");
        let printed = crate::cells(&parts)
            .nth(1)
            .and_then(|cell| cell.printed.clone());
        assert_eq!(printed.as_deref(), Some("a \\\nb"));
    }

    #[test]
    fn a_listing_has_no_lists_of_errors() {
        let source = "impl A {\n    /// Does it.\n    ///\n    /// ```\n    /// a();\n    /// ```\n    ///\n    /// # Errors\n    /// Never.\n    fn a() {}\n}\n";
        let (line, code) = item(source, "impl A").unwrap();
        assert_eq!(line, 1);
        assert_eq!(code, "impl A {\n    /// Does it.\n    fn a() {}\n}");
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
