//! A notebook's own source: the calls `book.…(…)` that it has as statements, and the code
//! between them; Rust's tokens, by which arguments end and pages have colours.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

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

/// How the lines begin with which a function begins.
const FUNCTION: [&str; 3] = ["fn ", "pub(crate) fn ", ") ->"];

/// All inputs, and all calls that are a statement, in the order of the source.
///
/// All lines of a function but its statements `book.…(…);` are the code of its cells.
/// The block that [`crate::Notebook::the_verdict`] opens is no code, its lines are; in place of an
/// input stands its default, or by its line what `changed` has; `let x = x;` says nothing.
pub(crate) fn calls<'a>(source: &'a str, changed: &HashMap<u32, String>) -> Vec<Call<'a>> {
    let mut calls = Vec::new();
    let mut code = String::new();
    let mut block = None; // the indentation of the text's block
    let (mut at, mut number) = (0, 1);
    while let Some(line) = source[at..].split_inclusive('\n').next() {
        let indentation = line.len() - line.trim_start().len();
        let mut end = at + line.len();
        if FUNCTION.iter().any(|start| line.starts_with(start)) {
            code.clear();
        } else if line.ends_with("= book.the_verdict() {\n") {
            block = Some(indentation);
            code.push('\n');
        } else if block == Some(indentation) && line.trim() == "}" {
            block = None;
            code.push('\n');
        } else if let Some((before, method)) = call_in(line) {
            let open = at + before.len() + "book.(".len() + method.len();
            let (arguments, close) = arguments(source, open);
            let mut call = Call {
                line: number,
                method,
                arguments,
                code: String::new(),
                needs_text: block.is_some(),
            };
            let line_end = close + source[close..].find('\n').map_or(0, |end| end + 1);
            if method == "input" {
                let value = changed.get(&number).map_or(call.arguments[1], |it| it);
                if before.trim_start() == format!("let {value} = ") {
                    end = line_end;
                } else {
                    code += before;
                    code += value;
                    end = close + usize::from(source[close..].starts_with('?'));
                }
            } else {
                end = line_end;
                match NO_CELLS.contains(&method) {
                    true => code.push('\n'),
                    false => call.code = undented(&std::mem::take(&mut code)),
                }
            }
            calls.push(call);
        } else {
            code += line;
        }
        number += source[at..end].matches('\n').count() as u32;
        at = end;
    }
    calls
}

/// The call that is a line's statement, or its first input: what stands before it, and its name.
fn call_in(line: &str) -> Option<(&str, &str)> {
    let (before, call) = line.split_once("book.")?;
    if before.trim().is_empty() {
        let (method, _) = call.split_once('(')?;
        let is_name = method.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        return is_name.then_some((before, method));
    }
    let (before, _) = line.split_once("book.input(")?;
    Some((before, "input"))
}

/// The arguments that stand behind a bracket, and where it has been closed.
fn arguments(source: &str, open: usize) -> (Vec<&str>, usize) {
    let mut arguments = Vec::new();
    let (mut depth, mut first) = (0, open);
    for (token, _) in tokens(&source[open..]) {
        let (start, end) = (open + token.start, open + token.end);
        match &source[start..end] {
            mark @ (")" | ",") if depth == 0 => {
                let argument = source[first..start].trim().trim_start_matches('&');
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

/// What Rust is made of: of what fits, the first.
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

/// All tokens, blanks too, with what they are: `keyword`, `type`, `text`, `number`, `comment` or
/// nothing.
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

    const SOURCE: &str = r#"
pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.section("3.1", "A \"title\"");
    // What it shows.
    let x = array![1.0, 2.0];
    book.listing("a.rs", "fn a(");
    let x = book.input("x", x)?;
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
        let calls = calls(SOURCE, &HashMap::from([(8, "5".to_owned())]));
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
                (10, first, "x", false),
                (11, "", "x.map(|x| (x, \")\"))", false),
                (18, "let n = text.len();", "n", true),
                (25, "drop(n);", "y", false),
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
