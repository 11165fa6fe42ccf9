//! 2.3 SimpleTokenizerV1: encode and decode
//!
//! `encode` looks up the id of each word, and refuses an unknown word with an error that contains
//! it. `decode` joins the tokens of the ids with spaces, then takes away the space before each of
//! `, . ? ! " ( ) '`.
//! In Python these are a list comprehension over a dictionary, and `re.sub(r'\s+([,.?!"()\'])',
//! r'\1', text)`.
//!
//! HINT: `map.get(word)` is an Option; `.ok_or_else(|| format!(...))` makes it a Result.
//! HINT: An iterator of Results collects into one Result: `.collect()`.
//! HINT: Replace ` ,` by `,` for each of the marks: `text.replace(" ,", ",")`.

use std::collections::BTreeMap;

/// The id of each word; the error names an unknown one.
pub fn encode(vocabulary: &BTreeMap<String, u32>, words: &[&str]) -> Result<Vec<u32>, String> {
    // SOLUTION
    let id = |word: &&str| {
        let id = vocabulary.get(*word).copied();
        id.ok_or_else(|| format!("unknown word {word:?}"))
    };
    words.iter().map(id).collect()
    // END
}

/// The text of ids; `tokens[id]` is the token of an id.
pub fn decode(tokens: &[String], ids: &[u32]) -> String {
    // SOLUTION
    let words: Vec<&str> = ids.iter().map(|&id| tokens[id as usize].as_str()).collect();
    let mut text = words.join(" ");
    for mark in [",", ".", "?", "!", "\"", "(", ")", "'"] {
        text = text.replace(&format!(" {mark}"), mark);
    }
    text
    // END
}

fn main() {
    practice::simple_tokenizer(encode, decode).print();
    // Your experiments go here.
}
