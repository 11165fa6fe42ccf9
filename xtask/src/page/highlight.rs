//! Rust as HTML: keywords, types, texts, numbers and comments in spans of their own; it knows tokens, no grammar.

use pictures::html::escape;

const KEYWORDS: [&str; 31] = [
    "as", "break", "const", "continue", "crate", "else", "enum", "false", "fn", "for", "if",
    "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "self",
    "static", "struct", "super", "trait", "true", "use", "where", "while",
];

/// The code, ready to stand in `<pre>`.
pub(super) fn highlight(code: &str) -> String {
    let mut html = String::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let (length, class) = token(rest, first);
        let text = escape(&rest[..length]);
        match class {
            "" => html += &text,
            class => html += &format!("<span class=\"{class}\">{text}</span>"),
        }
        rest = &rest[length..];
    }
    html
}

/// How long the token at the start of `rest` is, and its class.
fn token(rest: &str, first: char) -> (usize, &'static str) {
    let while_in = |inside: fn(char) -> bool| rest.find(|c| !inside(c)).unwrap_or(rest.len());
    let word = |c: char| c.is_alphanumeric() || c == '_';
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
            let digits = while_in(|c| c.is_alphanumeric() || c == '_');
            let fraction = rest[digits..].strip_prefix('.').map_or(0, |rest| {
                let length = rest.find(|c| !word(c)).unwrap_or(rest.len());
                if rest.starts_with(|c: char| c.is_ascii_digit()) {
                    1 + length
                } else {
                    0
                }
            });
            (digits + fraction, "number")
        }
        _ if word(first) => {
            let length = while_in(|c| c.is_alphanumeric() || c == '_');
            let class = match &rest[..length] {
                keyword if KEYWORDS.contains(&keyword) => "keyword",
                _ if first.is_uppercase() => "type",
                _ => "",
            };
            (length, class)
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

    #[test]
    fn tokens_are_told_apart_and_nothing_is_lost() {
        let code =
            "let x: Vec<&'a str> = f('\\'', \"a // \\\" b\", 0..2.5e3, r\"c\\\"); // end\nself";
        let html = highlight(code);
        for part in [
            "<span class=\"keyword\">let</span> x",
            "<span class=\"type\">Vec</span>&lt;&amp;'a str",
            "<span class=\"text\">'\\''</span>",
            "<span class=\"text\">&quot;a // \\&quot; b&quot;</span>",
            "<span class=\"number\">0</span>..<span class=\"number\">2.5e3</span>",
            "<span class=\"text\">r&quot;c\\&quot;</span>",
            "<span class=\"comment\">// end</span>\n<span class=\"keyword\">self</span>",
        ] {
            assert!(html.contains(part), "{part}\n{html}");
        }
    }
}
