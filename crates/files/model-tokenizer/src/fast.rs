//! The fast form of a byte-level tokenizer that divides texts as GPT-2 does; the library's ids.

use std::collections::HashMap;

use regex::Regex;
use tokenizer::bpe::{Bpe, Encoder, Merge, bytes_of_letters, gpt2_piece};
use tokenizers::AddedToken;

use crate::gpt2;
use crate::recipe::Checked;

/// Byte pairs, and the added tokens that divide a text.
pub(crate) struct Fast {
    bpe: Bpe,
    added: Option<Regex>,
    ids: HashMap<String, u32>, // of the added tokens
}

impl Fast {
    /// The byte pairs of a recipe; `None` if it has another form or lacks a byte.
    pub(crate) fn pairs_of(recipe: &Checked) -> Option<Bpe> {
        let recipe = recipe.recipe();
        if recipe.form != gpt2::FORM {
            return None;
        }
        let count = recipe.vocabulary.values().max()? + 1;
        let mut tokens = vec![Vec::new(); count as usize];
        for (token, &id) in &recipe.vocabulary {
            if let Some(bytes) = bytes_of_letters(token) {
                tokens[id as usize] = bytes;
            }
        }
        let merges = recipe.merges.iter().map(|(left, right)| {
            let id = |token: &str| recipe.vocabulary.get(token).copied();
            Some(Merge {
                left: id(left)?,
                right: id(right)?,
                id: id(&format!("{left}{right}"))?,
            })
        });
        Bpe::from_merges(tokens, merges.collect::<Option<_>>()?, gpt2_piece).ok()
    }

    /// Adds the added tokens, by their ids; `None` if they take white space with them,
    /// stand only where a word does, or are looked for in two passes.
    pub(crate) fn new<S>(bpe: Bpe, added: &HashMap<u32, AddedToken, S>) -> Option<Self> {
        let is_plain = |token: &AddedToken| !token.lstrip && !token.rstrip && !token.single_word;
        let normalized = added.values().filter(|token| token.normalized).count();
        let is_one_pass = normalized == 0 || normalized == added.len();
        if !is_one_pass || !added.values().all(is_plain) {
            return None;
        }
        let ids = added.iter().map(|(&id, token)| (token.content.clone(), id));
        let ids: HashMap<String, u32> = ids.collect();
        // Of those at one place the longest counts.
        let mut texts: Vec<&String> = ids.keys().collect();
        texts.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
        let pattern = texts.iter().map(|text| regex::escape(text));
        let pattern = pattern.collect::<Vec<_>>().join("|");
        let added = match texts.is_empty() {
            true => None,
            false => Some(Regex::new(&pattern).ok()?),
        };
        Some(Self { bpe, added, ids })
    }

    /// Returns an encoder for texts of so many bytes together.
    pub(crate) fn encoder(&self, bytes: usize) -> Encoder<'_> {
        self.bpe.encoder(bytes)
    }

    /// The ids of a text, in which added tokens are those.
    pub(crate) fn encode(&self, encoder: &mut Encoder, text: &str) -> Vec<u32> {
        let (mut start, mut ids) = (0, Vec::new());
        for found in self.added.iter().flat_map(|added| added.find_iter(text)) {
            encoder.encode_ordinary(&text[start..found.start()], &mut ids);
            ids.push(self.ids[found.as_str()]);
            start = found.end();
        }
        encoder.encode_ordinary(&text[start..], &mut ids);
        ids
    }
}
