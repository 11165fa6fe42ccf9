//! Cutting a text where GPT-2's pattern divides it anyway, so that the parts can be encoded by
//! themselves.

use tokenizer::bpe::gpt2_parts;

/// A part is at least as long, except the last.
const LEAST: usize = 1 << 16; // bytes

/// White space longer than this is refused where it isn't cut: the pattern gives up in it beyond a
/// million characters.
pub(crate) const LONG_BLANK: usize = 500_000; // bytes

/// Cuts a text where the pattern divides it anyway, but not before an added token: the text that
/// the pattern sees ends there, and it takes the white space whole.
pub(crate) fn parts(text: &str, begins_with_added: impl Fn(&str) -> bool) -> Vec<&str> {
    gpt2_parts(text, |part, _, rest| {
        part.len() >= LEAST && !begins_with_added(rest)
    })
}

/// True if white space of more than [`LONG_BLANK`] stands before other characters.
pub(crate) fn has_long_blank(text: &str) -> bool {
    gpt2_parts(text, |_, blank, _| blank > LONG_BLANK).len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For no added tokens.
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
}
