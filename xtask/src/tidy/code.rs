//! Rust source with its comments, strings and character literals blanked, so that rules see code alone.
//!
//! Lines stay lines. It knows nested comments and raw strings; it is no parser.

/// `text` with spaces in place of everything that is not code.
pub(super) fn code_of(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = end_of_blank(&bytes, at);
        if end == at {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        for &character in &bytes[at..end] {
            out.push(if character == '\n' { '\n' } else { ' ' });
        }
        at = end;
    }
    out
}

/// Where the comment, string or character literal that begins at `at` ends; `at` itself if none does.
fn end_of_blank(text: &[char], at: usize) -> usize {
    let starts = |wanted: &str| {
        text[at..]
            .iter()
            .copied()
            .zip(wanted.chars())
            .filter(|(a, b)| a == b)
            .count()
            == wanted.len()
    };
    let word_before = at > 0 && (text[at - 1].is_alphanumeric() || text[at - 1] == '_');
    if starts("//") {
        return (at..text.len())
            .find(|&index| text[index] == '\n')
            .unwrap_or(text.len());
    }
    if starts("/*") {
        return end_of_comment(text, at);
    }
    if text[at] == '"' {
        return end_of_string(text, at + 1);
    }
    if !word_before && let Some(end) = end_of_raw_string(text, at) {
        return end;
    }
    if text[at] == '\'' {
        // A character literal closes after one character or an escape; a lifetime doesn't close.
        if text.get(at + 1) == Some(&'\\') {
            return (at + 3..text.len())
                .find(|&index| text[index] == '\'')
                .map_or(text.len(), |index| index + 1);
        }
        if text.get(at + 2) == Some(&'\'') {
            return at + 3;
        }
    }
    at
}

fn end_of_comment(text: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at + 1 < text.len() {
        match (text[at], text[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

fn end_of_string(text: &[char], mut at: usize) -> usize {
    while at < text.len() {
        match text[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// `r"..."`, `r#"..."#` and the byte strings.
fn end_of_raw_string(text: &[char], start: usize) -> Option<usize> {
    let mut at = start;
    if text.get(at) == Some(&'b') {
        at += 1;
    }
    if text.get(at) != Some(&'r') {
        return None;
    }
    at += 1;
    let hashes = text[at..]
        .iter()
        .take_while(|&&character| character == '#')
        .count();
    at += hashes;
    if text.get(at) != Some(&'"') {
        return None;
    }
    let mut close = vec!['"'];
    close.extend(std::iter::repeat_n('#', hashes));
    let rest = &text[at + 1..];
    let end = rest
        .windows(close.len())
        .position(|window| window == close)?;
    Some(at + 1 + end + close.len())
}

/// The lines, from 1, on which `word` stands as a whole word.
pub(super) fn lines_with_word(code: &str, word: &str) -> Vec<usize> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let stands_alone = |line: &str| {
        line.match_indices(word).any(|(start, _)| {
            let before = line[..start].chars().next_back().is_some_and(is_word);
            let after = line[start + word.len()..]
                .chars()
                .next()
                .is_some_and(is_word);
            !before && !after
        })
    };
    code.lines()
        .enumerate()
        .filter(|(_, line)| stands_alone(line))
        .map(|(index, _)| index + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blanked_and_code_stays() {
        let text = "let a = \"unsafe \\\" x\"; // unsafe\nlet b: &'a str = r#\"unsafe \"x\"#; /* unsafe /* y */ z */ f('u', '\\'', b\"unsafe\");\n";
        let code = code_of(text);
        assert!(lines_with_word(&code, "unsafe").is_empty(), "{code}");
        for kept in ["let a =", "let b: &'a str =", "f(", ");"] {
            assert!(code.contains(kept), "{kept} in {code}");
        }
        assert_eq!(code.lines().count(), 2);
    }

    #[test]
    fn a_word_is_found_where_it_stands_alone() {
        assert_eq!(
            lines_with_word("unsafe_code\nunsafe {\nx unsafe\n", "unsafe"),
            [2, 3]
        );
    }
}
