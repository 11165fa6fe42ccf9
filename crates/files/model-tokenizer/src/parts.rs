//! Cutting a text where GPT-2's pattern divides it anyway, so that the parts can be encoded by
//! themselves.

use tokenizer::bpe::gpt2_parts;

/// A part is at least as long, except the last.
const LEAST: usize = 1 << 16; // bytes

/// White space runs longer than this are cut too: the pattern gives up in them beyond a million
/// characters.
pub(crate) const LONG_BLANK: usize = 500_000; // characters

/// Cuts a text where the pattern divides it anyway, but not before an added token: the text that
/// the pattern sees ends there, and it takes the white space whole.
pub(crate) fn parts(text: &str, begins_with_added: impl Fn(&str) -> bool) -> Vec<&str> {
    gpt2_parts(text, |part, _, rest| {
        part.len() >= LEAST && !begins_with_added(rest)
    })
}

/// Where the first run of more than [`LONG_BLANK`] white space characters begins, in bytes, and how
/// long it is.
pub(crate) fn long_blank(text: &str) -> Option<(usize, usize)> {
    let mut run = (0, 0); // where it begins, in bytes, and its characters
    let mut longest = None;
    for (at, c) in text.char_indices() {
        if c.is_whitespace() {
            run = (if run.1 == 0 { at } else { run.0 }, run.1 + 1);
            if run.1 > LONG_BLANK {
                longest = Some(run);
            }
        } else if longest.is_some() {
            break;
        } else {
            run.1 = 0;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As with no added tokens.
    fn none(_: &str) -> bool {
        false
    }

    #[test]
    fn texts_are_cut_before_a_blank_before_a_word_and_nowhere_else() {
        assert_eq!(parts("", none), [""]);
        let word = "x".repeat(LEAST);
        let text = format!("{word}{word} \n \n{word}\u{3000}y z");
        let all = parts(&text, none);
        let two = format!("{word}{word} \n ");
        assert_eq!(all, [two.as_str(), &format!("\n{word}"), "\u{3000}y z"]);
        let blank = " ".repeat(LEAST + 1);
        assert_eq!(parts(&blank, none), [blank.as_str()]);
    }

    #[test]
    fn texts_are_not_cut_in_the_blanks_before_an_added_token() {
        let word = "x".repeat(LEAST);
        let text = format!("{word} \n<|x|> y");
        let all = parts(&text, |rest| rest.starts_with("<|x|>"));
        assert_eq!(all, [format!("{word} \n<|x|>").as_str(), " y"]);
    }

    #[test]
    fn a_long_run_of_white_space_is_found_with_its_place() {
        let blank = "\u{3000}".repeat(LONG_BLANK);
        assert_eq!(long_blank(&format!("a {blank}")), Some((1, LONG_BLANK + 1)));
        assert_eq!(long_blank(&format!("a{blank}b{blank}")), None);
        assert_eq!(long_blank(&format!("{blank} b")), Some((0, LONG_BLANK + 1)));
    }
}
