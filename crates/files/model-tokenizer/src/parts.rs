//! Cutting a text where GPT-2's pattern divides it anyway, so that the parts can be encoded by
//! themselves.

use tokenizer::bpe::gpt2_parts;

/// A part is at least as long, except the last.
pub(crate) const MIN: usize = 1 << 16; // bytes

/// Parts for each thread: a slow part holds up little.
const PARTS_PER_THREAD: usize = 4;

/// White space longer than this is refused where it isn't cut: the pattern gives up in it beyond a
/// million characters.
pub(crate) const LONG_BLANK: usize = 500_000; // bytes

/// Cuts a text into some parts for each thread where the pattern divides it anyway, but not before
/// an added token: the text that the pattern sees ends there, and it takes the white space whole.
pub(crate) fn parts(text: &str, begins_with_added: impl Fn(&str) -> bool) -> Vec<&str> {
    let count = PARTS_PER_THREAD * rayon::current_num_threads();
    gpt2_parts(text, MIN.max(text.len() / count), begins_with_added)
}

/// True if other characters follow more than [`LONG_BLANK`] of white space.
pub(crate) fn has_long_blank(text: &str) -> bool {
    let mut blanks = text.trim_end().split(|c: char| !c.is_whitespace());
    blanks.any(|blank| blank.len() > LONG_BLANK)
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
        let word = "x".repeat(MIN);
        let text = format!("{word}{word} \n \n{word}\u{3000}y z");
        let all = parts(&text, none);
        let two = format!("{word}{word} \n ");
        assert_eq!(all, [two.as_str(), &format!("\n{word}"), "\u{3000}y z"]);
        let blank = " ".repeat(MIN + 1);
        assert_eq!(parts(&blank, none), [blank.as_str()]);
    }

    #[test]
    fn texts_are_not_cut_in_the_blanks_before_an_added_token() {
        let word = "x".repeat(MIN);
        let text = format!("{word} \n<|x|> y");
        let all = parts(&text, |rest| rest.starts_with("<|x|>"));
        assert_eq!(all, [format!("{word} \n<|x|>").as_str(), " y"]);
    }
}
