//! The tokenizers of the models that run inside a web page.

use anyhow::Result;
use tokenizer::bpe::{Bpe, Merge, gpt2_piece};
use tokenizer::{Gpt2Tokenizer, Tokenizer};
#[cfg(feature = "notebooks")]
use train::presets::PresetTokenizer;

/// A tokenizer, which converts text to token IDs and back.
pub(crate) enum PageTokenizer {
    Gpt2(Gpt2Tokenizer),
    Own(Box<Bpe>),
    /// A vocabulary of characters, sorted by code point. The ID of a character is its index in the
    /// vector. The unknown token has the next ID after the last character.
    #[cfg(feature = "notebooks")]
    Characters(Vec<char>),
}

impl PageTokenizer {
    /// Creates the tokenizer of a packed model. `tokens` are its tokens in the order of their IDs.
    /// Each of the `merges` consists of the left ID, the right ID and the merged ID. If `tokens` is
    /// empty, returns GPT-2's tokenizer.
    ///
    /// # Errors
    /// Returns an error if the merges don't match the tokens.
    pub(crate) fn of(tokens: Vec<Vec<u8>>, merges: &[(u32, u32, u32)]) -> Result<Self> {
        if tokens.is_empty() {
            return Ok(Self::Gpt2(Gpt2Tokenizer::new()));
        }
        let merges = merges
            .iter()
            .map(|&(left, right, id)| Merge { left, right, id });
        let bpe = Bpe::from_merges(tokens, merges.collect(), gpt2_piece)?;
        Ok(Self::Own(Box::new(bpe)))
    }

    /// Trains the tokenizer that a preset uses. The tokens get the same IDs as in `gpt train`. Also
    /// returns the size of the vocabulary, which includes `<|endoftext|>` and, for a vocabulary of
    /// characters, the unknown token.
    #[cfg(feature = "notebooks")]
    pub(crate) fn train(text: &str, preset: PresetTokenizer) -> Result<(Self, usize)> {
        use tokenizer::bpe::BpeConfig;

        match preset {
            PresetTokenizer::Gpt2 => {
                let gpt2 = Gpt2Tokenizer::new();
                let size = gpt2.vocab_size();
                Ok((Self::Gpt2(gpt2), size))
            }
            PresetTokenizer::Chars => {
                let characters: std::collections::BTreeSet<char> = text.chars().collect();
                let size = characters.len() + 2;
                Ok((Self::Characters(characters.into_iter().collect()), size))
            }
            PresetTokenizer::Bpe(size) => {
                let config = BpeConfig {
                    vocab_size: size - 1,
                    ..BpeConfig::default()
                };
                let bpe = Bpe::train(text, &config)?;
                let size = bpe.vocab_size() + 1;
                Ok((Self::Own(Box::new(bpe)), size))
            }
        }
    }

    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(match self {
            Self::Gpt2(words) => words.encode(text)?,
            Self::Own(words) => words.encode(text)?,
            #[cfg(feature = "notebooks")]
            Self::Characters(all) => {
                let id = |c: char| all.binary_search(&c).unwrap_or(all.len()) as u32;
                text.chars().map(id).collect()
            }
        })
    }

    /// Returns the text of the tokens with these IDs. If an ID can't be decoded, returns the list
    /// of IDs as text, such as `[300]`.
    pub(crate) fn text_of(&self, ids: &[u32]) -> String {
        let text = match self {
            Self::Gpt2(words) => words.decode_lossy(ids),
            Self::Own(words) => words.decode_lossy(ids),
            #[cfg(feature = "notebooks")]
            Self::Characters(all) => {
                let character = |&id: &u32| all.get(id as usize).copied().unwrap_or('\u{FFFD}');
                Ok(ids.iter().map(character).collect())
            }
        };
        text.unwrap_or_else(|_| format!("{ids:?}"))
    }
}
