//! The tokens of a model in a page.

use anyhow::Result;
use tokenizer::bpe::{Bpe, Merge, gpt2_piece};
use tokenizer::{Gpt2Tokenizer, Tokenizer};
#[cfg(feature = "notebooks")]
use train::presets::PresetTokenizer;

/// A vocabulary, by which a text becomes ids and ids a text.
pub(crate) enum PageTokenizer {
    Gpt2(Gpt2Tokenizer),
    Own(Box<Bpe>),
    /// The characters in the order of their code points; the next id is the unknown one's.
    #[cfg(feature = "notebooks")]
    Characters(Vec<char>),
}

impl PageTokenizer {
    /// The words of a packed model; without tokens they are GPT-2's.
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

    /// Trains a preset's tokenizer on a text, with the ids that `gpt train` gives the tokens. Also
    /// returns the size of the vocabulary, which includes the end of a text and, beside characters,
    /// the unknown token.
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

    /// The text of ids; where there is none, their numbers.
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
