//! 2.3 SimpleTokenizerV1: encode and decode
//!
//! A model computes with numbers, so a tokenizer gives each word an ID. Write the functions that
//! convert words to IDs and IDs back to text.
//!
//! `encode` returns the ID of each word. If a word isn't in the vocabulary, it returns an error
//! whose text contains the word. It must not skip the word silently, because the model would then
//! read a different text.
//!
//! `decode` returns the text for a list of IDs. It puts a space between two tokens, but no space
//! before the marks `, . ? ! " ( ) '`.
//!
//! HINT: Each lookup in the vocabulary can fail. What should `encode` return if one of them fails?
//! HINT: ids[i] = vocabulary[words[i]]. For the text, join the tokens with " ". Then replace " ,"
//!   with ",", " ." with ".", and so on.
//! HINT: `map.get(word)` returns an `Option`, and `.ok_or_else(|| format!(...))` converts it to a
//!   `Result`. An iterator of results can be collected into a single `Result` with `.collect()`.

use std::collections::BTreeMap;

/// Returns the ID of each word, or an error that contains the unknown word.
pub fn encode(vocabulary: &BTreeMap<String, u32>, words: &[&str]) -> Result<Vec<u32>, String> {
    // SOLUTION
    let id = |word: &&str| {
        let id = vocabulary.get(*word).copied();
        id.ok_or_else(|| format!("unknown word {word:?}"))
    };
    words.iter().map(id).collect()
    // END
}

/// Returns the text for a list of IDs. `tokens[id]` is the token with this ID.
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

// CHECKS

use crate::Report;
use crate::check::{Check, Mistake};

type Encode = fn(&BTreeMap<String, u32>, &[&str]) -> Result<Vec<u32>, String>;
type Decode = fn(&[String], &[u32]) -> String;

fn joined(tokens: &[String], ids: &[u32], separator: &str) -> String {
    let words: Vec<&str> = ids.iter().map(|&id| tokens[id as usize].as_str()).collect();
    words.join(separator)
}

pub(crate) const MISTAKES: &[Mistake<(Encode, Decode)>] = &[
    (
        "the IDs are the positions in the text; look up each word in `vocabulary`",
        (|_, words| Ok((0..words.len() as u32).collect()), decode),
    ),
    (
        "`encode` skips unknown words; return an error that contains the unknown word",
        (
            |ids, words| {
                Ok(words
                    .iter()
                    .filter_map(|word| ids.get(*word).copied())
                    .collect())
            },
            decode,
        ),
    ),
    (
        "the error doesn't contain the unknown word; add the word to its text",
        (
            |ids, words| encode(ids, words).map_err(|_| "unknown word".to_owned()),
            decode,
        ),
    ),
    (
        "`decode` keeps the space before punctuation marks; remove it",
        (encode, |tokens, ids| joined(tokens, ids, " ")),
    ),
    (
        "`decode` joins the words without spaces; put a space between two words",
        (encode, |tokens, ids| joined(tokens, ids, "")),
    ),
    (
        "`decode` also removes the space after punctuation marks; keep it",
        (encode, |tokens, ids| {
            let marks = [",", ".", "?", "!", "\"", "(", ")", "'"];
            let text = decode(tokens, ids);
            marks
                .iter()
                .fold(text, |text, mark| text.replace(&format!("{mark} "), mark))
        }),
    ),
];

/// Checks the learner's `encode` and `decode`.
pub fn check(encode: Encode, decode: Decode) -> Report {
    let mut check = Check::new((encode, decode), MISTAKES);
    let text = "the bell rang, and the boat \"turned\"? No: it's the wind.";
    let words = tokenizer::preprocess(text);
    let mut tokens: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    tokens.sort();
    tokens.dedup();
    let vocabulary: BTreeMap<String, u32> = tokens.iter().cloned().zip(0..).collect();
    let id = |word: &&str| {
        tokens
            .iter()
            .position(|token| token == word)
            .expect("its word") as u32
    };
    let ids: Vec<u32> = words.iter().map(id).collect();
    check.equals("the IDs of a sentence", ids.clone(), |(encode, _)| {
        encode(&vocabulary, &words)
    });
    let error = "... harbour ...".to_owned();
    let expected: Result<Vec<u32>, String> = Err(error.clone());
    check.equals("the unknown word \"harbour\"", expected, |(encode, _)| {
        encode(&vocabulary, &["bell", "harbour"]).map_err(|text| match text.contains("harbour") {
            true => error.clone(),
            false => text,
        })
    });
    let text = "the bell rang, and the boat\" turned\"? No : it' s the wind.";
    check.equals("the text for these IDs", text, |(_, decode)| {
        decode(&tokens, &ids)
    });
    check.holds("encode inverts decode", |(encode, decode)| {
        let text = decode(&tokens, &ids);
        let again = encode(&vocabulary, &tokenizer::preprocess(&text))?;
        match again == ids {
            true => Ok(()),
            false => Err(format!("the IDs are {again:?}, but they should be {ids:?}")),
        }
    });
    check.report()
}
